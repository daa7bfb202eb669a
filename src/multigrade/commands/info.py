"""``multigrade info``: what is installed and what it runs on; the first thing to put into a bug report."""

import json
import os
import platform
import sys
from importlib import metadata
from typing import Annotated

import typer

SHOWN = ("jax", "jaxlib", "optax", "numpy", "scipy", "scikit-learn", "scikit-image", "safetensors", "typer", "rich")
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

    extras = metadata.metadata("multigrade").get_all("Provides-Extra") or []
    devices = {f"device {d.id}": " ".join(dict.fromkeys((d.platform, d.device_kind))) for d in jax.devices()}
    return {
        "versions": {"multigrade": metadata.version("multigrade"), "python": platform.python_version()}
        | {name: metadata.version(name) for name in SHOWN},
        "machine": {"system": platform.platform(), "python at": sys.executable, "cores to use": num_cores(), **devices},
        "extras": {name: _state_of_extra(name) for name in extras},
        "caches": {
            "compiled programs": jax.config.values["jax_compilation_cache_dir"]
            or "not kept between runs; set JAX_COMPILATION_CACHE_DIR to a folder to keep them",
        },
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ} or {"": "nothing set"},
    }


def _state_of_extra(name: str) -> str:
    """``installed``, or what is missing and the command that installs it."""
    missing = [str(requirement) for requirement in _requirements(name) if not _is_met(requirement)]
    if not missing:
        return "installed"
    return f"missing {', '.join(missing)}: pip install 'multigrade[{name}]'"


def _requirements(extra: str) -> list:
    """What an extra asks for, those of extras of ours that it includes among them."""
    from packaging.requirements import Requirement

    found = []
    for line in metadata.requires("multigrade") or []:
        requirement = Requirement(line)
        if requirement.marker is None or not requirement.marker.evaluate({"extra": extra}):
            continue
        if requirement.name == "multigrade":
            found += [inner for name in sorted(requirement.extras) for inner in _requirements(name)]
        else:
            requirement.marker = None
            found.append(requirement)
    return found


def _is_met(requirement) -> bool:
    try:
        return requirement.specifier.contains(metadata.version(requirement.name), prereleases=True)
    except metadata.PackageNotFoundError:
        return False
