"""Derivatives of a user's function, traced anew at every call and compiled only where the program is another one.

JAX keeps what a function closed over when it was compiled: a global batch, the attributes of a bound method. Curvature
at other values would silently be that of the old ones. So a function is traced at every call. Whatever it closes over
is an argument of the compiled program, and so are its numbers; programs are compared equation by equation, and an equal
one is not compiled again.

All is in float64. A function that cannot be traced so (a convolution with closed-over float32 data, a loop that carries
float32) is traced in its own precision, and the derivatives that come out of that are carried out in float64.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal
from jax.flatten_util import ravel_pytree
from jax.tree_util import Partial

# Level 3 of XLA's CPU backend unrolls the short inner loops of narrow layers before it vectorises them.
CPU_FRIENDLY = {"xla_backend_optimization_level": 2}
COMMON = (-1.0, 0.0, 0.5, 1.0, 2.0)  # numbers that stay in programs: derivatives are full of them
RULES = ("custom_jvp_call", "custom_vjp_call")  # of derivatives that were taken already
CALLS = (*RULES, "jit", "pjit", "closed_call", "core_call", "remat", "checkpoint", "remat2")
OF_BITS = ("bitcast_convert_type", "reduce_precision")


def widen(tree):
    """The tree with its floating leaves in float64; call inside ``jax.enable_x64(True)``."""

    def leaf(x):
        is_floating = hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.floating)
        return jnp.asarray(x, jnp.float64) if is_floating or isinstance(x, float) else x

    return jax.tree.map(leaf, tree)


class Program:
    """A traced function of flat arrays. It equals every other that has the same equations."""

    def __init__(self, jaxpr: Jaxpr):
        self.jaxpr = jaxpr
        self.key = _equations(jaxpr)
        self.hash = hash(self.key)

    def __call__(self, consts, *args: Array) -> list[Array]:
        return jax.core.eval_jaxpr(self.jaxpr, consts, *args)  # pyright: ignore[reportAttributeAccessIssue]

    def __eq__(self, other):
        return isinstance(other, Program) and self.hash == other.hash and self.key == other.key

    def __hash__(self):
        return self.hash


@dataclasses.dataclass(frozen=True)
class Linearisation:
    """A function of a flat vector x and of data, and its derivative in x; both are pytrees, traced and not compiled.

    Parameters
    ----------
    value : (x, data) -> [f(x), *told, *residuals]
    product : (residuals, v) -> [f'(x) v]
    num_told : entries that f tells beside its value
    """

    value: Partial
    product: Partial
    num_told: int

    def at(self, x: Array, data=()) -> tuple[Array, list[Array], Partial]:
        """f(x), what it tells, and v -> f'(x) v as a pytree; what the products share is computed once."""
        with jax.enable_x64(True):
            value, *rest = run(self.value, x, *jax.tree.leaves(data))
            program, *consts = self.product.func, *self.product.args
            return value, rest[: self.num_told], Partial(_Product(program), *consts, rest[self.num_told :])


@dataclasses.dataclass(frozen=True)
class _Product:
    """(consts, residuals, v) -> f'(x) v."""

    program: Program

    def __call__(self, consts, residuals, v: Array) -> Array:
        return self.program(consts, *residuals, v)[0]


@jax.jit(compiler_options=CPU_FRIENDLY)
def run(program, *args):
    """A program or a product, compiled."""
    return program(*args)


@jax.jit(compiler_options=CPU_FRIENDLY)
def run_transposed(product, like, v):
    """f'(x)' v, shaped like x."""
    return jax.linear_transpose(product, like)(v)[0]


@jax.jit(compiler_options=CPU_FRIENDLY)
def run_rows(product, rows):
    """f'(x) v for every row v of a matrix."""
    return jax.vmap(product)(rows)


def linearise(prepare: Callable[..., tuple[Callable, Any]], point, data=()) -> tuple[Linearisation, Array]:
    """The derivative of f at t, for ``f, t = prepare(point, data)``, on flat vectors; and t as one.

    t is a pytree of arrays, f(t) one and a list of what it tells beside. The data are like those at which it will be
    called.
    """
    trees = []

    def halves(point, data) -> tuple[ClosedJaxpr, ClosedJaxpr, int]:
        trees.append(prepare(point, data)[1])
        flat, unravel = ravel_pytree(trees[-1])

        def first(x, data):
            function = prepare(point, data)[0]

            def flat_function(x):
                value, told = function(unravel(x))
                return ravel_pytree(value)[0], told

            value, linear, told = jax.linearize(flat_function, x, has_aux=True)
            residuals, tree = jax.tree.flatten(linear)
            trees.append(tree)
            return value, told, residuals

        traced, (_, told, residuals) = jax.make_jaxpr(first, return_shape=True)(flat, data)
        second = jax.make_jaxpr(lambda residuals, v: jax.tree.unflatten(trees.pop(), residuals)(v))(residuals, flat)
        return traced, second, len(told)

    try:
        with jax.enable_x64(True):
            first, second, num_told = halves(widen(point), widen(data))
    except (TypeError, ValueError):  # data and parameters of unlike precision; if not, it is the caller's own mistake
        first, second, num_told = halves(point, data)
        with jax.enable_x64(True):
            first, second = _in_double(first), _in_double(second)
    with jax.enable_x64(True):
        x = ravel_pytree(widen(trees[-1]))[0]
        return Linearisation(_with_numbers_apart(first), _with_numbers_apart(second), num_told), x


def _with_numbers_apart(closed: ClosedJaxpr) -> Partial:
    """The program with what it closed over, and with its floating numbers, as arguments."""
    jaxpr, numbers = closed.jaxpr, []

    def is_number(atom) -> bool:
        is_floating = isinstance(atom, Literal) and jnp.issubdtype(_kind(atom), jnp.floating)
        return is_floating and float(atom.val) not in COMMON

    found = [atom for eqn in (*jaxpr.eqns, None) for atom in (eqn.invars if eqn else jaxpr.outvars) if is_number(atom)]
    if found:
        numbers = [np.asarray(atom.val, _kind(atom)) for atom in found]
        named = jax.make_jaxpr(lambda *x: x)(*numbers).jaxpr.invars
        given = iter(named)

        def replaced(atoms):
            return [next(given) if is_number(a) else a for a in atoms]

        eqns = [eqn.replace(invars=replaced(eqn.invars)) for eqn in jaxpr.eqns]
        jaxpr = jaxpr.replace(eqns=eqns, outvars=replaced(jaxpr.outvars), constvars=[*jaxpr.constvars, *named])
    return Partial(Program(jaxpr), [*map(jnp.asarray, closed.consts), *numbers])


def _equations(jaxpr: Jaxpr) -> tuple:
    """All that decides what a program computes, as something to compare."""
    numbers: dict[Any, int] = {}

    def atom(a):
        if isinstance(a, Literal):
            return np.asarray(a.val).tobytes(), str(a.aval)
        return numbers.setdefault(a, len(numbers)), a.aval

    def value(name: str, v):
        if isinstance(v, Jaxpr):
            return _equations(v)
        if isinstance(v, ClosedJaxpr):
            return _equations(v.jaxpr), tuple((np.shape(c), np.asarray(c).tobytes()) for c in v.consts)
        if isinstance(v, tuple | list):
            return tuple(value(name, one) for one in v)
        if isinstance(v, dict):
            return tuple((key, value(name, one)) for key, one in v.items())
        if isinstance(v, np.ndarray | jax.Array):
            return np.shape(v), np.asarray(v).tobytes()
        try:
            hash(v)
        except TypeError:
            return repr(v)
        return v

    def parameters(eqn):
        names = ("call_jaxpr",) if eqn.primitive.name in RULES else sorted(eqn.params)
        return tuple((name, value(name, eqn.params[name])) for name in names)

    head = tuple(map(atom, [*jaxpr.constvars, *jaxpr.invars]))
    body = tuple(
        (eqn.primitive, tuple(map(atom, eqn.invars)), parameters(eqn), tuple(map(atom, eqn.outvars)))
        for eqn in jaxpr.eqns
    )
    return head, body, tuple(map(atom, jaxpr.outvars))


# ---- a program of another precision, carried out in float64 ----------------------------------------------------


def _in_double(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same program with every floating number in float64; the decimals of its constants are as they were typed."""
    shapes = [jax.ShapeDtypeStruct(v.aval.shape, _wide(v.aval.dtype)) for v in closed.jaxpr.invars]
    return jax.make_jaxpr(lambda *args: _carry_out(closed.jaxpr, closed.consts, args))(*shapes)


def _widened(value):
    """A parameter of a primitive: a precision, a program (what a scatter adds by), or anything else."""
    if isinstance(value, np.dtype):
        return _wide(value)
    if isinstance(value, Jaxpr):
        return _in_double(ClosedJaxpr(value, ())).jaxpr
    return _in_double(value) if isinstance(value, ClosedJaxpr) else value


def _kind(atom):
    return atom.aval.dtype


def _wide(dtype):
    return jnp.dtype(jnp.float64) if jnp.issubdtype(dtype, jnp.floating) else dtype


def _carry_out(jaxpr: Jaxpr, consts, args) -> list:
    env = dict(zip([*jaxpr.constvars, *jaxpr.invars], widen([*consts, *args]), strict=True))

    def read(atom):
        if not isinstance(atom, Literal):
            return env[atom]
        is_floating = jnp.issubdtype(_kind(atom), jnp.floating)
        return jnp.float64(str(_kind(atom).type(atom.val))) if is_floating else atom.val

    for eqn in jaxpr.eqns:
        out = _apply_widely(eqn, [read(atom) for atom in eqn.invars])
        env.update(zip(eqn.outvars, widen(list(out)), strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _apply_widely(eqn, values: list):
    name, params = eqn.primitive.name, eqn.params

    def body(closed: ClosedJaxpr, *args):
        return _carry_out(closed.jaxpr, closed.consts, args)

    inner = params.get("call_jaxpr", params.get("jaxpr"))
    if name in CALLS:
        return body(inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, ()), *values)
    if name == "cond":
        index, *operands = values
        return jax.lax.switch(
            index, [lambda *args, b=branch: body(b, *args) for branch in params["branches"]], *operands
        )
    if name == "while":
        num_cond, num_body = params["cond_nconsts"], params["body_nconsts"]
        of_cond, of_body, start = values[:num_cond], values[num_cond:][:num_body], values[num_cond + num_body :]
        return jax.lax.while_loop(
            lambda carry: body(params["cond_jaxpr"], *of_cond, *carry)[0],
            lambda carry: body(params["body_jaxpr"], *of_body, *carry),
            start,
        )
    if name == "scan":
        fixed, num_carry = values[: params["num_consts"]], params["num_carry"]
        carry, xs = values[params["num_consts"] :][:num_carry], values[params["num_consts"] + num_carry :]

        def step(carry, x):
            out = body(inner, *fixed, *carry, *x)
            return out[:num_carry], out[num_carry:]

        end, ys = jax.lax.scan(
            step, carry, xs, length=params["length"], reverse=params["reverse"], unroll=params["unroll"]
        )
        return [*end, *ys]
    if name in OF_BITS:
        values = [jnp.asarray(value, _kind(atom)) for value, atom in zip(values, eqn.invars, strict=True)]
    else:
        params = {key: _widened(value) for key, value in params.items()}
    out = eqn.primitive.bind(*values, **eqn.primitive.get_bind_params(params))
    return out if eqn.primitive.multiple_results else [out]
