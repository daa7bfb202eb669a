"""Convolutional grades on Fashion-MNIST, beside the same layers in one network, trained end to end.

    apt-get install dataset-fashion-mnist
    python -m benchmarks.any_network /usr/share/datasets/fashion-mnist --method grades --epochs 6 --seed 0

Methods: ``grades`` (frozen features, the loss sees the sum), ``end`` (one network of the same layers), ``raw`` (frozen
features, but every grade is fitted to the labels and the last one predicts), ``unfrozen`` (every stage adds a block and
a head and trains all blocks so far). ``--wrong 0.2`` gives a fifth of the training labels a random class. Three blocks
of two 3 x 3 convolutions with 16, 32, 64 channels, batch normalisation, Adam with one cycle of the rate per stage,
batches of 128, cross-entropy. 55,000 pictures train, the other 5,000 of the training files are the validation data;
nothing is chosen by the test pictures. Prints a line of JSON per stage: accuracies, seconds of the processor and of the
clock.
"""

import argparse
import dataclasses
import gzip
import json
import time
from pathlib import Path

import jax
import numpy as np

from multigrade import Plan, Regression, fit_grades, structures, warmup_cosine
from multigrade.networks import EndToEnd, Variables
from multigrade.training import Fit
from multigrade.training.objectives import Multinomial, accuracy

CHANNELS = ((16, 16), (32, 32), (64, 64))
BATCH, RATE, NUM_VALIDATION = 128, 3e-3, 5000


def idx(path: Path) -> np.ndarray:
    """An array in the IDX format of the MNIST files: zeros, a type, the number of axes, their lengths, the bytes."""
    content = gzip.decompress(path.read_bytes())
    shape = np.frombuffer(content, ">i4", content[3], 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(shape)


def load(folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Pictures (N, 28, 28, 1) from 0 to 1 and labels: train, validation, test."""
    whole = {
        name: (idx(folder / f"{prefix}-images-idx3-ubyte.gz"), idx(folder / f"{prefix}-labels-idx1-ubyte.gz"))
        for name, prefix in (("train", "train"), ("test", "t10k"))
    }
    data = {name: (np.float32(x)[..., None] / 255, y.astype(np.int32)) for name, (x, y) in whole.items()}
    x, y = data["train"]
    return {
        "train": (x[:-NUM_VALIDATION], y[:-NUM_VALIDATION]),
        "validation": (x[-NUM_VALIDATION:], y[-NUM_VALIDATION:]),
        "test": data["test"],
    }


def with_wrong_labels(labels: np.ndarray, share: float, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.where(random.random(len(labels)) < share, random.integers(0, 10, len(labels)), labels).astype(np.int32)


def predictions(model, x: np.ndarray) -> np.ndarray:
    """After every grade, (grades, N, 10)."""
    parts = [np.stack([np.asarray(s) for s in model.staged(x[i : i + 2000])]) for i in range(0, len(x), 2000)]
    return np.concatenate(parts, axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--method", choices=("grades", "end", "raw", "unfrozen"), default="grades")
    parser.add_argument("--epochs", type=float, default=6, help="of every stage")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--wrong", type=float, default=0.0)
    parser.add_argument("--rows", type=int, default=55_000, help="of the training pictures")
    parser.add_argument("--records", type=int, default=4, help="of losses and accuracies in every stage")
    given = parser.parse_args()
    data = load(given.folder)
    x, y = (part[: given.rows] for part in data["train"])
    y = with_wrong_labels(y, given.wrong, given.seed)
    steps = round(given.epochs * len(x) / BATCH)
    plan = Plan(
        steps, learning_rate=warmup_cosine(RATE, steps), batch_size=BATCH, record_every=max(steps // given.records, 1),
        seed=given.seed,
    )  # fmt: skip
    regression = Regression(loss=Multinomial(), metrics={"accuracy": accuracy})
    blocks = structures.convolutional(1, CHANNELS, 10)
    started = time.process_time(), time.perf_counter()

    def tell(stage: int, fit: Fit, scores: np.ndarray) -> None:
        columns = fit.records[-1].columns
        line = {
            "method": given.method, "seed": given.seed, "wrong": given.wrong, "rows": len(x),
            "epochs": given.epochs, "stage": stage,
            "test_accuracy": round(float(np.mean(scores.argmax(1) == data["test"][1])), 4),
            "validation_accuracy": round(float(columns["validation_accuracy"][-1]), 4),
            "train_loss": round(float(columns["train_loss"][-1]), 4),
            "rises": int(np.sum(np.diff(columns["train_loss"]) > 0)),
            "processor_seconds": round(time.process_time() - started[0], 1),
            "seconds": round(time.perf_counter() - started[1], 1),
        }  # fmt: skip
        print(json.dumps(line), flush=True)

    options = {"regression": regression, "validation": data["validation"]}
    if given.method == "end":
        fit = fit_grades((EndToEnd(blocks),), x, y, plan, **options)
        tell(1, fit, predictions(fit.model, data["test"][0])[-1])
    elif given.method == "grades":
        fit = Fit()
        for stage in range(1, 4):
            fit = fit_grades(blocks[:stage], x, y, plan, start=fit, **options)
            tell(stage, fit, predictions(fit.model, data["test"][0])[-1])
    elif given.method == "raw":
        features, held, test = x, data["validation"], data["test"][0]
        for stage, block in enumerate(blocks, 1):
            fit = fit_grades((block,), features, y, plan, regression=regression, validation=held)
            tell(stage, fit, predictions(fit.model, test)[-1])
            features, held = (
                np.asarray(fit.model.features(features)),
                (np.asarray(fit.model.features(held[0])), held[1]),
            )
            test = np.asarray(fit.model.features(test))
    else:
        before: Variables | None = None
        for stage in range(1, 4):
            network = _From(blocks[:stage], _Held(before))
            fit = fit_grades((network,), x, y, plan, **options)
            tell(stage, fit, predictions(fit.model, data["test"][0])[-1])
            before = fit.model.grades[0].params


class _Held:
    """Parameters, compared by identity."""

    def __init__(self, params: Variables | None):
        self.params = params


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class _From(EndToEnd):
    """Blocks that go on from where the stage before has left them; the new one and the head are random."""

    held: _Held = dataclasses.field(default_factory=lambda: _Held(None))

    def init(self, key) -> Variables:
        params = super().init(key)
        if self.held.params is None:
            return params
        trained, state = self.held.params
        trunk = (*trained[0], *params.trained[0][len(trained[0]) :]), (*state[0], *params.state[0][len(state[0]) :])
        return Variables((trunk[0], params.trained[1]), (trunk[1], params.state[1]))


if __name__ == "__main__":
    main()
