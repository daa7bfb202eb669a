"""What the core does without: the modules of each extra, and the one line that names the extra that is missing."""

from importlib.util import find_spec

MODULES = {
    "pictures": ("skimage", "PIL", "tifffile"),
    "plots": ("matplotlib",),
    "convex": ("cvxpy", "clarabel"),
    "tensorboard": ("tensorboard",),
    "bm3d": ("bm3d",),
}


def find_missing(extra: str) -> list[str]:
    """The modules of an extra that are not installed."""
    return [module for module in MODULES[extra] if find_spec(module) is None]


def require(extra: str) -> None:
    """ModuleNotFoundError with the command that installs the extra, unless its modules are there."""
    if missing := find_missing(extra):
        raise ModuleNotFoundError(
            f"this needs {', '.join(missing)}: pip install 'multigrade[{extra}]'", name=missing[0]
        )
