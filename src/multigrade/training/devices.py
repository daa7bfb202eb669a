"""One fit over several devices: each holds a share of the rows, all hold the parameters.

    L(Theta) = (sum over devices of their rows' w_n 1/2 ||y_n - N(Theta; x_n)||^2) / (sum over devices of w_n)

and likewise its gradient: one sum over the devices (psum) per step. Rows are filled up to a multiple of the number of
devices with rows of weight 0. The result is that of one device up to rounding, random batches included: the same rows
are drawn. Batches that are fed from the host are shared out instead, and XLA divides the steps (``share``), also over
several processes that ``jax.distributed`` has joined: all run the same program on the same data, each computes its
share of every batch, and the first one writes checkpoints. ``fit_grades(..., devices=4)`` uses this; on a
CPU, XLA_FLAGS=--xla_force_host_platform_device_count=4 makes four devices of one.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .objectives import LeastSquares, Rows

AXIS = "rows"


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Spread:
    """Where ``num_rows`` rows live: shared out over the devices of a mesh with the axis "rows"."""

    mesh: Mesh
    num_rows: int

    def place(self, rows):
        """Every array of a pytree shared out by its first axis, filled up with zeros."""
        sharding = NamedSharding(self.mesh, PartitionSpec(AXIS))
        return jax.tree.map(lambda leaf: jax.device_put(filled(leaf, self.mesh.size), sharding), rows)

    def share(self, batch):
        """A batch that every process has, each device given its share of the rows: the steps are then data-parallel."""
        sharding = NamedSharding(self.mesh, PartitionSpec(AXIS))
        return jax.tree.map(lambda leaf: _placed(leaf, sharding), batch)

    def repeat(self, tree):
        """The same arrays on every device."""
        sharding = NamedSharding(self.mesh, PartitionSpec())
        return jax.tree.map(lambda leaf: _placed(leaf, sharding), tree)

    def objective(self, objective: LeastSquares) -> "SpreadLeastSquares":
        return SpreadLeastSquares(objective, self.mesh)

    def metric(self, metric) -> "TrimmedMetric":
        return TrimmedMetric(metric, self.num_rows)


def spread_over(devices: int | Sequence[Any], num_rows: int) -> Spread:
    """The first so many devices, or these ones; ValueError if they are not there."""
    if isinstance(devices, int):
        present = jax.devices()
        if not 1 <= devices <= len(present):
            raise ValueError(
                f"devices must be from 1 to {len(present)}, the number that JAX has here; got {devices} (on a CPU, "
                "XLA_FLAGS=--xla_force_host_platform_device_count=N gives N of them)"
            )
        devices = present[:devices]
    if not devices:
        raise ValueError("devices must name at least one device; got none")
    return Spread(Mesh(np.array(devices), (AXIS,)), num_rows)


def _placed(leaf, sharding: NamedSharding):
    if isinstance(leaf, Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        data = _placed(jax.random.key_data(leaf), sharding)
        return jax.random.wrap_key_data(data)
    numbers = np.asarray(leaf)
    return jax.make_array_from_callback(numbers.shape, sharding, lambda index: numbers[index])


def placed_like(data, state):
    """The state on all devices over which the data is shared out; as it is where the data is on one.

    What a compiled step returns is there too: a state that starts elsewhere would have the program compiled twice.
    """
    shardings = [leaf.sharding for leaf in jax.tree.leaves(data) if isinstance(leaf, Array)]
    meshes = [sharding.mesh for sharding in shardings if isinstance(sharding, NamedSharding)]
    return Spread(meshes[0], 0).repeat(state) if meshes else state


def filled(array: Array, multiple: int) -> Array:
    """The array with rows of zeros added up to a multiple."""
    missing = -len(array) % multiple
    return jnp.pad(array, [(0, missing), *[(0, 0)] * (array.ndim - 1)]) if missing else array


@dataclasses.dataclass(frozen=True)
class TrimmedMetric:
    """The same function of (prediction, targets), which sees the rows without those that fill up."""

    metric: Callable[[Array, Array], Array]
    num_rows: int

    def __call__(self, prediction: Array, targets: Array) -> Array:
        return self.metric(prediction[: self.num_rows], targets[: self.num_rows])


class _Sums(NamedTuple):
    of_rows: Any  # a sum over rows, or a pytree of them
    weight: Array

    @property
    def mean(self) -> Any:
        """0 where no row has weight, as a random batch may be."""
        weight = jnp.where(self.weight > 0, self.weight, 1)
        return jax.tree.map(lambda total: total / weight, self.of_rows)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class SpreadLeastSquares:
    """``objective``, each device of the mesh summing over its share of the rows it is given."""

    objective: LeastSquares
    mesh: Mesh

    def init(self, params, data: Rows) -> tuple[()]:
        return ()

    def __call__(self, params, auxiliary: tuple[()], data: Rows) -> tuple[Array, tuple[()]]:
        sums = self._over_devices(self.objective.sum, params, data)
        return sums.mean + self.objective.penalty(params), auxiliary

    def value_and_grad(self, params, auxiliary: tuple[()], data: Rows):
        sums = self._over_devices(self.objective.sum_and_grad, params, data)
        loss, gradient = sums.mean
        return self.objective.add_penalty(loss, gradient, params, auxiliary)

    def _over_devices(self, function, params, data: Rows) -> _Sums:
        if data.weights is None:
            data = data._replace(weights=jnp.ones(len(data.targets), data.targets.dtype))
        data = jax.tree.map(lambda leaf: filled(leaf, self.mesh.size), data)

        @partial(
            jax.shard_map, mesh=self.mesh, in_specs=(PartitionSpec(), PartitionSpec(AXIS)), out_specs=PartitionSpec()
        )
        def summed(params, share: Rows) -> _Sums:
            # Each device differentiates its own share; without this JAX would sum the gradients of its own accord.
            own = jax.tree.map(lambda leaf: jax.lax.pcast(leaf, AXIS, to="varying"), params)
            return jax.lax.psum(_Sums(function(own, share), jnp.sum(share.weights)), AXIS)

        return summed(params, data)
