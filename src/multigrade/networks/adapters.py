"""Grades made of other libraries' modules: flax.nnx, flax.linen, Equinox, and plain functions.

    nnx(trunk, head)                  functions of ``rngs`` that make modules
    linen(trunk, head, inputs=shape)  modules
    equinox(trunk, head)              functions of a key that make modules (of one row), or (module, State)
    functions(init, trunk, head)      init(key) -> (parameters of the trunk, of the head); trunk(parameters, x)

What they return is a description like ``Network``. Trained parameters, running means and randomness are told apart as
the library does it. Nothing of these libraries is imported before it is used.
"""

import dataclasses
import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from .parts import TrunkAndHead, Variables


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class functions(TrunkAndHead):
    """A grade of plain functions.

    Parameters
    ----------
    init_both : key -> (parameters of the trunk, parameters of the head)
    trunk : (parameters, x) -> features
    head : (parameters, features) -> outputs
    """

    init_both: Callable[[Array], tuple[Any, Any]]
    trunk: Callable
    head: Callable

    def init(self, key: Array) -> Variables:
        return Variables(tuple(self.init_both(key)), ((), ()))

    def apply(self, part: int, trained: Any, state: Any, x: Any, key: Array | None) -> tuple[Any, Any]:
        return (self.trunk, self.head)[part](trained, x), state


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class nnx(TrunkAndHead):
    """A grade of two ``flax.nnx`` modules; training and inference are ``module.train()`` and ``module.eval()``.

    Parameters
    ----------
    trunk, head : functions of ``rngs`` (``nnx.Rngs``) that make the modules
    """

    trunk: Callable
    head: Callable

    def start(self, part: int, key: Array) -> tuple[Any, Any]:
        from flax import nnx

        _, trained, _, state = nnx.split((self.trunk, self.head)[part](nnx.Rngs(key)), nnx.Param, nnx.RngState, ...)
        return trained, state

    def apply(self, part: int, trained: Any, state: Any, x: Any, key: Array | None) -> tuple[Any, Any]:
        from flax import nnx

        graph, random = _nnx_graph((self.trunk, self.head)[part], key is not None)
        own = jax.random.key(0) if key is None else key
        leaves, treedef = jax.tree.flatten(random)
        numbers = [
            jax.random.fold_in(own, i) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else jnp.zeros_like(leaf)
            for i, leaf in enumerate(leaves)
        ]
        module = nnx.merge(graph, trained, jax.tree.unflatten(treedef, numbers), state, copy=True)
        made = module(x)
        return made, nnx.split(module, nnx.Param, nnx.RngState, ...)[3]


@lru_cache(maxsize=64)
def _nnx_graph(make: Callable, is_training: bool) -> tuple[Any, Any]:
    """The module without its arrays, and the shapes of what it draws at random."""
    from flax import nnx

    module = nnx.eval_shape(lambda: make(nnx.Rngs(0)))
    module.train() if is_training else module.eval()
    graph, _, random, _ = nnx.split(module, nnx.Param, nnx.RngState, ...)
    return graph, random


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class linen(TrunkAndHead):
    """A grade of two ``flax.linen`` modules. A module whose call has ``train``, ``training``, ``deterministic`` or
    ``use_running_average`` is told the mode by it.

    Parameters
    ----------
    trunk, head : the modules
    inputs : the shape of one row of what the trunk reads
    """

    trunk: Any
    head: Any
    inputs: tuple[int, ...]

    def init(self, key: Array) -> Variables:
        x, parts = jnp.ones((1, *self.inputs)), []
        for module, own in zip((self.trunk, self.head), jax.random.split(key), strict=True):
            mode = _linen_mode(module, False)
            variables = dict(module.init({"params": own, "dropout": own}, x, **mode))
            x = module.apply(variables, x, **mode)
            parts.append((variables.pop("params", {}), variables))
        return Variables(*(tuple(kind) for kind in zip(*parts, strict=True)))

    def apply(self, part: int, trained: Any, state: Any, x: Any, key: Array | None) -> tuple[Any, Any]:
        module = (self.trunk, self.head)[part]
        if key is None:
            return module.apply({"params": trained, **state}, x, **_linen_mode(module, False)), state
        made, moved = module.apply(
            {"params": trained, **state}, x, **_linen_mode(module, True), rngs={"dropout": key}, mutable=list(state)
        )
        return made, {**state, **moved}


def _linen_mode(module: Any, is_training: bool) -> dict[str, bool]:
    known = {"train": is_training, "training": is_training}
    known |= {"deterministic": not is_training, "use_running_average": not is_training}
    return {name: known[name] for name in inspect.signature(type(module).__call__).parameters if name in known}


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class equinox(TrunkAndHead):
    """A grade of two Equinox modules, each of one row; over rows they are mapped with the axis name "batch".

    Parameters
    ----------
    trunk, head : functions of a key that make the modules; for modules with state (``eqx.nn.make_with_state``) they
        return (module, state), and the call takes and returns the state
    """

    trunk: Callable
    head: Callable

    def start(self, part: int, key: Array) -> tuple[Any, Any]:
        import equinox as eqx

        module, state = _with_state((self.trunk, self.head)[part](key))
        trained, rest = eqx.partition(module, eqx.is_inexact_array)
        return trained, (eqx.filter(rest, eqx.is_array), state)

    def apply(self, part: int, trained: Any, state: Any, x: Any, key: Array | None) -> tuple[Any, Any]:
        import equinox as eqx

        fixed, moving = state
        module = eqx.combine(trained, fixed, _equinox_rest((self.trunk, self.head)[part]))
        module = eqx.nn.inference_mode(module, key is None)
        takes_key = "key" in inspect.signature(type(module).__call__).parameters
        rows = jax.tree.leaves(x)[0].shape[0]
        keys = jax.random.split(key, rows) if takes_key and key is not None else None

        def row(x, key, moving):
            options = {"key": key} if takes_key else {}
            return module(x, moving, **options) if moving is not None else (module(x, **options), None)

        axes = (0, None if keys is None else 0, None)
        made, moving = jax.vmap(row, in_axes=axes, out_axes=(0, None), axis_name="batch")(x, keys, moving)
        return made, (fixed, moving)


def _with_state(made: Any) -> tuple[Any, Any]:
    return made if type(made) is tuple else (made, None)


@lru_cache(maxsize=64)
def _equinox_rest(make: Callable) -> Any:
    """All of the module but its arrays."""
    import equinox as eqx

    module, _ = _with_state(eqx.filter_eval_shape(make, jax.random.key(0)))
    return eqx.filter(module, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct), inverse=True)
