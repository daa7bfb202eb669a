"""The compiled side of the loop: steps and records of one chunk, as one program.

``advance`` takes any number of steps and a record wherever one is due. What is computed does not depend on where chunks
begin and end.

``advance_by_steps`` does the same from the host, a program a step. XLA runs a convolution inside a loop on a CPU with
other code, 35 times slower than outside one; and data that is not on the device can be fed to it step by step.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .optimisers import rate_at

MAX_ROWS = 256  # records per chunk, at most
# At its default level 3 LLVM unrolls inner loops of up to 32 entries before it can vectorise them, which makes
# elementwise work on layers of the paper's width five times slower on a CPU.
COMPILER_OPTIONS = {"xla_backend_optimization_level": 2}


class Moving(NamedTuple):
    """What a step changes."""

    step: Array
    params: Any
    optimiser: Any
    auxiliary: Any
    companion: Any = ()  # what an observer has the loop carry along


class State(NamedTuple):
    """All that changes during a run. ``safe`` is where the last record with a finite loss was taken."""

    now: Moving
    safe: Moving
    best: Any  # (watched loss, params, auxiliary) with keep="best", else ()
    stopping: Any
    finite: Array
    stopped: Array


class Program(NamedTuple):
    """All that does not: the arguments of the compiled program."""

    objective: Any
    data: Any
    validation: Any
    validation_objective: Any  # None where it is ``objective``
    metrics: Mapping[str, Callable]
    sampler: Any
    stopping: Any
    rate: Any
    num_steps: Array
    record_every: Array
    key: Array
    companion: Any = None  # of an observer, see ``observers``
    before_step: Any = None
    recorded: Any = None  # data whose training loss is recorded, None for ``data``


def advance(transformation, program: Program, state: State, num_steps: Array):
    """``num_steps`` steps, with a record wherever one is due: state, (steps, rows) and how many records were taken."""
    num_columns = 1 + (program.validation is not None) + len(program.metrics)
    end = jnp.minimum(state.now.step + num_steps, program.num_steps)

    def going(carry):
        return carry[-1]

    def segment(carry):
        state, (steps, rows), count, _ = carry
        step = state.now.step
        due = (step % program.record_every == 0) | (step == program.num_steps)
        skip = jnp.zeros(num_columns, jnp.float32)
        state, row = jax.lax.cond(due, partial(_record, program), lambda state: (state, skip), state)
        tables = steps.at[count].set(step), rows.at[count].set(row)  # without a record the next one overwrites it
        count += due & state.finite
        state = _steps(transformation, program, state, end)
        return state, tables, count, (state.now.step < end) & state.finite & ~state.stopped

    tables = jnp.zeros(MAX_ROWS, jnp.int32), jnp.zeros((MAX_ROWS, num_columns), jnp.float32)
    state, tables, count, _ = jax.lax.while_loop(going, segment, (state, tables, jnp.int32(0), jnp.bool_(True)))
    return state, tables, count


advance = jax.jit(advance, static_argnums=0, donate_argnums=2, compiler_options=COMPILER_OPTIONS)


def _record(program: Program, state: State) -> tuple[State, Array]:
    """Losses and metrics at the present parameters, and what the stopping rule makes of them."""
    params, auxiliary = state.now.params, state.now.auxiliary
    train = program.objective(params, auxiliary, program.data if program.recorded is None else program.recorded)[0]
    losses = [train]
    if program.validation is not None:
        judge = program.objective if program.validation_objective is None else program.validation_objective
        losses.append(judge(params, auxiliary, program.validation)[0])
    watched = losses[-1]
    finite = state.finite & jnp.isfinite(train)
    stopping, stopped = program.stopping.update(state.stopping, watched.astype(jnp.float32))
    best = state.best
    if best:
        best = _select(finite & (watched < best[0]), (watched, params, auxiliary), best)
    whole = getattr(program.objective, "variables", lambda params, auxiliary: params)(params, auxiliary)
    metrics = [metric(whole) for metric in program.metrics.values()]
    row = jnp.stack([jnp.asarray(value, jnp.float32) for value in (*losses, *metrics)])
    safe = _select(finite, state.now, state.safe)
    return State(state.now, safe, best, stopping, finite, stopped & finite), row


def _steps(transformation, program: Program, state: State, end: Array) -> State:
    """Steps up to the next record or ``end``, or to the first loss that is not finite: then back at ``safe``. None once
    the run has stopped."""
    next_record = state.now.step - state.now.step % program.record_every + program.record_every
    until = jnp.minimum(next_record, end)
    until = jnp.where(state.finite & ~state.stopped, until, state.now.step)
    # Every loss is looked at: one that is not finite may be followed by one that is, and where a chunk ends must not
    # decide which of them is seen.
    kind = jax.eval_shape(lambda now: _step(transformation, program, now)[1], state.now)
    now, loss = jax.lax.while_loop(
        lambda carry: (carry[0].step < until) & jnp.isfinite(carry[1]),
        lambda carry: _step(transformation, program, carry[0]),
        (state.now, jnp.zeros(kind.shape, kind.dtype)),
    )
    finite = state.finite & jnp.isfinite(loss)
    return state._replace(now=_select(finite, now, state.safe), finite=finite)


def _step(transformation, program: Program, now: Moving) -> tuple[Moving, Array]:
    """One step, and what goes along with it; and the loss before."""
    step = partial(_plain_step, transformation, program)
    if program.companion is None:
        return step(now)
    after, loss, companion = program.companion.step(step, now, now.companion)
    return after._replace(companion=companion), loss


def _plain_step(transformation, program: Program, now: Moving) -> tuple[Moving, Array]:
    """One optimiser step, Theta <- Theta + rate * update, the auxiliary variable moved first; and the loss before."""
    if program.before_step is not None:
        now = now._replace(params=program.before_step(now.step, now.params))
    batch = program.sampler.draw(jax.random.fold_in(program.key, now.step), program.data)
    (loss, auxiliary), gradient = program.objective.value_and_grad(now.params, now.auxiliary, batch)
    params, optimiser = take_update(
        transformation, rate_at(program.rate, now.step), (now.params, now.optimiser), loss, gradient,
        lambda params: program.objective(params, now.auxiliary, batch)[0],
    )  # fmt: skip
    return Moving(now.step + 1, params, optimiser, auxiliary, now.companion), loss


def take_update(transformation, rate, point, loss, gradient, value_fn):
    """The update rule, theta + rate * update(gradient, state, theta): the next (parameters, optimiser state).

    It is what ``curvature.maps`` differentiates.
    """
    params, state = point
    updates, state = transformation.update(gradient, state, params, value=loss, grad=gradient, value_fn=value_fn)
    return jax.tree.map(lambda p, u: p + jnp.asarray(rate, p.dtype) * u, params, updates), state


@partial(jax.jit, static_argnums=0, compiler_options=COMPILER_OPTIONS)
def last_finite(transformation, program: Program, safe: Moving) -> Moving:
    """From the last record on, step by step, to the last parameters whose loss was finite.

    A run looks at its losses but keeps earlier parameters only at records; this finds the rest after a divergence, and
    is compiled only then. With random batches the loss of all rows may overflow first: then the last record stands.
    """

    def going(carry):
        _, now, finite = carry
        return finite & (now.step <= safe.step + program.record_every)

    def step(carry):
        last, now, _ = carry
        moved, loss = _step(transformation, program, now)
        finite = jnp.isfinite(loss)
        return _select(finite, now, last), moved, finite

    last, _, finite = jax.lax.while_loop(going, step, (safe, safe, jnp.bool_(True)))
    return _select(finite, safe, last)


def advance_by_steps(transformation, program: Program, state: State, num_steps: Array, feed: Callable | None = None):
    """``advance`` from the host; ``feed`` gives the data of every step by its number."""
    step, every, last = int(state.now.step), int(program.record_every), int(program.num_steps)
    end, steps, rows = min(step + int(num_steps), last), [], []
    while True:
        if step % every == 0 or step == last:
            state, row = _one_record(program, state)
            if state.finite:
                steps, rows = [*steps, step], [*rows, np.asarray(row)]
        if step == end or not state.finite or state.stopped:
            width = 1 + (program.validation is not None) + len(program.metrics)
            return state, (np.array(steps, np.int32), np.array(rows, np.float32).reshape(-1, width)), len(steps)
        now, finite, until = state.now, state.finite, min(step - step % every + every, end)
        for step in range(step, until):  # noqa: B020
            fed = program if feed is None else program._replace(data=feed(step))
            before = finite
            now, finite = _one_step(transformation, fed, now, finite)
            before.block_until_ready()  # the host prepares one step ahead, and no more
        state, step = state._replace(now=now if finite else state.safe, finite=finite), until


_one_record = jax.jit(_record)


@partial(jax.jit, static_argnums=0)
def _one_step(transformation, program: Program, now: Moving, finite: Array) -> tuple[Moving, Array]:
    after, loss = _step(transformation, program, now)
    return after, finite & jnp.isfinite(loss)


def last_finite_by_steps(transformation, program: Program, safe: Moving, feed: Callable | None = None) -> Moving:
    """``last_finite`` from the host."""
    last = now = safe
    for step in range(int(safe.step), int(safe.step) + int(program.record_every) + 1):
        fed = program if feed is None else program._replace(data=feed(step))
        moved, finite = _one_step(transformation, fed, now, jnp.bool_(True))
        if not finite:
            return last
        last, now = now, moved
    return safe


def _select(condition: Array, yes, no):
    """One of two states. A branch copies its leaves; ``where`` would be compiled anew for every leaf."""
    return jax.lax.cond(condition, lambda: yes, lambda: no)
