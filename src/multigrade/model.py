"""Grade and MultiGrade: what was learned, and how it predicts.

Grade l is a network N_l on features x_l, with x_{l+1} = H(Theta_l; x_l) its last hidden layer; the model is
g(x) = sum_l epsilon_l N_l(x_l) (Section 3, and Appendix C for epsilon_l).
"""

import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .files import read_arrays, telling_damage, write_arrays
from .networks import (
    AnyNetwork,
    ConvolutionalNetwork,
    FourierFeatures,
    Members,
    MultiScaleNetwork,
    Network,
    TransformerNetwork,
)
from .programs import bound_programs
from .sines import LayerNetwork, SineNetwork

# What a file may hold, by name.
_KINDS = (
    Network, MultiScaleNetwork, Members, FourierFeatures, SineNetwork, LayerNetwork, ConvolutionalNetwork,
    TransformerNetwork,
)  # fmt: skip
KINDS: dict[str, Any] = {kind.__name__: kind for kind in _KINDS}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Grade:
    """One trained network and the scale epsilon_l of its output. Neither changes once the grade is trained.

    Parameters
    ----------
    network : the description of the network
    params : its trained parameters, a pytree of arrays
    scale : epsilon_l, which multiplies the network's output
    """

    network: AnyNetwork
    params: Any
    scale: Array | float = 1.0


@jax.jit
def apply_grade(grade: Grade, x: Array) -> tuple[Array, Array]:
    """(epsilon_l N_l(x_l), x_{l+1}): what a grade adds, and what the next grade reads. One forward pass."""
    features = grade.network.hidden(grade.params, x)
    return grade.scale * grade.network.output(grade.params, features), features


BLOCK_ROWS = 1024  # of inputs that are not a table, which a grade is applied to at once


def apply_in_blocks(grade: Grade, x: Any) -> tuple[Array, Any]:
    """``apply_grade``; by blocks of rows where features may be large: pictures, series, pytrees."""
    leaves = jax.tree.leaves(x)
    if (len(leaves) == 1 and leaves[0].ndim <= 2) or len(leaves[0]) <= BLOCK_ROWS:
        return apply_grade(grade, x)
    starts = range(0, len(leaves[0]), BLOCK_ROWS)
    parts = [apply_grade(grade, jax.tree.map(lambda leaf: leaf[i : i + BLOCK_ROWS], x)) for i in starts]  # noqa: B023
    return jax.tree.map(lambda *blocks: jnp.concatenate(blocks), *parts)


def _is_double(grade: Grade) -> bool:
    return any(leaf.dtype == np.float64 for leaf in jax.tree.leaves(grade.params))


def _add_grade(grade: Grade, total, x) -> tuple[Any, Any]:
    """The prediction with this grade, and its features. Grades in double precision are applied in double precision,
    also where JAX computes in single; they then return NumPy arrays, which keep their digits outside."""
    if not _is_double(grade) or jax.config.jax_enable_x64:  # pyright: ignore[reportAttributeAccessIssue]
        added, features = apply_in_blocks(grade, jax.tree.map(jnp.asarray, x))
        return total + added, features
    with jax.enable_x64(True):
        added, features = apply_grade(grade, jnp.asarray(x, jnp.float64))
        return np.asarray(total + added), np.asarray(features)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MultiGrade:
    """A sum of grades. Adding a grade makes a new model that shares the earlier ones.

    Parameters
    ----------
    grades : the grades in the order in which they were trained

    Examples
    --------
    >>> import jax, numpy as np
    >>> from multigrade import structures
    >>> grades = tuple(Grade(n, n.init(jax.random.key(0))) for n in structures.MGDL_1)
    >>> model = MultiGrade(grades)
    >>> x = np.linspace(0, 1, 5, dtype=np.float32)[:, None]
    >>> bool((list(model.staged(x))[-1] == model(x)).all())
    True
    """

    grades: tuple[Grade, ...] = ()

    def stages(self, x: Array) -> Iterator[tuple[Array, Array]]:
        """After each grade: the prediction so far, and the features that the next grade would read."""
        bound_programs()
        total = 0.0
        for grade in self.grades:
            total, x = _add_grade(grade, total, x)
            yield total, x

    def staged(self, x: Array) -> Iterator[Array]:
        """The prediction after grade 1, 2, ..., L."""
        for prediction, _ in self.stages(self._as_input(x)):
            yield prediction

    def features(self, x: Array) -> Array:
        """x_{L+1}: the hidden features on which a further grade would be trained (x itself before any grade)."""
        return (
            [features for _, features in self.stages(self._as_input(x))][-1]
            if self.grades
            else jax.tree.map(jnp.asarray, x)
        )

    def _as_input(self, x) -> Any:
        return (
            x if any(map(_is_double, self.grades)) else jax.tree.map(jnp.asarray, x)
        )  # which would round to single precision

    def __call__(self, x: Array) -> Array:
        if not self.grades:
            raise ValueError("the model has no grade yet; fit one first")
        *_, prediction = self.staged(x)
        return prediction

    def add(self, grade: Grade) -> "MultiGrade":
        """A new model with one more grade at the end."""
        return MultiGrade((*self.grades, grade))

    def save(self, path: str | os.PathLike) -> None:
        """Write the model as safetensors with its description as JSON in the header."""
        arrays, description = model_to_arrays(self)
        write_arrays(path, "model", arrays, {"model": description})

    @staticmethod
    def load(path: str | os.PathLike, structure: Sequence[AnyNetwork] | None = None) -> "MultiGrade":
        """The model in a file that ``save`` wrote.

        Parameters
        ----------
        path : the file
        structure : its networks, where they are not all of the package's own kinds; a file holds arrays, never code

        Returns
        -------
        MultiGrade
        """
        arrays, description, _ = read_arrays(path, "model")
        with telling_damage(path, "model"):
            if structure is None:
                return model_from_arrays(arrays, description["model"])
            for number, (entry, network) in enumerate(zip(description["model"], structure, strict=False), 1):
                if entry != json.loads(json.dumps(network_to_json(network))):
                    raise ValueError(f"structure does not fit {path}: its grade {number} is {entry}, not {network!r}")
            if len(structure) < len(description["model"]):
                raise ValueError(
                    f"structure must have {len(description['model'])} grades for {path}; got {len(structure)}"
                )
            return MultiGrade(grades_from_arrays(arrays, structure[: len(description["model"])]))


def network_to_json(network: AnyNetwork) -> dict:
    """{"type": class name, field: value, ...}, nested; read back by ``network_from_json``. Of a network of another kind
    the name of that kind alone."""
    name = type(network).__name__
    if KINDS.get(name) is not type(network):
        return {"type": OWN, "kind": name}
    fields = {field.name: getattr(network, field.name) for field in dataclasses.fields(network)}
    encoded = {name: network_to_json(v) if dataclasses.is_dataclass(v) else v for name, v in fields.items()}
    return {"type": name, **encoded}


OWN = "own"


def network_from_json(description: dict) -> Any:
    if description["type"] == OWN:
        raise ValueError(
            f"a grade of the file is a network of another kind ({description['kind']}): give load its structure="
        )
    fields = {
        name: network_from_json(v) if isinstance(v, dict) else tuple(v) if isinstance(v, list) else v
        for name, v in description.items()
        if name != "type"
    }
    return KINDS[description["type"]](**fields)


def staged_values(model: MultiGrade, inputs) -> list[np.ndarray]:
    """``model.staged`` as NumPy arrays, by slices of the rows, so that all pixels of a large image fit."""
    starts = range(0, len(inputs), 2**16)
    slices = [list(model.staged(jnp.asarray(inputs[start : start + 2**16]))) for start in starts]
    return [np.concatenate(parts) for parts in zip(*slices, strict=True)]


def model_to_arrays(model: MultiGrade) -> tuple[dict[str, np.ndarray], list[dict]]:
    return grades_to_arrays(model.grades), [network_to_json(grade.network) for grade in model.grades]


def model_from_arrays(arrays: dict[str, np.ndarray], description: list[dict]) -> MultiGrade:
    return MultiGrade(grades_from_arrays(arrays, [network_from_json(entry) for entry in description]))


def grades_to_arrays(grades: Sequence[Grade]) -> dict[str, np.ndarray]:
    arrays = {}
    for index, grade in enumerate(grades):
        leaves = jax.tree.leaves(grade.params)
        arrays |= {f"grade{index}/{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
        arrays[f"grade{index}/scale"] = np.asarray(grade.scale, np.float32)
    return arrays


def grades_from_arrays(arrays: dict[str, np.ndarray], networks: Sequence[AnyNetwork]) -> tuple[Grade, ...]:
    grades = []
    for index, network in enumerate(networks):
        inner: Any = network
        while hasattr(inner, "sub"):
            inner = inner.sub
        present = sum(name.startswith(f"grade{index}/") for name in arrays)
        layers = getattr(inner, "blocks", 0) + sum(len(getattr(inner, name, ())) for name in ("widths", "channels"))
        if layers > present:  # thousands of layers without arrays would take long to be refused below
            raise ValueError(f"grade {index + 1} has {layers - hasattr(inner, 'widths')} layers, but {present} arrays")
        shapes, treedef = jax.tree.flatten(jax.eval_shape(network.init, jax.random.key(0)))
        leaves = [arrays.get(f"grade{index}/{i}") for i in range(len(shapes))]
        if any(leaf is None or leaf.shape != shape.shape for leaf, shape in zip(leaves, shapes, strict=True)):
            raise ValueError(f"the arrays of grade {index + 1} do not fit its network {network}")
        kept = [leaf if leaf.dtype == np.float64 else jnp.asarray(leaf) for leaf in leaves if leaf is not None]
        with np.errstate(over="ignore"):  # refused below
            scale = arrays[f"grade{index}/scale"].astype(np.float32)
        largest, kinds = np.finfo(np.float32).max, "f" if KINDS.get(type(network).__name__) else "fiub"
        if scale.size != 1 or not all(
            leaf.dtype.kind in kinds and np.all(np.abs(np.asarray(leaf, np.float64)) <= largest)
            for leaf in (*kept, scale)
        ):
            raise ValueError(f"the arrays of grade {index + 1} must be finite numbers")
        params = jax.tree.unflatten(treedef, kept)
        grades.append(Grade(network, params, jnp.asarray(scale)))
    return tuple(grades)
