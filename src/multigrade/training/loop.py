"""The one training loop. SGDL, every grade of MGDL, MSDL and image restoration run through ``minimise``.

Steps are taken inside one compiled program (``program.advance``), in chunks of about a quarter of a second. Between
chunks the host shows progress, calls observers, writes checkpoints and looks at the clock. Where chunks fall depends on
the machine, what is computed does not: a record is taken every ``record_every`` steps inside the program.
"""

import dataclasses
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..programs import bound_programs
from .devices import placed_like
from .observers import Observation, Snapshot
from .optimisers import make_optimiser, make_rate, rate_at
from .plan import Plan
from .problem import GradeProblem
from .program import (
    MAX_ROWS,
    Moving,
    Program,
    State,
    advance,
    advance_by_steps,
    last_finite,
    last_finite_by_steps,
)
from .record import Outcome, RunRecord, names_of, path_of

CHUNK_SECONDS = 0.25  # between looks at the clock, observers and interrupts
LOSSES = ("train_loss", "validation_loss")


class Saving(NamedTuple):
    """How a run survives being killed.

    Parameters
    ----------
    save : is given the whole state of the run as arrays, every so many seconds and at the time limit
    every : seconds between two calls of ``save``
    resume : arrays that ``save`` was given; with all else equal, they continue the run to the bit. None starts anew
    """

    save: Callable[[dict[str, np.ndarray]], None]
    every: float = 30.0
    resume: Mapping[str, np.ndarray] | None = None


@dataclasses.dataclass(frozen=True)
class Run:
    """The result of ``minimise``.

    Parameters
    ----------
    params : the parameters at the end, or the best ones if the plan says ``keep="best"``
    auxiliary : the auxiliary variable that belongs to them
    record : what happened
    """

    params: Any
    auxiliary: Any
    record: RunRecord


def minimise(
    problem: GradeProblem,
    params,
    plan: Plan,
    *,
    key: Array | None = None,
    grade: int = 0,
    saving: Saving | None = None,
) -> Run:
    """Minimise ``problem.objective(params, auxiliary, problem.data)`` over the parameters.

    Parameters
    ----------
    problem : what is minimised, and what is measured on the way
        Its ``start``, ``finish`` and ``scale`` are read by ``train_grades`` alone.
    params : the pytree of arrays to start from
    plan : how to descend; its time limit counts from now
    key : draws the batches; None takes ``plan.seed``
    grade : the number of the grade, counted from 0, that observers are told
    saving : how the run survives being killed

    Returns
    -------
    Run
        Parameters, the auxiliary variable and the record.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from multigrade import GradeProblem, LeastSquares, Network, Plan, Rows, minimise
    >>> network, x = Network((1, 8, 1)), jnp.linspace(0, 1, 32)[:, None]
    >>> problem = GradeProblem(LeastSquares(network), Rows(x, x**2))
    >>> run = minimise(problem, network.init(jax.random.key(0)), Plan(200, learning_rate=0.01))
    >>> bool(run.record.train_loss[-1] < run.record.train_loss[0])
    True
    """
    _check(problem, plan)
    bound_programs()
    transformation = make_optimiser(plan.optimiser)
    params = jax.tree.map(jnp.asarray, params)
    auxiliary = problem.objective.init(params, problem.data) if problem.auxiliary is None else problem.auxiliary
    program = _program(problem, plan, key)
    state = _first_state(transformation, plan.keep == "best", program.companion, plan.stopping, params, auxiliary)
    host = _Host(program, transformation, plan, grade, np.float32(problem.loss_unit))
    if problem.feed is not None or problem.is_stepwise:
        host.advance = partial(advance_by_steps, feed=problem.feed)
        host.last_finite = partial(last_finite_by_steps, feed=problem.feed)
    if saving is not None and saving.resume is not None:
        state = host.from_arrays(saving.resume, state)
    return host.run(placed_like(problem.data, state), time_limit=plan.time_limit, saving=saving)


@partial(jax.jit, static_argnums=(0, 1))
def _first_state(transformation, keeps_best: bool, companion, stopping, params, auxiliary) -> State:
    """One program. All leaves are copies, for the loop overwrites its buffers; of strong types, for a second chunk must
    find the first one's program."""
    now = Moving(jnp.int32(0), params, transformation.init(params), auxiliary)
    if companion is not None:
        now = now._replace(companion=companion.init(now))
    best = (jnp.asarray(jnp.inf), params, auxiliary) if keeps_best else ()
    state = State(now, now, best, stopping.init(), jnp.bool_(True), jnp.bool_(False))
    return jax.tree.map(lambda leaf: jnp.array(leaf, jnp.result_type(leaf), copy=True), state)


def _program(problem: GradeProblem, plan: Plan, key: Array | None) -> Program:
    # What an observer has the loop carry along, where there is such an observer.
    companions = [getattr(observer, "companion") for observer in plan.observers if hasattr(observer, "companion")]  # noqa: B009
    if len(companions) > 1:
        raise ValueError(f"observers must have at most one companion in the loop; got {len(companions)}")
    return Program(
        problem.objective,
        problem.data,
        problem.validation,
        problem.validation_objective,
        dict(sorted((problem.metrics or {}).items())),  # as JAX orders them in the program
        plan.sampler if problem.sampler is None else problem.sampler,
        plan.stopping,
        make_rate(plan.learning_rate, plan.optimiser),
        jnp.int32(plan.steps),
        jnp.int32(plan.record_every),
        jax.random.key(plan.seed) if key is None else key,
        companions[0] if companions else None,
        problem.before_step,
        problem.recorded,
    )


def _check(problem: GradeProblem, plan: Plan) -> None:
    plan.check_grades(1)
    if taken := {"step", *LOSSES} & set(problem.metrics or {}):
        raise ValueError(f"metrics must not be called step, {' or '.join(LOSSES)}; got {', '.join(sorted(taken))}")
    own = problem.sampler
    if (
        own is not None
        and problem.feed is None
        and plan.batch_size is not None
        and getattr(own, "size", None) != plan.batch_size
    ):
        raise ValueError(f"batch_size must be None for a problem with a sampler of its own; got {plan.batch_size!r}")


# ---- the host's side -------------------------------------------------------------------------------------------


def _loss(objective, auxiliary, data, params):
    return objective(params, auxiliary, data)[0]


class _Host:
    """Drives the compiled program and keeps the books: rows, observations, the clock."""

    def __init__(self, program: Program, transformation, plan: Plan, grade: int, loss_unit):
        self.program, self.transformation, self.observers, self.grade = program, transformation, plan.observers, grade
        self.advance: Callable = advance
        self.last_finite: Callable = last_finite
        self.loss_unit = loss_unit
        # A transformation of the caller's may hold a rate that is not seen.
        self.has_rate = plan.learning_rate is not None or isinstance(plan.optimiser, str)
        self.num_steps, self.record_every = int(program.num_steps), int(program.record_every)
        self.names = [*LOSSES[: 1 + (program.validation is not None)], *program.metrics]
        self.steps = np.zeros(0, np.int32)
        self.rows = np.zeros((0, len(self.names)), np.float32)
        self.observed: dict[str, dict[str, np.ndarray]] = {}
        self.carries: dict[str, Mapping[str, np.ndarray]] = {}
        self.seconds = 0.0

    def run(self, state: State, *, time_limit: float | None, saving: Saving | None) -> Run:
        before = self.seconds
        started = saved = time.perf_counter()
        num_steps = 1
        while True:
            step = int(state.now.step)
            if reason := self._look(state):
                return self._cut_off(state, Outcome.OBSERVER, reason)
            chunk_started = time.perf_counter()
            asked = min(num_steps, self._steps_until_due(step))
            try:
                state, tables, count = self.advance(self.transformation, self.program, state, jnp.int32(asked))
                self._keep(*tables, count=int(count))
            except jax.errors.JaxRuntimeError as error:
                if jax.process_count() == 1:
                    raise
                raise RuntimeError(
                    f"a process of the run was lost after step {step} of grade {self.grade + 1}; start all of them "
                    f"again, and the run goes on from its checkpoint ({str(error).splitlines()[0]})"
                ) from None
            now = time.perf_counter()
            self.seconds = before + now - started
            num_steps = _next_num_steps(num_steps, asked, now - chunk_started)
            if not state.finite:
                return self._diverged(state)
            if state.stopped:
                return self._end(state, Outcome.PLATEAU, self.program.stopping.sentence)
            if step == self.num_steps:  # the last record, which no step follows
                return self._end(state, Outcome.FINISHED, f"all {step} steps were taken")
            is_over = time_limit is not None and now - started > time_limit
            if saving is not None and (is_over or now - saved >= saving.every):
                saving.save(self.to_arrays(state))
                saved = time.perf_counter()
            if is_over:
                return self._cut_off(state, Outcome.TIME_LIMIT, f"{time_limit:g} seconds passed")

    def _steps_until_due(self, step: int) -> int:
        """Steps until an observer is due or the run ends, or as many as have room for their records."""
        due = [step + o.every - step % o.every for o in self.observers if o.every is not None]
        return min([*due, self.num_steps, step + (MAX_ROWS - 1) * self.record_every]) - step

    def _look(self, state: State) -> str | None:
        """Call the observers that are due; a reason to stop, if one has it."""
        step = int(state.now.step)
        for observer in self.observers:
            if observer.every is not None and step % observer.every and step < self.num_steps:
                continue
            snapshot = self._snapshot(state, self.record(step))
            seen = observer.observe(snapshot, self.carries.get(observer.name)) or Observation()
            self._note(observer.name, step, seen)
            if seen.stop:
                return seen.stop
        return None

    def _snapshot(self, state: State, record: RunRecord) -> Snapshot:
        rate = float(rate_at(self.program.rate, state.now.step)) if self.has_rate else np.nan
        now = jax.tree.map(jnp.copy, state.now)  # the next chunk overwrites it
        data = self.program.data if self.program.recorded is None else self.program.recorded
        loss = jax.tree_util.Partial(_loss, self.program.objective, now.auxiliary, data)
        running = self.transformation, now.optimiser, now.companion
        return Snapshot(self.grade, record.num_steps, self.num_steps, now.params, loss, rate, record, *running)

    def _note(self, name: str, step: int, seen: Observation) -> None:
        if seen.carry is not None:
            self.carries[name] = seen.carry
        if seen.values:
            row = {"step": np.int32(step), **seen.values}
            last = self.observed.get(name)
            new = {key: np.asarray(value)[None] for key, value in row.items()}
            self.observed[name] = {k: np.concatenate([last[k], v]) for k, v in new.items()} if last else new
        if seen.learning_rate is not None:
            self.program = self.program._replace(rate=jnp.asarray(float(seen.learning_rate)))

    def _keep(self, steps: Array, rows: Array, count: int) -> None:
        self.steps = np.concatenate([self.steps, np.asarray(steps)[:count]])
        self.rows = np.concatenate([self.rows, np.asarray(rows)[:count]])

    def _cut_off(self, state: State, outcome: Outcome, sentence: str) -> Run:
        """The end of a run between two records: the present parameters, which it may return, are recorded first."""
        program = self.program._replace(num_steps=jnp.int32(int(state.now.step)))
        state, tables, count = self.advance(self.transformation, program, state, jnp.int32(0))
        self._keep(*tables, count=int(count))
        return self._end(state, outcome, sentence) if state.finite else self._diverged(state)

    def _diverged(self, state: State) -> Run:
        state = state._replace(now=self.last_finite(self.transformation, self.program, state.safe))
        sentence = f"the loss was not finite after step {int(state.now.step)}; try a lower learning rate"
        if not len(self.steps):
            sentence = "the loss was not finite before the first step; scale inputs and targets"
        return self._end(state, Outcome.DIVERGED, sentence)

    def _end(self, state: State, outcome: Outcome, sentence: str) -> Run:
        params, auxiliary = state.best[1:] if state.best else (state.now.params, state.now.auxiliary)
        record = self.record(int(state.now.step), outcome, sentence)
        for observer in self.observers:
            if observer.every is None:
                observer.observe(self._snapshot(state, record), None)
        return Run(params, auxiliary, record)

    def record(self, num_steps: int, outcome: Outcome = Outcome.FINISHED, sentence: str = "") -> RunRecord:
        columns = {"step": self.steps}
        for name, column in zip(self.names, np.ascontiguousarray(self.rows.T), strict=True):
            columns[name] = column * self.loss_unit if name in LOSSES else column
        return RunRecord(columns, dict(self.observed), outcome, sentence, num_steps, self.seconds)

    def to_arrays(self, state: State) -> dict[str, np.ndarray]:
        """The run as it stands, for ``from_arrays``."""
        arrays = {"steps": self.steps, "rows": self.rows, "seconds": np.float64(self.seconds)}
        arrays |= {f"state/{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
        if not callable(self.program.rate):  # a schedule is there again; a number may come from an observer
            arrays["rate"] = np.asarray(self.program.rate)
        for kind, books in (("observed", self.observed), ("carry", self.carries)):
            arrays |= {f"{kind}/{path_of(name, key)}": v for name, part in books.items() for key, v in part.items()}
        return arrays

    def from_arrays(self, arrays: Mapping[str, np.ndarray], state: State) -> State:
        self.steps, self.rows, self.seconds = arrays["steps"], arrays["rows"], float(arrays["seconds"])
        for path, array in arrays.items():
            kind, _, rest = path.partition("/")
            if kind in ("observed", "carry"):
                name, key = names_of(rest)
                books = self.observed if kind == "observed" else self.carries
                books[name] = {**books.get(name, {}), key: array}
        if "rate" in arrays:
            self.program = self.program._replace(rate=jnp.asarray(arrays["rate"]))
        leaves, treedef = jax.tree.flatten(state)
        saved = [arrays.get(f"state/{i}") for i in range(len(leaves))]
        for leaf, of_file in zip(leaves, saved, strict=True):
            if of_file is None or (of_file.shape, of_file.dtype) != (leaf.shape, leaf.dtype):
                raise ValueError(
                    "the checkpoint is damaged: its state is not that of this fit; remove it to start anew"
                )
        return jax.tree.unflatten(treedef, [jnp.asarray(leaf) for leaf in saved])


def _next_num_steps(num_steps: int, asked: int, seconds: float) -> int:
    """Double while chunks are short, halve when they are long; the first chunk, which compiles, stays at 1."""
    if seconds < CHUNK_SECONDS / 2 and asked == num_steps:
        return 2 * num_steps
    return max(num_steps // 2, 1) if seconds > 2 * CHUNK_SECONDS else num_steps
