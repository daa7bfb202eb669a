"""Finite-time Lyapunov exponents along the steps that are really taken, random batches included.

    v_{k+1} = J_k v_k,   J_k the Jacobian of step k on (parameters, state),   exponent = log growth of v / steps

A few tangent vectors go through every step beside the run (one forward derivative each, inside the compiled loop) and
are made orthonormal again every so often; the logarithms of what that takes away are summed up. An exponent above 0:
runs that start nearby separate by that factor a step. For full-batch descent at rest the exponents are
log |1 - eta lambda|.

    observer = ExponentObserver(every=1000)
    fit_grades(structure, x, y, Plan(10_000, "adam", batch_size=64, observers=[observer]))

``lyapunov_exponents`` does the same outside of this package's loop, over any iterable of batches.

Entries at which a step has no derivative (Adam's second moments of neurons that sleep are exactly 0) are held: their
tangents are 0. Lengths are measured in the units of the run, over parameters and state together.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from ..training.observers import Observation, Snapshot
from ..training.program import Moving, take_update
from .maps import started
from .products import check_params


class TangentState(NamedTuple):
    """``vectors`` (num, M) go along with the floating leaves of parameters, optimiser state and auxiliary variable."""

    vectors: Array
    sums: Array  # (num,) logarithms of growth up to the last time they were made orthonormal
    num_held: Array  # entries without a derivative in the last step


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Tangents:
    """What the loop carries beside a run; see ``multigrade.training.observers`` for what a companion is."""

    num: int = 4
    every: int = 10

    def init(self, now) -> TangentState:
        flat, num_params = ravel_pytree(_floating(now))[0], ravel_pytree(now.params)[0].size
        # Runs that start nearby differ in their parameters; the optimiser's state is the same.
        vectors = jax.random.normal(jax.random.key(0), (self.num, flat.size), flat.dtype)
        vectors = jnp.where(jnp.arange(flat.size) < num_params, vectors, 0)
        return TangentState(_orthonormal(vectors)[0], jnp.zeros(self.num), jnp.int32(0))

    def step(self, step, now, state: TangentState):
        """The same step with the tangents carried along: (next, loss, next tangents)."""
        flat, unravel = ravel_pytree(_floating(now))

        def moved(flat):
            after, loss = step(_with_floating(now, unravel(flat)))
            return ravel_pytree(_floating(after))[0], (after, loss)

        # One vector after the other: their products then stay in the cache, and share what the step itself computed.
        _, product, (after, loss) = jax.linearize(moved, flat, has_aux=True)
        vectors = jax.lax.map(product, state.vectors)
        is_good = jnp.isfinite(vectors)
        vectors = jnp.where(is_good, vectors, 0)
        is_due = after.step % self.every == 0
        vectors, sizes = jax.lax.cond(is_due, _orthonormal, lambda v: (v, jnp.ones(self.num)), vectors)
        num_held = jnp.sum(~is_good[0], dtype=jnp.int32)
        return after, loss, TangentState(vectors, state.sums + jnp.log(sizes), num_held)


def _is_floating(leaf) -> bool:
    return jnp.issubdtype(leaf.dtype, jnp.floating)


def _floating(now) -> list[Array]:
    return [leaf for leaf in jax.tree.leaves((now.params, now.optimiser, now.auxiliary)) if _is_floating(leaf)]


def _with_floating(now, floating: list[Array]):
    leaves, structure = jax.tree.flatten((now.params, now.optimiser, now.auxiliary))
    given = iter(floating)
    params, optimiser, auxiliary = jax.tree.unflatten(
        structure, [next(given) if _is_floating(leaf) else leaf for leaf in leaves]
    )
    return now._replace(params=params, optimiser=optimiser, auxiliary=auxiliary)


def _orthonormal(vectors: Array) -> tuple[Array, Array]:
    """Rows that span the same, orthonormal, and how long each was beyond those before it."""
    columns, upper = jnp.linalg.qr(vectors.T)
    sizes = jnp.abs(jnp.diagonal(upper))
    return columns.T, jnp.where(sizes > 0, sizes, jnp.finfo(sizes.dtype).tiny).astype(jnp.result_type(float))


@dataclasses.dataclass(frozen=True)
class ExponentObserver:
    """Records the ``num`` largest exponents per step over each stretch of ``every`` steps, and since the start.

    Recorded: ``exponents`` (num,) of the stretch that ends here, falling for a long stretch; ``mean`` (num,) since step
    0; ``held``, how many entries have no derivative. Both are 0 at step 0.

    Parameters
    ----------
    every : steps of a stretch, a multiple of ``reorthogonalise``
    num : tangent vectors
    reorthogonalise : steps between the moments at which they are made orthonormal again
    name : under which the record has it
    """

    every: int = 1000
    num: int = 4
    reorthogonalise: int = 10
    name: str = "exponents"

    def __post_init__(self):
        for name in ("every", "num", "reorthogonalise"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1; got {getattr(self, name)!r}")
        if self.every % self.reorthogonalise:
            raise ValueError(f"every must be a multiple of reorthogonalise = {self.reorthogonalise}; got {self.every}")

    @property
    def companion(self) -> Tangents:
        """What goes along with the run."""
        return Tangents(self.num, self.reorthogonalise)

    def observe(self, snapshot: Snapshot, carry: Mapping[str, np.ndarray] | None) -> Observation:
        """Record the exponents since the last call."""
        state: Any = snapshot.companion
        sums = np.asarray(state.sums, np.float64)
        seen = snapshot.step - snapshot.step % self.reorthogonalise  # steps that the sums are of
        before, start = (carry["sums"], int(carry["seen"])) if carry else (np.zeros(self.num), 0)
        values = {
            "exponents": (sums - before) / max(seen - start, 1),
            "mean": sums / max(seen, 1),
            "held": np.int32(state.num_held),
        }
        return Observation(values, carry={"sums": sums, "seen": np.int32(seen)})


def lyapunov_exponents(
    loss, params, optimiser, batches: Iterable, state=None, *, num: int = 4, reorthogonalise: int = 10,
    learning_rate: float | None = None,
) -> np.ndarray:  # fmt: skip
    """The ``num`` largest exponents per step along the steps that an optimiser takes on the batches, one for each.

    Parameters
    ----------
    loss : from (parameters, batch) to a number
    params : where the first step starts
    optimiser : a name ("gd", "momentum", "adam", "muon") or any optax transformation
    batches : an iterable; as many as are to be gone through
    state : the optimiser's state at the start; a new one if None
    num : tangent vectors
    reorthogonalise : steps between the moments at which they are made orthonormal again
    learning_rate : multiplies the updates; that of the name, or 1 for an optax transformation, if None

    Returns
    -------
    array
        (num,), falling for a long run.
    """
    check_params(params)
    transformation, state, rate = started(optimiser, params, state, learning_rate)
    tangents = Tangents(num, reorthogonalise)
    now = Moving(jnp.int32(0), jax.tree.map(jnp.asarray, params), state, ())

    @jax.jit
    def step(now, carried, batch):
        def plain(now):
            value, gradient = jax.value_and_grad(loss)(now.params, batch)
            point = now.params, now.optimiser
            params, optimiser = take_update(transformation, rate, point, value, gradient, lambda p: loss(p, batch))
            return Moving(now.step + 1, params, optimiser, ()), value

        return tangents.step(plain, now, carried)

    carried = tangents.init(now)
    for batch in batches:
        now, _, carried = step(now, carried, batch)
    seen = int(now.step) - int(now.step) % reorthogonalise
    if not seen:
        raise ValueError(f"batches must hold at least reorthogonalise = {reorthogonalise}; got {int(now.step)}")
    return np.asarray(carried.sums, np.float64) / seen
