"""Free pictures by name, so that everything can be tried without a file: ``load(":camera")``.

Photographs come from scikit-image, inside its wheel (nothing is downloaded), and only those whose documentation
states a free licence; the chart and the phantom are drawn here. Nothing is stored in this package.
"""

import numpy as np
import skimage.data

CHART_SIZE = 256
PHANTOM_SIZE = 256

LICENCES = {
    "astronaut": "public domain (NASA)",
    "brick": "CC0 (CC0Textures)",
    "camera": "CC0 (Lav Varshney)",
    "cell": "CC0 (Paul Müller and others)",
    "chelsea": "CC0 (Stéfan van der Walt)",
    "clock": "public domain (Stéfan van der Walt)",
    "coffee": "CC0 (Rachel Michetti)",
    "grass": "CC0 (linolafett)",
    "gravel": "CC0 (CC0Textures)",
    "horse": "CC0 (Andreas Preuss)",
    "hubble_deep_field": "public domain (NASA)",
    "microaneurysms": "CC0 (Andreas Maier)",
    "retina": "CC0 (Mikael Häggström)",
    "rocket": "public domain (SpaceX)",
    "text": "public domain (Wikipedia)",
    "chart": "drawn by this package, CC0",
    "phantom": "drawn by this package after Shepp and Logan (1974), CC0",
}


def draw_picture(name: str) -> np.ndarray:
    """Samples of the named picture: uint8, bool or float in [0, 1], (h, w) or (h, w, 3)."""
    if name not in LICENCES:
        known = ", ".join(f":{known}" for known in sorted(LICENCES))
        raise ValueError(f"there is no free picture :{name}; there are {known}")
    drawn = {"chart": draw_chart, "phantom": draw_phantom}
    return drawn[name]() if name in drawn else getattr(skimage.data, name)()


def draw_chart(size: int = CHART_SIZE) -> np.ndarray:
    """A resolution chart: bars of period 2 to 32 pixels in both directions, a star, a slanted edge, grey steps."""
    y, x = np.mgrid[:size, :size] + 0.5
    half, quarter = size / 2, size / 4
    chart = np.ones((size, size))
    # Top left: vertical bars, finer from top to bottom; top right: the same, turned.
    period = 2.0 ** np.clip(np.floor(5 - 5 * y / half) + 1, 1, 5)
    bars = ((x % period) < period / 2).astype(float)
    top = (y < half) & (x < half)
    chart[top] = bars[top]
    turned = np.rot90(bars[: size // 2, : size // 2])
    chart[: size // 2, size - size // 2 :] = turned
    # Bottom left: a star of 36 sectors, smoothed over a pixel so that it does not alias.
    across, down = x - quarter, y - (half + quarter)
    radius, angle = np.hypot(across, down), np.arctan2(down, across)
    star = np.clip(0.5 + radius * np.sin(18 * angle) / 18, 0, 1)
    disc = np.clip(0.9 * quarter - radius + 0.5, 0, 1)
    chart = chart * (1 - disc) + star * disc
    # Bottom right: an edge slanted by 5 degrees above eight grey steps.
    edge = np.clip(0.5 + (x - 3 * quarter) * np.cos(np.pi / 36) - (y - 2.5 * quarter) * np.sin(np.pi / 36), 0, 1)
    steps = np.floor(8 * (x - half) / half) / 7
    chart = np.where((x > half) & (y > half), np.where(y < half + 1.2 * quarter, edge, steps), chart)
    return np.clip(chart, 0, 1)


# Intensity, half axes, centre and angle in degrees, on [-1, 1]^2, y upwards: Shepp and Logan (1974) with the
# intensities of Toft (1996), which can be seen on a screen.
_ELLIPSES = (
    (1.0, 0.69, 0.92, 0.0, 0.0, 0),
    (-0.8, 0.6624, 0.874, 0.0, -0.0184, 0),
    (-0.2, 0.11, 0.31, 0.22, 0.0, -18),
    (-0.2, 0.16, 0.41, -0.22, 0.0, 18),
    (0.1, 0.21, 0.25, 0.0, 0.35, 0),
    (0.1, 0.046, 0.046, 0.0, 0.1, 0),
    (0.1, 0.046, 0.046, 0.0, -0.1, 0),
    (0.1, 0.046, 0.023, -0.08, -0.605, 0),
    (0.1, 0.023, 0.023, 0.0, -0.606, 0),
    (0.1, 0.023, 0.046, 0.06, -0.605, 0),
)


def draw_phantom(size: int = PHANTOM_SIZE) -> np.ndarray:
    """The Shepp-Logan phantom, each pixel the mean of 4 x 4 samples."""
    grid = (np.arange(4 * size) + 0.5) / (2 * size) - 1
    x, y = grid[None, :], -grid[:, None]
    fine = np.zeros((4 * size, 4 * size))
    for intensity, a, b, centre_x, centre_y, degrees in _ELLIPSES:
        cos, sin = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
        along = (x - centre_x) * cos + (y - centre_y) * sin
        across = (y - centre_y) * cos - (x - centre_x) * sin
        fine += intensity * ((along / a) ** 2 + (across / b) ** 2 <= 1)
    return np.clip(fine.reshape(size, 4, size, 4).mean((1, 3)), 0, 1)
