"""All benchmarks, one after the other; name some to run only those: ``python -m benchmarks training convex``."""

import importlib
import sys

NAMES = ("training", "convolutional", "estimators", "restoration", "imaging", "curvature", "convex", "lab")

if __name__ == "__main__":  # benchmarks start processes of their own
    for name in sys.argv[1:] or NAMES:
        print(f"\n=== {name} ===", flush=True)
        importlib.import_module(f"benchmarks.bench_{name}").main()
