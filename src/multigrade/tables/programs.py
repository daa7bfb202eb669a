"""Compiled programs kept on disk between processes, for the time of a fit."""

import contextlib
import os
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache


@contextlib.contextmanager
def programs_on_disk():
    """Keep what is compiled inside in ~/.cache/multigrade, unless JAX was given a folder; MULTIGRADE_CACHE=off turns it
    off, and any other value is the folder.

    Where JAX was imported before multigrade, XLA might print a screen of text for every program that it finds; nothing
    is kept then, unless MULTIGRADE_CACHE names a folder. The settings of JAX are as before afterwards.
    """
    is_quiet = os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "3"
    folder = os.environ.get("MULTIGRADE_CACHE") or (str(Path.home() / ".cache" / "multigrade") if is_quiet else "off")
    if jax.config.values["jax_compilation_cache_dir"] or folder == "off":
        yield
        return
    shortest = jax.config.values["jax_persistent_cache_min_compile_time_secs"]
    _use(folder, 0.0)
    try:
        yield
    finally:
        _use(None, shortest)


def _use(folder: str | None, shortest: float) -> None:
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", shortest)
    compilation_cache.reset_cache()  # JAX looks at the settings once
