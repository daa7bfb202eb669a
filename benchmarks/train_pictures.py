"""Trains the grades of ``restore.learned``: python -m benchmarks.train_pictures FOLDER -o learned.safetensors

FOLDER holds the Kodak pictures (released for unrestricted use); the free pictures of scikit-image join them, except
``camera`` and ``astronaut``, which we measure on. Lessons are crops with noise of levels from 4 to 90, in grey and in
decorrelated colours, with their non-local estimates. They are kept beside the output and reused.

Grade 1 learns what the non-local estimate misses; grade 2 reads its frozen features and learns what is left.
"""

import argparse
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import skimage
from skimage.color import rgb2gray

from multigrade.files import write_arrays
from multigrade.pictures.colour import decorrelated
from multigrade.pictures.denoise.learned import Grade, corrections, folded, hidden, load, seen_by
from multigrade.pictures.denoise.nonlocal_estimate import nonlocal_passes

FREE = ("coins", "brick", "grass", "gravel", "moon", "page", "text", "coffee", "chelsea", "rocket",
        "immunohistochemistry", "hubble_deep_field", "retina")  # fmt: skip
CROP, PATCH, BATCH = 144, 48, 32  # pixels on a side; patches in a step
GREY, COLOUR = 3, 1  # lessons from each picture
RATE = 0.02  # of Muon, at most
NUM_INPUTS, WIDTH, LAYERS = 17, 32, 5  # channels of the inputs and of a hidden layer; convolutions of a grade


def pictures(folder: Path):
    """(h, w) or (h, w, 3) on the unit scale."""
    for path in sorted(folder.glob("*.png")):
        yield skimage.util.img_as_float32(skimage.io.imread(path))
    for name in FREE:
        yield skimage.util.img_as_float32(getattr(skimage.data, name)())


def lessons(folder: Path) -> dict[str, np.ndarray]:
    """Inputs (n, h/2, w/2, 17), targets (n, h/2, w/2, 4) in units of the noise, and a weight for each."""
    random = np.random.default_rng(0)
    inputs, targets, weights = [], [], []
    for picture in pictures(folder):
        for is_colour in [False] * GREY + [True] * (COLOUR if picture.ndim == 3 else 0):
            clean = _crop(picture if is_colour or picture.ndim == 2 else rgb2gray(picture), random)
            noise = np.exp(random.uniform(np.log(4), np.log(90 if is_colour else 65))) / 255
            noisy = clean + np.float32(noise) * random.standard_normal(clean.shape, np.float32)
            passes = nonlocal_passes(noisy, noise)
            missed = (clean - passes[-1]) / np.float32(noise)
            inputs.append(seen_by(noisy, passes, np.full(len(clean), noise, np.float32)))
            targets.append(folded(missed[..., None]))
            weights.append(1 / np.maximum(np.mean(missed**2, axis=(1, 2)), 0.003))  # a share of the error is a share
        print(f"{sum(map(len, inputs))} lessons", flush=True)
    return {name: np.concatenate(parts) for name, parts in
            (("inputs", inputs), ("targets", targets), ("weights", weights))}  # fmt: skip


def _crop(picture: np.ndarray, random) -> np.ndarray:
    top, left = (random.integers(0, size - CROP + 1) for size in picture.shape[:2])
    part = picture[top : top + CROP, left : left + CROP].astype(np.float32)
    return decorrelated(np.moveaxis(part, -1, 0)) if part.ndim == 3 else part[None]


def batch(data: dict[str, np.ndarray], random) -> tuple[np.ndarray, ...]:
    """Patches of random lessons, one of eight ways round each."""
    size, half = PATCH // 2, CROP // 2
    found = []
    for index in random.integers(0, len(data["inputs"]), BATCH):
        top, left = random.integers(0, half - size + 1, 2)
        way = random.integers(8)
        x, t = (_turned(data[name][index, top : top + size, left : left + size], way) for name in ("inputs", "targets"))
        found.append((x, t, data["weights"][index]))
    return tuple(np.stack(part) for part in zip(*found, strict=True))


def _turned(blocks: np.ndarray, way: int) -> np.ndarray:
    """Blocks (h, w, 4c + rest) mirrored and turned, and the pixels inside of them."""
    count = blocks.shape[-1] // 4
    pixels = blocks[..., : 4 * count].reshape(*blocks.shape[:2], 2, 2, count)
    if way >= 4:
        pixels = pixels[:, ::-1, :, ::-1]
    pixels = np.rot90(np.rot90(pixels, way % 4, axes=(0, 1)), way % 4, axes=(2, 3))
    return np.concatenate([pixels.reshape(*pixels.shape[:2], -1), blocks[..., 4 * count :]], axis=-1)


def start(key: jax.Array, num_inputs: int) -> Grade:
    """Random weights, and an output of zero."""
    widths = [num_inputs, *[WIDTH] * (LAYERS - 2)]
    keys = jax.random.split(key, len(widths))
    grade = [
        jax.random.normal(each, (9 * width, WIDTH)) * (2 / (9 * width)) ** 0.5
        for each, width in zip(keys, widths, strict=True)
    ]
    return (*grade, jnp.zeros((9 * WIDTH, 4)))


def output(grade: Grade, x: jax.Array) -> jax.Array:
    return corrections([grade], x)[0]


def train(data, steps: int, before, key, path: Path):
    """One more grade on top of those before."""
    grade = start(key, WIDTH if before else NUM_INPUTS)
    optimiser = optax.contrib.muon(optax.warmup_cosine_decay_schedule(0.0, RATE, 100, steps, 0.0))

    @jax.jit
    def step(grade, state, x, t, w):
        for frozen in before:
            t = t - output(frozen, x)
            x = hidden(frozen, x)

        def loss(grade):
            return jnp.mean(w[:, None, None, None] * (t - output(grade, x)) ** 2)

        value, gradient = jax.value_and_grad(loss)(grade)
        update, state = optimiser.update(gradient, state, grade)
        return optax.apply_updates(grade, update), state, value, jnp.mean(w[:, None, None, None] * t**2)

    state, random, seen = optimiser.init(grade), np.random.default_rng(len(before) + 1), []
    started = time.perf_counter()
    for count in range(1, steps + 1):
        grade, state, *values = step(grade, state, *batch(data, random))
        seen.append(values)
        if count % 100 == 0 or count == steps:
            after, left = np.mean(np.asarray(seen[-100:]), axis=0)
            gain = -10 * np.log10(after / left)
            print(
                f"grade {len(before) + 1} step {count}: {gain:.3f} dB, {time.perf_counter() - started:.0f} s",
                flush=True,
            )
            save(path, [*before, grade])
    return grade


def save(path: Path, grades) -> None:
    arrays = {f"{i}.{j}": np.asarray(m, np.float32) for i, grade in enumerate(grades) for j, m in enumerate(grade)}
    write_arrays(path, "grades", arrays, {"layers": [len(grade) for grade in grades]})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--steps", type=int, nargs="+", default=[3000, 2000], help="of each grade")
    parser.add_argument("--resume", action="store_true", help="go on after the grades that the output has")
    given = parser.parse_args()
    kept = given.output.with_suffix(".lessons.npz")
    if not kept.exists():
        np.savez(kept, **lessons(given.folder))
    data = dict(np.load(kept))
    grades = list(load(given.output)) if given.resume else []
    for steps in given.steps[len(grades) :]:
        grades.append(train(data, steps, grades, jax.random.key(len(grades)), given.output))


if __name__ == "__main__":
    main()
