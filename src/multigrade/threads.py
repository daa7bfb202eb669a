"""Cores, and threads of a job. Nothing here imports NumPy or JAX: threads must be settled before they start."""

import os


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_environment(threads: int) -> dict[str, str]:
    """Environment variables under which a process that starts JAX uses that many threads.

    NPROC sizes XLA's pool of threads, and with it the way matrix products and sums are split.
    """
    if threads < 1:
        raise ValueError(f"threads must be at least 1; got {threads}")
    names = ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
    flags = os.environ.get("XLA_FLAGS", "")
    if threads == 1 and "xla_cpu_multi_thread_eigen" not in flags:
        flags = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
    return {**dict.fromkeys(names, str(threads)), **({"XLA_FLAGS": flags} if flags else {})}
