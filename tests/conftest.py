"""Compiled programs: kept on disk for the whole session, for most of the tests' time would go into compiling them; and
forgotten by a process that has too many of them. And how many cases of a law are tried."""

import os
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How many cases of a law of tests/properties are tried: a few, always the same; or many new ones, if asked for by
# --hypothesis-profile=long.
COMMON = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("short", max_examples=15, derandomize=True, **COMMON)
settings.register_profile("long", max_examples=10_000, print_blob=True, **COMMON)
settings.load_profile("short")


def pytest_configure(config):
    # Set before JAX and NumPy are imported, and inherited by workers and by the commands that tests start.
    # Threads of BLAS wait for each other by spinning: where every core has a worker, a decomposition takes ten times
    # as long with two of them as with one.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        config.compilation_cache = tempfile.TemporaryDirectory(prefix="multigrade-tests-")
        os.environ["JAX_COMPILATION_CACHE_DIR"] = config.compilation_cache.name
        # Small programs, too: hundreds of them draw the initial weights of one shape or other, in every process.
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"


def pytest_unconfigure(config):
    if hasattr(config, "compilation_cache"):
        config.compilation_cache.cleanup()


@pytest.fixture(autouse=True, scope="module")
def forget_programs():
    # Every program in memory takes some of the 65,530 maps that Linux gives a process; without any left LLVM crashes.
    yield
    maps = Path("/proc/self/maps")
    if "jax" in sys.modules and maps.exists() and len(maps.read_text().splitlines()) > 30_000:
        sys.modules["jax"].clear_caches()
