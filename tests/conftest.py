"""One cache of compiled programs for the whole session: most of the tests' time would go into compiling them again."""

import os
import tempfile


def pytest_configure(config):
    # Set before JAX is imported, and inherited by workers and by the commands that tests start.
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        config.compilation_cache = tempfile.TemporaryDirectory(prefix="multigrade-tests-")
        os.environ["JAX_COMPILATION_CACHE_DIR"] = config.compilation_cache.name
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.3"


def pytest_unconfigure(config):
    if hasattr(config, "compilation_cache"):
        config.compilation_cache.cleanup()
