"""Most of the tests' time goes into compiling programs. They are compiled quickly, and kept on disk between runs. A
process that has too many of them forgets them. And how many cases of a law are tried."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How many cases of a law of tests/properties are tried: a few, always the same; or many new ones, if asked for by
# --hypothesis-profile=long.
COMMON = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("short", max_examples=15, derandomize=True, **COMMON)
settings.register_profile("long", max_examples=10_000, print_blob=True, **COMMON)
settings.load_profile("short")
MAX_BYTES = 2**30  # of compiled programs, our choice
MOST_MAPS = 4000  # of a worker between two modules, our choice
# Without XLA's newer code generator programs compile in two thirds of the time. They run slower; last bits differ.
QUICK_COMPILER = "--xla_cpu_use_fusion_emitters=false"


def pytest_configure(config):
    # Set before JAX and NumPy are imported, and inherited by workers and by the commands that tests start.
    # Threads of BLAS wait for each other by spinning: where every core has a worker, a decomposition takes ten times
    # as long with two of them as with one.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ and hasattr(config, "cache"):  # not with -p no:cacheprovider
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(_compiled_programs(config.cache))
        # Small programs, too: hundreds of them draw the initial weights of one shape or other, in every process.
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"


def _compiled_programs(cache) -> Path:
    """The folder of programs that earlier runs have compiled, in .pytest_cache; emptied when it has grown too large."""
    folder = cache.mkdir("compiled")
    if sum(file.stat().st_size for file in folder.iterdir()) > MAX_BYTES:
        shutil.rmtree(folder)
        folder.mkdir()
    return folder


@pytest.fixture(autouse=True, scope="session")
def compile_quickly(request):
    """In the run without slow tests. Commands that tests start, and ``make test-all``, compile as users do."""
    if request.config.option.markexpr != "not slow":
        return
    import jax

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XLA_FLAGS", f"{os.environ.get('XLA_FLAGS', '')} {QUICK_COMPILER}".strip())
        jax.devices()  # XLA reads its flags now, once


@pytest.fixture(autouse=True, scope="module")
def forget_programs():
    # As the package does where a run begins, but sooner: every worker has its own, and compiled ones are on disk.
    yield
    if programs := sys.modules.get("multigrade.programs"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(programs, "MOST_MAPS", MOST_MAPS)
            programs.bound_programs()
