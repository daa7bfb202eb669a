"""Fully connected and multi-scale networks: initialise, hidden features, output.

A network is a frozen, hashable description (widths, activation, how to initialise); its parameters are a plain
pytree made by ``init`` and passed to every call. A description is a pytree without leaves, so it can be an argument
of a compiled function, a dictionary key, or JSON; the parameters hold nothing that is not trained.

    network = Network((1, 32, 32, 1))
    params = network.init(jax.random.key(0))
    features = network.hidden(params, x)          # H_{D-1}(x), the last hidden layer
    network.output(params, features)              # equals network(params, x)
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer


@jax.custom_jvp
def relu(z: Array) -> Array:
    """max(0, z), with derivative 0 at 0.

    The derivative is written as sign(relu(z)): it reads the stored output instead of the pre-activation and compiles to
    one vectorised pass.
    """
    return jnp.maximum(z, 0)


@relu.defjvp
def _relu_jvp(primals, tangents):
    (z,), (z_dot,) = primals, tangents
    out = relu(z)  # not jnp.maximum, whose own derivative at 0 is 1/2: second derivatives must be 0 there, too
    return out, jnp.sign(out) * z_dot


@jax.custom_jvp
def relu_half(z: Array) -> Array:
    """max(0, z), with derivative 1/2 at 0, the derivative that JAX gives ``jnp.maximum(z, 0)``.

    It matters where a pre-activation is exactly 0 at a training point: with zero biases every neuron of the first layer
    is, at x = 0. A neuron that is 0 at all other points can wake by that point alone, which it cannot with ``relu``.
    The paper's runs on synthetic data and its spectra take this derivative (docs/what-one-point-decides.md).
    """
    return jnp.maximum(z, 0)


@relu_half.defjvp
def _relu_half_jvp(primals, tangents):
    (z,), (z_dot,) = primals, tangents
    return relu_half(z), (0.5 + 0.5 * jnp.sign(z)) * z_dot


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": relu,
    "relu_half": relu_half,
    "tanh": jnp.tanh,
    "softplus": jax.nn.softplus,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
    "sine": jnp.sin,
    "gauss": lambda z: jnp.exp(-(z**2) / 2),
    # Compactly supported ones of the multi-scale papers: Liu, Cai and Xu (2020), arXiv:2007.11207; Wang, Zhang and Cai
    # (2020), arXiv:2009.12729; Li, Xu and Zhang (2020), arXiv:2009.14597.
    "srelu": lambda z: relu(z) * relu(1 - z),
    "s2relu": lambda z: jnp.sin(2 * jnp.pi * z) * relu(z) * relu(1 - z),
    "bspline": lambda z: relu(z) ** 2 - 3 * relu(z - 1) ** 2 + 3 * relu(z - 2) ** 2 - relu(z - 3) ** 2,
}
# Standard deviation of initial weights from (inputs, outputs).
WEIGHT_INITS: dict[str, Callable[[int, int], float]] = {
    "he": lambda inputs, outputs: (2 / inputs) ** 0.5,
    "glorot": lambda inputs, outputs: (2 / (inputs + outputs)) ** 0.5,
}


def _choice(name: str, value: str, table: dict) -> None:
    if value not in table:
        raise ValueError(f"{name} must be one of {', '.join(table)}; got {value!r}")


class Layer(NamedTuple):
    """One affine map x -> x W + b; the paper's (W_j, b_j), in the order in which it stacks them."""

    weight: Array  # (inputs, outputs)
    bias: Array  # (outputs,)


@dataclasses.dataclass(frozen=True)
class FourierFeatures:
    """Fixed encoding x -> [sin(2 pi x F), cos(2 pi x F)], entries of F normal with standard deviation ``scale``.

    F follows from ``seed`` by numpy's frozen Mersenne twister, so it never changes between versions and is
    neither trained nor stored.

    Parameters
    ----------
    num_frequencies : columns of F; the encoding has twice as many features
    scale : standard deviation of the frequencies, in cycles per unit of the input
    seed : draws F
    """

    num_frequencies: int
    scale: float
    seed: int = 0

    def __call__(self, x: Array) -> Array:
        x = jnp.asarray(x, jnp.promote_types(x.dtype, jnp.float32))  # integers would round the frequencies
        random = np.random.RandomState(self.seed)
        frequencies = random.normal(0.0, self.scale, (x.shape[-1], self.num_frequencies))
        phase = x @ (2 * np.pi * frequencies).astype(x.dtype)
        return jnp.concatenate([jnp.sin(phase), jnp.cos(phase)], axis=-1)


@runtime_checkable
class AnyNetwork(Protocol):
    """What a grade needs of a network: a trunk, ``hidden``, and a head, ``output``.

    Rows are the first axis of x, of the features (of any shape, or a pytree) and of the outputs.
    """

    def init(self, key: Array) -> Any: ...
    def hidden(self, params: Any, x: Any) -> Any: ...
    def output(self, params: Any, features: Any) -> Array: ...
    def __call__(self, params: Any, x: Any) -> Array: ...


def _normal(std: float, key: Array, shape: tuple[int, ...]) -> Array:
    """``std * jax.random.normal(key, shape)`` to the bit, from one compiled program for many shapes.

    The i-th number depends on the key and i alone, so the first ones of a longer draw are the same. Lengths that are
    powers of 4 need few programs; each takes a quarter of a second to compile. NumPy does the rest without any.
    """
    num, length = math.prod(shape), 1024
    while length < num:
        length *= 4
    numbers = jax.random.normal(key, (length,))
    numbers = numbers if isinstance(numbers, Tracer) else np.asarray(numbers)
    return jax.device_put(std * numbers[:num].reshape(shape))  # ``jnp.asarray`` would compile a program


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Network:
    """N_D(x) = W_D' H_{D-1}(x) + b_D with H_j = sigma(W_j' H_{j-1} + b_j), H_0 = x (Section 2).

    Parameters
    ----------
    widths : d_0, ..., d_D: inputs, neurons of each hidden layer, outputs
    activation : sigma, one of the names in ``networks.ACTIVATIONS``
    weight_init : "he" or "glorot", the standard deviation of the normal initial weights
    bias_std : standard deviation of the normal initial biases; 0 gives zero biases
    encoding : fixed features that the first layer reads in place of the inputs, or None
    """

    widths: tuple[int, ...]
    activation: str = "relu"
    weight_init: str = "he"
    bias_std: float = 0.0
    encoding: FourierFeatures | None = None

    def __post_init__(self):
        if len(self.widths) < 2 or any(not isinstance(w, int) or w < 1 for w in self.widths):
            raise ValueError(f"widths must be two or more positive integers; got {self.widths!r}")
        _choice("activation", self.activation, ACTIVATIONS)
        _choice("weight_init", self.weight_init, WEIGHT_INITS)
        if not 0 <= self.bias_std <= 1e30:
            raise ValueError(f"bias_std must be at least 0 and at most 1e30; got {self.bias_std!r}")

    @property
    def depth(self) -> int:
        """D, the number of affine layers."""
        return len(self.widths) - 1

    @property
    def num_features(self) -> int:
        """Width of the last hidden layer (of the encoded input where there is none), which the next grade reads."""
        return self._inputs[-1]

    @property
    def _inputs(self) -> tuple[int, ...]:
        """What each layer reads."""
        first = 2 * self.encoding.num_frequencies if self.encoding else self.widths[0]
        return (first, *self.widths[1:-1])

    def init(self, key: Array) -> tuple[Layer, ...]:
        """Random initial parameters: one ``Layer`` for each affine map."""
        std = WEIGHT_INITS[self.weight_init]
        layers = []
        for d_in, d_out in zip(self._inputs, self.widths[1:], strict=True):
            key, weight_key, bias_key = jax.random.split(key, 3)
            weight = _normal(std(d_in, d_out), weight_key, (d_in, d_out))
            layers.append(Layer(weight, _normal(self.bias_std, bias_key, (d_out,))))
        return tuple(layers)

    def hidden(self, params: tuple[Layer, ...], x: Array) -> Array:
        """H_{D-1}(x), the last hidden layer (x itself, encoded, when there is none)."""
        return self.hidden_layers(params, x)[-1]

    def hidden_layers(self, params: tuple[Layer, ...], x: Array) -> list[Array]:
        """H_0(x), ..., H_{D-1}(x); H_0 is x itself, encoded."""
        activation = ACTIVATIONS[self.activation]
        layers = [self.encoding(x) if self.encoding else x]
        for weight, bias in params[:-1]:
            layers.append(activation(layers[-1] @ weight + self._over_rows(bias, layers[-1])))
        return layers

    def output(self, params: tuple[Layer, ...], features: Array) -> Array:
        """W_D' features + b_D, for the features of ``hidden``."""
        return features @ params[-1].weight + self._over_rows(params[-1].bias, features)

    def __call__(self, params: tuple[Layer, ...], x: Array) -> Array:
        return self.output(params, self.hidden(params, x))

    def _over_rows(self, bias: Array, rows: Array) -> Array:
        # A tiny network spends a third of its step on the columns' sums that are a bias's gradient; as a product with
        # ones they cost little. From two hidden layers on, the plain sum is the faster one.
        if rows.ndim == 2 and self.depth == 2 and max(self.widths) <= 64:
            return jnp.ones((len(rows), 1), bias.dtype) @ bias[None]
        return bias


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class MultiScaleNetwork:
    """Sum over scales s of sub-networks N_s(s x), each with its own parameters (MSDL, Section 7 of the paper).

    Parameters
    ----------
    sub : the description that all sub-networks share
    scales : what the inputs of each sub-network are multiplied by
    """

    sub: Network
    scales: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0)

    def __post_init__(self):
        if not self.scales or not all(np.isfinite(s) for s in self.scales):
            raise ValueError(f"scales must be one or more finite numbers; got {self.scales!r}")

    @property
    def depth(self) -> int:
        return self.sub.depth

    @property
    def widths(self) -> tuple[int, ...]:
        return (self.sub.widths[0], *(w * len(self.scales) for w in self.sub.widths[1:-1]), self.sub.widths[-1])

    @property
    def num_features(self) -> int:
        return self.sub.num_features * len(self.scales)

    def init(self, key: Array) -> tuple[tuple[Layer, ...], ...]:
        """Random initial parameters of each sub-network."""
        # One scale draws what the plain network draws, so that MSDL with the single scale 1 is SGDL.
        keys = [key] if len(self.scales) == 1 else jax.random.split(key, len(self.scales))
        return tuple(self.sub.init(k) for k in keys)

    def hidden(self, params, x: Array) -> Array:
        """The sub-networks' last hidden layers, side by side."""
        parts = [self.sub.hidden(p, s * x) for p, s in zip(params, self.scales, strict=True)]
        return jnp.concatenate(parts, axis=-1)

    def output(self, params, features: Array) -> Array:
        """The sum of the sub-networks' outputs, for the features of ``hidden``."""
        parts = jnp.split(features, len(self.scales), axis=-1)
        return tree_sum([self.sub.output(p, h) for p, h in zip(params, parts, strict=True)])

    def __call__(self, params, x: Array) -> Array:
        return tree_sum([self.sub(p, s * x) for p, s in zip(params, self.scales, strict=True)])


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Members:
    """``num`` networks of one description side by side, each with parameters of its own (a leading axis of theirs).

    All members read the same rows x (N, d), or each its own, (N, num, d). Features and outputs have the shape
    (N, num, width): rows stand first, so that batches are drawn as from any other data.
    """

    sub: Network
    num: int

    @property
    def depth(self) -> int:
        return self.sub.depth

    @property
    def widths(self) -> tuple[int, ...]:
        return self.sub.widths

    @property
    def num_features(self) -> int:
        return self.sub.num_features

    def init(self, key: Array) -> tuple[Layer, ...]:
        return jax.vmap(self.sub.init)(jax.random.split(key, self.num))

    def hidden(self, params: tuple[Layer, ...], x: Array) -> Array:
        if self.depth == 1 and x.ndim == 2:  # nothing hidden: the rows themselves, which all members share
            return x
        return self._each(self.sub.hidden, params, x)

    def output(self, params: tuple[Layer, ...], features: Array) -> Array:
        return self._each(self.sub.output, params, features)

    def __call__(self, params: tuple[Layer, ...], x: Array) -> Array:
        return self._each(self.sub, params, x)

    def _each(self, function: Callable, params, x: Array) -> Array:
        return jax.vmap(function, in_axes=(0, None if x.ndim == 2 else 1), out_axes=1)(params, x)


def tree_sum(trees: list) -> Any:
    """The sum of arrays, or of pytrees of them, in order."""
    return jax.tree.map(lambda *leaves: sum(leaves[1:], start=leaves[0]), *trees)
