"""Trains what tells the noise of a photo (``pictures/noise/camera.py``): python -m benchmarks.train_noise FOLDER

FOLDER holds the Kodak pictures (released for unrestricted use); the free pictures of scikit-image join them, except
``camera`` and ``astronaut``, which we measure on. Cameras are simulated (``benchmarks/cameras.py``). No photo of a
camera has a part in it: those judge it (``benchmarks/photos.py``).

With noise are the simulated shots whose noise is at least ``LEAST``, and white noise and counts of light on clean
pictures. Without noise are the same shots without it, the pictures as they are, smaller and as JPEG files, and
drawings. One model learns from the features of a class of brightness how likely there is noise; the other one learns
from those with noise how much there is in each band. Both are grades, trained by ``fit_grades``. Examples are kept
beside the output and reused.
"""

import argparse
import itertools
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from scipy.fft import dctn

from multigrade.model import Grade, MultiGrade
from multigrade.networks import Layer, Network
from multigrade.pictures.colour import decorrelated
from multigrade.pictures.noise.camera import (
    BANDS,
    NUM_BANDS,
    NUM_FEATURES,
    SIDE,
    brightness_classes,
)  # fmt: skip
from multigrade.pictures.noise.camera import (
    LEAST as FLOOR,
)
from multigrade.training import Plan, Regression, fit_grades
from multigrade.training.objectives import Logistic

from .cameras import compressed, drawing, free_pictures, plain_noise, resized, scene, shot

LEAST = 1.3  # of 255: root mean square of noise that is to be found
ORIGINALS = 10  # parts of each picture that were never compressed
WIDTHS = {"level": (48, 48), "evidence": (24,)}
PLANS = {name: Plan(1500, "adam", 2e-3, 512) for name in WIDTHS}
DECAYS = {"level": 1e-4, "evidence": 1e-3}


def examples(sources: list[np.ndarray], scenes: int, originals: int) -> dict[str, np.ndarray]:
    """Features, logarithms of the true energies, weights and whether there is noise, a row for each class.

    ``originals`` is how many parts of each picture are taken as they are, never compressed, at some size.
    """
    random = np.random.default_rng(0 if scenes else 1)
    found: dict[str, list] = {"features": [], "energies": [], "weights": [], "noisy": []}

    def add(noisy: np.ndarray, clean: np.ndarray, greys: float) -> None:
        is_grey, has_noise = random.random() < greys, noisy is not clean
        observed, truth = (np.moveaxis(image, -1, 0) for image in (noisy, clean))
        if is_grey:
            observed, truth = (np.rint(255 * image.mean(axis=0, keepdims=True)) / 255 for image in (observed, truth))
        if has_noise and 255 * np.sqrt(np.mean((observed - truth) ** 2)) < LEAST:
            return
        classes = brightness_classes(observed)
        for features, brightness, _ in classes:
            found["features"].append(features)
            found["energies"].append(
                true_energies(observed, truth, brightness) if has_noise else np.zeros(2 * NUM_BANDS)
            )
            found["weights"].append(1 / len(classes))
            found["noisy"].append(has_noise)

    for number in range(scenes):
        taken = shot(
            scene(sources[random.integers(len(sources))], random.choice([512, 512, 512, 320, 192]), random), random
        )
        add(taken.noisy, taken.clean, 0)
        add(taken.clean, taken.clean, 0.1)
        if number % 3 == 0:
            clean = compressed(
                scene(sources[random.integers(len(sources))], random.choice([512, 320, 192]), random), 100, 0
            )
            add(plain_noise(clean, random), clean, 0.4)
        for _ in range(2):
            clean = sources[random.integers(len(sources))][:512, :512]
            clean = resized(clean, random.uniform(0.4, 0.95)) if random.random() < 0.5 else clean
            clean = compressed(clean, int(random.integers(72, 101)), int(random.choice([0, 2])))
            add(clean, clean, 0.4)
        if number % 6 == 0:
            clean = compressed(drawing(random), int(min(random.integers(70, 111), 100)), 2)
            add(clean, clean, 0.1)
        if number % 25 == 24:
            print(f"{number + 1} scenes, {len(found['noisy'])} examples", flush=True)
    for clean in sources * originals:
        top, left = (random.integers(0, max(size - 512, 0) + 1) for size in clean.shape[:2])
        clean = clean[top : top + 512, left : left + 512]
        clean = resized(clean, random.uniform(0.4, 1)) if random.random() < 0.5 else clean
        clean = compressed(clean, 100, 0)
        add(clean, clean, 0.3)
    return {name: np.asarray(values, np.float32) for name, values in found.items()}


def true_energies(observed: np.ndarray, truth: np.ndarray, brightness: float) -> np.ndarray:
    """Logarithms of the mean square of the noise in each band, of brightness and of the differences of colours, where
    the picture is about so bright."""
    scale = 255 / len(observed) ** 0.5
    high, wide = (size // SIDE for size in observed.shape[1:])

    def coefficients(image: np.ndarray) -> np.ndarray:
        blocks = decorrelated(image)[:, : SIDE * high, : SIDE * wide].reshape(-1, high, SIDE, wide, SIDE)
        return dctn(scale * blocks.swapaxes(2, 3), axes=(-2, -1), norm="ortho")

    noise, means = coefficients(observed - truth), coefficients(observed)[0, ..., 0, 0] / SIDE
    near = np.argsort(np.abs(means - brightness), axis=None)[: max(means.size // 8, 30)]
    energies = [(noise[..., band] ** 2).mean(axis=-1).reshape(len(noise), -1)[:, near].mean(axis=1) for band in BANDS]
    lowest = noise[..., 0, 0] - noise[..., 0, 0].mean(axis=(1, 2), keepdims=True)
    differences = np.pad((lowest[:, 1:] - lowest[:, :-1]) ** 2 / 2, ((0, 0), (0, 1), (0, 0)), mode="edge")
    energies.append(differences.reshape(len(noise), -1)[:, near].mean(axis=1))
    found = np.stack(energies, axis=1)
    colours = found[1:].mean(axis=0) if len(found) > 1 else np.zeros(NUM_BANDS)
    return np.log(np.concatenate([found[0], colours]) + np.tile(FLOOR, 2))


def trained(name: str, features: np.ndarray, targets: np.ndarray, weights: np.ndarray, **more) -> MultiGrade:
    """One grade, or one for each width, on standardised features; the standardisation becomes part of its weights."""
    mean, spread = features.mean(axis=0), features.std(axis=0) + 1e-3
    widths = (NUM_FEATURES, *WIDTHS[name])
    structure = tuple(Network((*pair, targets.shape[1])) for pair in itertools.pairwise(widths))
    fit = fit_grades(
        structure, (features - mean) / spread, targets, PLANS[name], sample_weight=weights,
        regression=Regression(weight_decay=DECAYS[name], **more),
    )  # fmt: skip
    print(name, "loss", *(f"{record.train_loss[-1]:.4f}" for record in fit.records), flush=True)
    first, *others = fit.model.grades
    (weight, bias), *deeper = first.params
    params = (Layer(weight / spread[:, None], bias - jnp.asarray(mean / spread) @ weight), *deeper)
    return MultiGrade((Grade(first.network, params, first.scale), *others))


def of_means(model: MultiGrade, features: np.ndarray, logarithms: np.ndarray, weights: np.ndarray) -> MultiGrade:
    """The model of logarithms, half the variance of its errors added: the mean of exp(t) is exp(mean t + var t / 2)."""
    errors = logarithms - np.asarray(model(features))
    *grades, last = model.grades
    *layers, (weight, bias) = last.params
    params = (*layers, Layer(weight, bias + np.average(errors**2, axis=0, weights=weights) / 2))
    return MultiGrade((*grades, Grade(last.network, params, last.scale)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True, help="a folder")
    parser.add_argument("--scenes", type=int, default=500)
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    kept = given.output / "examples.npz"
    if not kept.exists():
        sources = free_pictures(given.folder)
        parts = examples(sources, given.scenes, 0), examples(sources, 0, ORIGINALS)
        both = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        np.savez(kept, **both)  # pyright: ignore[reportArgumentType]
    data = dict(np.load(kept))
    noisy = data["noisy"] > 0
    of_noise = [data[name][noisy] for name in ("features", "energies", "weights")]
    of_means(trained("level", *of_noise), *of_noise).save(given.output / "level.safetensors")
    evidence = trained("evidence", data["features"], data["noisy"][:, None], data["weights"], loss=Logistic())
    evidence.save(given.output / "evidence.safetensors")


if __name__ == "__main__":
    main()
