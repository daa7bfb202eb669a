"""``multigrade info``: what is installed and what it runs on; the first thing to put into a bug report."""

import json
import os
import platform
import sys
from importlib import metadata
from typing import Annotated

import typer

from ..extras import MODULES, find_missing

SHOWN = ("jax", "jaxlib", "optax", "numpy", "scipy", "scikit-learn", "safetensors", "typer", "rich")
# What decides how many threads and which devices are used, where it is set.
VARIABLES = (
    "JAX_PLATFORMS", "CUDA_VISIBLE_DEVICES", "XLA_FLAGS", "XLA_PYTHON_CLIENT_PREALLOCATE", "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_X64",
)  # fmt: skip


def info(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for machines and bug reports.")] = False,
) -> None:
    """Show versions, devices, threads, extras and caches: multigrade info"""
    facts = gather()
    if as_json:
        print(json.dumps(facts, indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for section, entries in facts.items():
        for index, (name, value) in enumerate(entries.items()):
            table.add_row("" if index else section, name, str(value), end_section=index + 1 == len(entries))
    Console().print(table, markup=False, highlight=False)


def gather() -> dict[str, dict]:
    """All facts by section; importing JAX, which finds the devices."""
    import jax

    from ..threads import num_cores

    devices = {f"device {d.id}": " ".join(dict.fromkeys((d.platform, d.device_kind))) for d in jax.devices()}
    return {
        "versions": {"multigrade": metadata.version("multigrade"), "python": platform.python_version()}
        | {name: metadata.version(name) for name in SHOWN},
        "machine": {"system": platform.platform(), "python at": sys.executable, "cores to use": num_cores(), **devices},
        "extras": {
            extra: f"missing {', '.join(missing)}: pip install 'multigrade[{extra}]'"
            if (missing := find_missing(extra))
            else "installed"
            for extra in MODULES
        },
        "caches": {
            "compiled programs": jax.config.values["jax_compilation_cache_dir"]
            or "not kept between runs; set JAX_COMPILATION_CACHE_DIR to a folder to keep them",
        },
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ} or {"": "nothing set"},
    }
