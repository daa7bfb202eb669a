"""Prediction in NumPy: a fitted model is a few products, for which JAX need neither be loaded nor compile anything.

A grade is the JSON description of its network and its arrays, as a file holds them; ``jax_model`` makes a
``MultiGrade`` of them.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np


def _silu(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return x / (1 + np.exp(-x))


def _relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


# The formulas of networks.ACTIVATIONS; a test compares them.
ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": _relu,
    "relu_half": _relu,
    "tanh": np.tanh,
    "softplus": lambda x: np.logaddexp(x, x.dtype.type(0)),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(np.float32(math.sqrt(2 / math.pi)) * (x + 0.044715 * x**3))),
    "silu": _silu,
    "sine": np.sin,
    "gauss": lambda x: np.exp(-(x**2) / 2),
    "srelu": lambda x: _relu(x) * _relu(1 - x),
    "s2relu": lambda x: np.sin(2 * np.pi * x) * _relu(x) * _relu(1 - x),
    "bspline": lambda x: _relu(x) ** 2 - 3 * _relu(x - 1) ** 2 + 3 * _relu(x - 2) ** 2 - _relu(x - 3) ** 2,
}


class FittedGrade(NamedTuple):
    """A grade as a file holds it: the description of its network, its arrays in order, and its scale epsilon_l."""

    network: dict[str, Any]
    arrays: tuple[np.ndarray, ...]
    scale: np.float32

    @property
    def num_members(self) -> int:
        """0 for a network that is alone."""
        return self.network["num"] if self.network["type"] == "Members" else 0

    @property
    def num_features(self) -> int:
        """Of one member."""
        return _num_features(self.network)

    @property
    def num_inputs(self) -> int:
        sub = self.network.get("sub", self.network)
        return sub["widths"][0] if "widths" in sub else sub["num_inputs"] + sub.get("num_carried", 0)

    @property
    def num_outputs(self) -> int:
        sub = self.network.get("sub", self.network)
        return sub["widths"][-1] if "widths" in sub else sub["num_outputs"]

    @property
    def is_linear(self) -> bool:
        return len(self.arrays) == 2

    def __call__(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What the grade adds to the scores of rows (N, d) or (N, members, d), and the features of the next grade."""
        arrays = [array.astype(x.dtype, copy=False) for array in self.arrays]
        if not self.num_members:
            output, features = _apply(self.network, arrays, x)
            return self.scale * output, features
        if x.ndim == 2 and self.is_linear:  # one product for all members
            weight, bias = arrays
            product = x @ weight.swapaxes(0, 1).reshape(weight.shape[1], -1)
            return self.scale * (product.reshape(len(x), *bias.shape) + bias), x
        x = x if x.ndim == 2 else np.ascontiguousarray(x.swapaxes(0, 1))
        arrays = [part if part.ndim == 3 else part[:, None] for part in arrays]
        output, features = _apply(self.network["sub"], arrays, x)
        return self.scale * output.swapaxes(0, 1), features.swapaxes(0, 1)


def staged(grades: Sequence[FittedGrade], x: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """After each grade: the scores so far, and the features that the next grade would read."""
    total: Any = np.float32(0)
    for grade in grades:
        added, x = grade(x)
        total = total + added
        yield total, x


def _apply(network: dict, arrays: Sequence[np.ndarray], x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Output and features of a network; arrays of members have a leading axis, and so has the result."""
    kind = network["type"]
    if kind == "SineNetwork":
        features = np.concatenate([x, np.sin(x[..., : network["num_inputs"]] @ arrays[0] + arrays[1])], axis=-1)
        return features @ arrays[2] + arrays[3], features
    if kind == "LayerNetwork":
        features = np.concatenate([x, np.arcsinh(x @ arrays[0] + arrays[1])], axis=-1)
        return np.zeros((*x.shape[:-1], network["num_outputs"]), x.dtype), features
    if kind == "MultiScaleNetwork":
        size = len(arrays) // len(network["scales"])
        subs = [arrays[i * size : (i + 1) * size] for i in range(len(network["scales"]))]
        parts = [
            _apply(network["sub"], sub, x.dtype.type(scale) * x)
            for sub, scale in zip(subs, network["scales"], strict=True)
        ]
        return functools.reduce(np.add, [output for output, _ in parts]), np.concatenate([f for _, f in parts], axis=-1)
    activation = ACTIVATIONS[network["activation"]]
    for index in range(0, len(arrays) - 2, 2):
        x = activation(x @ arrays[index] + arrays[index + 1])
    return x @ arrays[-2] + arrays[-1], x


def _num_features(network: dict) -> int:
    if network["type"] == "Members":
        return _num_features(network["sub"])
    if network["type"] == "MultiScaleNetwork":
        return len(network["scales"]) * _num_features(network["sub"])
    if network["type"] == "Network":
        return network["widths"][-2]
    drawn = network["num_sines"] + network["num_carried"] if "num_sines" in network else network["num_layers"]
    return network["num_inputs"] + drawn


def _shapes(network: dict) -> list[tuple[int, ...]]:
    """The shapes of a network's arrays; ValueError for a description that is none."""
    kind = network.get("type")
    if kind == "Members":
        num = _count(network["num"])
        return [(num, *shape) for shape in _shapes(network["sub"])]
    if kind == "MultiScaleNetwork":
        if not network["scales"] or not all(map(math.isfinite, network["scales"])):
            raise ValueError(f"scales must be one or more finite numbers; got {network['scales']!r}")
        return len(network["scales"]) * _shapes(network["sub"])
    if kind == "Network":
        if network["activation"] not in ACTIVATIONS or network.get("encoding") is not None:
            raise ValueError(f"an estimator's network must have a known activation and no encoding; got {network!r}")
        widths = [_count(width) for width in network["widths"]]
        if len(widths) < 2:
            raise ValueError(f"widths must be two or more positive integers; got {widths!r}")
        return [shape for pair in itertools.pairwise(widths) for shape in (pair, pair[1:])]
    names = (
        ("num_inputs", "num_outputs", "num_sines")
        if kind == "SineNetwork"
        else ("num_inputs", "num_outputs", "num_layers")
    )
    if kind not in ("SineNetwork", "LayerNetwork"):
        raise ValueError(f"an estimator's grades must be networks; got {kind!r}")
    inputs, outputs, drawn = (_count(network[name]) for name in names)
    first = [(inputs, drawn), (drawn,)]
    return first if kind == "LayerNetwork" else [*first, (_num_features(network), outputs), (outputs,)]


def _count(value) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"sizes of networks must be positive integers; got {value!r}")
    return value


def fitted_grades(model) -> tuple[FittedGrade, ...]:
    """The grades of a ``MultiGrade``."""
    import jax

    from ..model import network_to_json

    return tuple(
        FittedGrade(
            _plain(network_to_json(grade.network)),
            tuple(map(np.asarray, jax.tree.leaves(grade.params))),
            np.float32(grade.scale),
        )
        for grade in model.grades
    )


def _plain(value):
    """Tuples as lists, as JSON gives them back."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, (list, tuple)) else value


def jax_model(grades: Sequence[FittedGrade]):
    """The ``MultiGrade`` of these grades."""
    from ..model import model_from_arrays

    return model_from_arrays(grades_to_arrays(grades), [grade.network for grade in grades])


def grades_to_arrays(grades: Sequence[FittedGrade]) -> dict[str, np.ndarray]:
    """As ``MultiGrade.save`` names them."""
    arrays = {}
    for index, grade in enumerate(grades):
        arrays |= {f"grade{index}/{i}": array for i, array in enumerate(grade.arrays)}
        arrays[f"grade{index}/scale"] = np.asarray(grade.scale)
    return arrays


def grades_from_arrays(arrays: dict[str, np.ndarray], networks: Sequence[dict]) -> tuple[FittedGrade, ...]:
    """The grades in a file; ValueError for what is none."""
    grades = []
    for index, network in enumerate(networks):
        shapes = _shapes(network)
        own = [arrays.get(f"grade{index}/{i}") for i in range(len(shapes))]
        scale = arrays[f"grade{index}/scale"]
        kept = [array for array in own if array is not None]
        if [array.shape for array in kept] != shapes:
            raise ValueError(f"the arrays of grade {index + 1} do not fit its network {network}")
        for array in (*kept, scale):
            if array.dtype not in (np.float32, np.float64) or not np.all(np.abs(array) <= np.finfo(np.float32).max):
                raise ValueError(f"the arrays of grade {index + 1} must be finite numbers")
        if scale.size != 1:
            raise ValueError(f"grade {index + 1} must have one scale; got {scale.shape}")
        grades.append(FittedGrade(network, tuple(kept), np.float32(scale.reshape(()))))
    return tuple(grades)
