"""Optimisers by name, or any optax transformation; learning rates as numbers, or any optax schedule.

Named optimisers are built once, at unit rate; the loop multiplies their updates by the learning rate, which is an
argument of the compiled program. So a sweep over rates, or a change of rate during a run, compiles nothing.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib

# Named optimisers and the rate each one takes when none is given.
OPTIMISERS: dict[str, tuple[Callable[[], optax.GradientTransformation], float]] = {
    "gd": (lambda: optax.sgd(1.0), 0.05),
    "momentum": (lambda: optax.sgd(1.0, momentum=0.9), 0.01),
    "adam": (lambda: optax.adam(1.0), 1e-3),  # beta 0.9, 0.999, epsilon 1e-8: the paper's
    # Four iterations after the better preconditioning do what five do after the plain one, and a matrix of 128 rows
    # costs as much in them as hundreds of training rows do.
    "muon": (lambda: optax.contrib.muon(1.0, ns_steps=4, preconditioning="aol"), 0.03),
    "lbfgs": (lambda: optax.lbfgs(1.0), 1.0),
}


@cache
def _named(name: str) -> optax.GradientTransformationExtraArgs:
    return optax.with_extra_args_support(OPTIMISERS[name][0]())


def make_optimiser(optimiser: str | optax.GradientTransformation) -> optax.GradientTransformationExtraArgs:
    """The transformation behind a name; a transformation of the caller's is used as it is."""
    if isinstance(optimiser, str):
        if optimiser not in OPTIMISERS:
            raise ValueError(f"optimiser must be one of {', '.join(OPTIMISERS)}; got {optimiser!r}")
        return _named(optimiser)
    if isinstance(optimiser, optax.GradientTransformation):
        return optax.with_extra_args_support(optimiser)
    raise TypeError(f"optimiser must be a name or an optax transformation; got {optimiser!r}")


def check_rate(rate) -> None:
    """ValueError unless it is a positive number, a schedule, or None for the optimiser's default."""
    if rate is None or callable(rate):
        return
    if isinstance(rate, str) or np.ndim(rate) or not (math.isfinite(rate) and rate > 0):
        raise ValueError(f"learning_rate must be a positive number or a schedule; got {rate!r}")


def default_rate(optimiser: str | optax.GradientTransformation) -> float:
    return OPTIMISERS[optimiser][1] if isinstance(optimiser, str) else 1.0


def make_rate(learning_rate, optimiser: str | optax.GradientTransformation):
    """A float32 scalar, or a schedule step -> rate as a pytree; the default follows from the optimiser's name."""
    if learning_rate is None:
        learning_rate = default_rate(optimiser)
    if callable(learning_rate):
        is_pytree = not jax.tree_util.all_leaves([learning_rate])
        return learning_rate if is_pytree else jax.tree_util.Partial(learning_rate)
    check_rate(learning_rate)
    return jnp.asarray(float(learning_rate))


def rate_at(rate: Any, step) -> Any:
    return rate(step) if callable(rate) else rate


def warmup_cosine(peak: float, num_steps: int, warmup: float = 0.1) -> jax.tree_util.Partial:
    """A schedule that rises linearly from 0 to its peak, then falls to 0 by half a cosine.

    Its numbers are leaves of a pytree, so other numbers do not compile another program.

    Parameters
    ----------
    peak : the largest learning rate
    num_steps : the length of the run
    warmup : the share of the steps in which the rate rises

    Returns
    -------
    A function of the step, for ``Plan(learning_rate=...)``.
    """
    numbers = (jnp.float32(peak), jnp.float32(num_steps), jnp.float32(max(warmup * num_steps, 1)))
    return jax.tree_util.Partial(_warmup_cosine, *numbers)


def _warmup_cosine(peak, num_steps, num_warmup, step):
    progress = jnp.clip((step - num_warmup) / jnp.maximum(num_steps - num_warmup, 1), 0, 1)
    return peak * jnp.minimum((step + 1) / num_warmup, 0.5 * (1 + jnp.cos(jnp.pi * progress)))
