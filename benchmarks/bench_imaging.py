"""The Gaussian blur against other ways to compute it, and the classical baselines against the recorded figures.

    python -m benchmarks.bench_imaging [FOLDER]

Times are the fastest of interleaved calls, so that a busy machine slows all alike. The baselines need a folder with the
paper's images (butterfly.png and so on); without it that part says so and is left out.
"""

import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.fft import dctn, idctn

from multigrade.pictures import baselines
from multigrade.pictures.files import add_blur, add_noise
from multigrade.pictures.metrics import psnr
from multigrade.pictures.operators import GaussianBlur
from multigrade_paper.images import Pictures

REPEATS = 10

# Measured before, by other implementations of the same methods; tuned by ground truth.
RECORDED_INTERPOLATION = {
    "cameraman": (25.54, 25.29),
    "barbara": (25.15, 24.06),
    "butterfly": (30.15, 29.91),
    "pirate": (31.47, 31.66),
    "chest": (41.65, 41.46),
}
RECORDED_ROF = {
    "butterfly": (32.54, 27.73, 25.09),
    "pirate": (32.91, 28.06, 25.59),
    "chest": (38.80, 35.05, 32.85),
}
RECORDED_TV_DEBLURRING = {
    "butterfly": (26.43, 24.38, 23.35),
    "pirate": (26.95, 25.20, 24.07),
    "chest": (36.75, 34.59, 33.42),
}
NOISE_LEVELS = (10, 30, 60)
BLUR_LEVELS = (3, 5, 7)
BLUR_NOISE = 3


def main(folder: Path | None = None) -> None:
    for size in (512, 1024):
        for sigma in (3.0, 7.0):
            compare_blurs(size, sigma)
    if folder is None:
        print("No table of baselines: python -m benchmarks.bench_imaging FOLDER, with the paper's images, prints it.")
        return
    pictures = Pictures(folder)
    interpolation_table(pictures)
    denoising_table(pictures)
    deblurring_table(pictures)


def compare_blurs(size: int, sigma: float) -> None:
    """Milliseconds for A x and for the gradient of 1/2 ||A x - y||^2, float32."""
    image = jnp.asarray(np.random.default_rng(0).random((size, size)), jnp.float32)
    ways = {
        "this package": GaussianBlur(sigma),
        "dense convolution": dense_convolution(sigma),
        "two 1-D convolutions": separable_convolution(sigma),
        "two full matrices": full_matrices(sigma, size),
        "DCT": cosine_transform(sigma, size),
    }
    if size > 512:  # many seconds a call
        del ways["dense convolution"], ways["two 1-D convolutions"]
    compiled = {}
    for name, blur in ways.items():
        gradient = jax.grad(lambda x, blur=blur: 0.5 * jnp.sum((blur(x) - image) ** 2))
        compiled[name] = jax.jit(blur), jax.jit(gradient)
    times = interleaved_milliseconds(compiled, image)
    reference = add_blur(np.asarray(image), sigma)
    print(f"\nGaussian blur, {size} x {size}, sigma {sigma:g}: milliseconds (times slower), largest error")
    ours = times["this package"]
    for name, (forward, gradient) in times.items():
        error = float(np.abs(np.asarray(compiled[name][0](image)) - reference).max())
        slower = f"({forward / ours[0]:5.1f}) {gradient:8.2f} ({gradient / ours[1]:5.1f})"
        print(f"  {name:22s} A x {forward:8.2f} {slower} gradient   {error:.1e}")


def interleaved_milliseconds(compiled: dict, image) -> dict[str, tuple[float, ...]]:
    for functions in compiled.values():
        for function in functions:
            function(image).block_until_ready()
    fastest = {name: [np.inf, np.inf] for name in compiled}
    for _ in range(REPEATS):
        for name, functions in compiled.items():
            for which, function in enumerate(functions):
                start = time.perf_counter()
                function(image).block_until_ready()
                fastest[name][which] = min(fastest[name][which], 1e3 * (time.perf_counter() - start))
    return {name: tuple(both) for name, both in fastest.items()}


def padded_planes(image, radius: int):
    return jnp.pad(image, radius, mode="symmetric")[None, None]


def dense_convolution(sigma: float):
    """All (6 sigma + 1)^2 points at once, as a deep-learning library would."""
    weights = GaussianBlur(sigma).weights
    kernel = jnp.asarray(np.outer(weights, weights), jnp.float32)[None, None]
    return lambda image: jax.lax.conv(padded_planes(image, len(weights) // 2), kernel, (1, 1), "VALID")[0, 0]


def separable_convolution(sigma: float):
    weights = jnp.asarray(GaussianBlur(sigma).weights, jnp.float32)

    def blur(image):
        columns = jax.lax.conv(padded_planes(image, len(weights) // 2), weights[None, None, :, None], (1, 1), "VALID")
        return jax.lax.conv(columns, weights[None, None, None, :], (1, 1), "VALID")[0, 0]

    return blur


def full_matrices(sigma: float, size: int):
    # The second axis must not be blurred: a stack of unit columns, blurred along the first only.
    units = np.eye(size)
    matrix = np.stack([add_blur(np.stack([u, u], axis=1), sigma)[:, 0] for u in units], axis=1)
    matrix = jnp.asarray(matrix, jnp.float32)
    return lambda image: matrix @ image @ matrix.T


def cosine_transform(sigma: float, size: int):
    eigenvalues = jnp.asarray(GaussianBlur(sigma).eigenvalues((size, size)), jnp.float32)
    return lambda image: idctn(eigenvalues * dctn(image, norm="ortho"), norm="ortho")


def interpolation_table(pictures: Pictures) -> None:
    print("\nRegression grid interpolated, PSNR in dB (recorded)")
    for name, recorded in RECORDED_INTERPOLATION.items():
        image = pictures.get(name).pixels
        cells = []
        for kind, value in zip(baselines.ORDERS, recorded, strict=True):
            filled = baselines.interpolate_grid(image[::2, ::2], image.shape, kind=kind)
            cells.append(f"{kind} {psnr(filled, image):.2f} ({value:.2f})")
        print(f"  {name:10s} {'   '.join(cells)}")


def denoising_table(pictures: Pictures) -> None:
    print("\nROF denoising, PSNR in dB: by the noise rule / tuned by ground truth (recorded) [seconds per solve]")
    for name, recorded in RECORDED_ROF.items():
        clean = pictures.get(name).pixels
        for sigma, value in zip(NOISE_LEVELS, recorded, strict=True):
            noisy = add_noise(clean, sigma, seed=0)
            start = baselines.tv_denoise_strength(sigma)
            best = baselines.tuned(lambda s, y=noisy: baselines.tv_denoise(y, s), clean, start, precision=1.2)
            begun = time.perf_counter()
            ruled = psnr(baselines.tv_denoise(noisy, noise_sigma=sigma), clean)
            took = time.perf_counter() - begun
            print(f"  {name:10s} noise {sigma}: {ruled:.2f} / {best.psnr:.2f} ({value:.2f}) [{took:.2f}]")


def deblurring_table(pictures: Pictures) -> None:
    print(
        "\nDeblurring, noise 3, PSNR in dB: TV by rule / tuned (recorded) [seconds per solve]; Wiener by rule / tuned"
    )
    for name, recorded in RECORDED_TV_DEBLURRING.items():
        clean = pictures.get(name).pixels.astype(np.float32)
        for sigma, value in zip(BLUR_LEVELS, recorded, strict=True):
            blur = GaussianBlur(float(sigma))
            blurred = add_noise(add_blur(clean, sigma), BLUR_NOISE, seed=0).astype(np.float32)
            begun = time.perf_counter()
            ruled = psnr(baselines.tv_deblur(blurred, blur, noise_sigma=BLUR_NOISE), clean)
            took = time.perf_counter() - begun
            start = baselines.tv_deblur_strength(BLUR_NOISE)
            best = baselines.tuned(
                lambda s, y=blurred, a=blur: baselines.tv_deblur(y, a, s), clean, start, precision=1.3
            )
            ruled_wiener = psnr(baselines.wiener(blurred, blur, noise_sigma=BLUR_NOISE), clean)
            start = baselines.wiener_strength(BLUR_NOISE)
            best_wiener = baselines.tuned(lambda s, y=blurred, a=blur: baselines.wiener(y, a, s), clean, start)
            print(
                f"  {name:10s} blur {sigma}: {ruled:.2f} / {best.psnr:.2f} ({value:.2f}) [{took:.2f}];"
                f" {ruled_wiener:.2f} / {best_wiener.psnr:.2f}"
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
