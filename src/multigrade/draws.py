"""The random numbers of the paper's authors: every one follows from a fixed key by JAX's original threefry.

Newer JAX draws other numbers from the same key (``jax_threefry_partitionable``); here the original ones are asked for,
whatever JAX's configuration says. So a run of the paper starts from the very weights, points and noise that it had:

    structure = from_chain(structures.MGDL_1)       # synthetic data, spectra: key 42, derivative 1/2 at 0
    structure = from_stax(structures.MGDL_3)        # Tables 1 to 3, learning rates on images: key 0

Every grade starts from the key anew, so grades of equal widths start from equal weights. Further draws by the same laws
take further keys. A copy k has its initial weights times 1 + k 1e-7, one unit in the last place or so: where copies
part, rounding decides.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from contextlib import ExitStack, contextmanager

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from .model import MultiGrade
from .networks import Layer, MultiScaleNetwork, Network, Structure

CHAIN_KEY, STAX_KEY, NOISE_KEY, VALIDATION_KEY = 42, 0, 0, 1  # recorded
COPY = 1e-7  # relative difference of the weights of one copy to the next
BIAS_STD = 0.01  # of stax


@contextmanager
def original_threefry():
    """Draw as JAX did when the authors ran, in single precision."""
    with ExitStack() as stack:
        stack.enter_context(jax.threefry_partitionable(False))
        stack.enter_context(jax.enable_x64(False))
        yield


def _key(number: int) -> Array:
    return jax.random.key(number, impl="threefry2x32")


def uniform(number: int, shape: tuple[int, ...], *, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    """Uniform numbers in [low, high) from PRNGKey(number), float32."""
    with original_threefry():
        return np.asarray(jax.random.uniform(_key(number), shape, jnp.float32, low, high))


def normal(number: int, shape: tuple[int, ...]) -> np.ndarray:
    """Normal numbers from PRNGKey(number), float32."""
    with original_threefry():
        return np.asarray(jax.random.normal(_key(number), shape, jnp.float32))


def noisy(image: np.ndarray, sigma: float, *, seed: int = 0) -> np.ndarray:
    """A picture on the unit scale with the authors' noise, sigma on the 0..255 scale: the same numbers in every cell.

    Added in single precision, as theirs was; not clipped.
    """
    drawn = np.float32(sigma / 255) * normal(NOISE_KEY + seed, np.shape(image))
    return (np.asarray(image, np.float32) + drawn).astype(np.float64)


def chained(key: Array, widths: tuple[int, ...]) -> tuple[tuple[Layer, ...], Array]:
    """He-normal weights and zero biases, and the key that is left: every layer splits it twice and uses one part."""
    layers = []
    for d_in, d_out in itertools.pairwise(widths):
        key, own = jax.random.split(key)
        weight = jax.random.normal(own, (d_in, d_out), jnp.float32) * jnp.sqrt(jnp.float32(2 / d_in))
        key, _ = jax.random.split(key)  # a bias would have taken the other part
        layers.append(Layer(weight, jnp.zeros(d_out, jnp.float32)))
    return tuple(layers), key


def of_stax(key: Array, widths: tuple[int, ...]) -> tuple[Layer, ...]:
    """What ``stax.serial(Dense, Relu, ..., Dense)`` draws: Glorot-normal weights (cut off at two deviations), biases
    normal with deviation 0.01; activations take a part of the key, too."""
    glorot, layers = jax.nn.initializers.glorot_normal(), []
    for d_in, d_out in itertools.pairwise(widths):
        key, own = jax.random.split(key)
        of_weight, of_bias = jax.random.split(own)
        bias = BIAS_STD * jax.random.normal(of_bias, (d_out,), jnp.float32)
        layers.append(Layer(glorot(of_weight, (d_in, d_out), jnp.float32), bias))
        key, _ = jax.random.split(key)  # of the activation, which draws nothing
    return tuple(layers)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class DrawnNetwork(Network):
    """A network whose initial parameters are the authors', whatever key ``init`` is given."""

    draw: str = "chain"  # or "stax"
    number: int = CHAIN_KEY  # of the key
    copy: int = 0

    def init(self, key: Array) -> tuple[Layer, ...]:
        """The authors' initial parameters."""
        with original_threefry():
            drawn = _key(self.number)
            layers = of_stax(drawn, self.widths) if self.draw == "stax" else chained(drawn, self.widths)[0]
            return _copied(layers, self.copy)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class DrawnMultiScaleNetwork(MultiScaleNetwork):
    """A multi-scale network with the authors' initial parameters: one chain of keys through all scales."""

    number: int = CHAIN_KEY
    copy: int = 0

    def init(self, key: Array) -> tuple[tuple[Layer, ...], ...]:
        """The authors' initial parameters."""
        with original_threefry():
            drawn, scales = _key(self.number), []
            for _ in self.scales:
                layers, drawn = chained(drawn, self.sub.widths)
                scales.append(_copied(layers, self.copy))
            return tuple(scales)


def _copied(layers: tuple[Layer, ...], copy: int) -> tuple[Layer, ...]:
    def times(part: Array) -> Array:
        if isinstance(part, Tracer):  # only its shape is asked for
            return part
        return jnp.asarray((np.asarray(part, np.float64) * (1 + copy * COPY)).astype(np.float32))

    return jax.tree.map(times, layers)


def from_chain(structure: Sequence[Network | MultiScaleNetwork], *, seed: int = 0, copy: int = 0) -> Structure:
    """A structure that starts where the authors' synthetic, MSDL and eigenvalue runs do, its ReLU with derivative 1/2
    at 0; ``seed`` 0 is their draw."""

    def drawn(network: Network, kind: Callable = DrawnNetwork, **more):
        activation = "relu_half" if network.activation == "relu" else network.activation
        return kind(network.widths, activation, **more)

    number, grades = CHAIN_KEY + seed, []
    for network in structure:
        if isinstance(network, MultiScaleNetwork):
            grades.append(DrawnMultiScaleNetwork(drawn(network.sub, Network), network.scales, number, copy))
        else:
            grades.append(drawn(network, draw="chain", number=number, copy=copy))
    return tuple(grades)


def from_stax(structure: Sequence[Network], *, seed: int = 0, copy: int = 0) -> Structure:
    """A structure that starts where the authors' runs of Tables 1 to 3 do, and their learning rates on images."""
    return tuple(
        DrawnNetwork(network.widths, network.activation, "glorot", BIAS_STD, None, "stax", STAX_KEY + seed, copy)
        for network in structure
    )


def undrawn(model: MultiGrade) -> MultiGrade:
    """The same trained model of plain networks, which a file can hold."""

    def plain(network):
        fields = {field.name: getattr(network, field.name) for field in dataclasses.fields(Network)}
        return Network(**fields) if isinstance(network, DrawnNetwork) else network

    return MultiGrade(tuple(dataclasses.replace(grade, network=plain(grade.network)) for grade in model.grades))
