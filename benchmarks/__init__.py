"""Measurements, each against its rival in one run: ``make bench``, or ``python -m benchmarks.bench_training``."""
