"""``multigrade reproduce``: the paper's tables and figures as jobs, run here or on a cluster, results in a store."""

import dataclasses
import os
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reproduce:
    """Run the paper: multigrade reproduce table1 lr-synthetic --recipe paper --images my-images

    Stop it when you like: the same command continues. Two of them on one store share the work.
    """

    items: Annotated[list[str] | None, typer.Argument(help="Items of the paper, see --list; all if none is named.")] = (
        None
    )
    recipe: Annotated[str, typer.Option(help="quick (decides nothing), fast, best or paper (faithful).")] = "fast"
    images: Annotated[Path | None, typer.Option(help="Folder with the paper's images; free pictures stand in.")] = None
    store: Annotated[Path, typer.Option(help="Folder of the results; what is there already is kept.")] = Path("runs")
    executor: Annotated[str, typer.Option(help="inline, processes or ray.")] = "processes"
    jobs: Annotated[int | None, typer.Option(help="Jobs at a time; as many as there are cores if not given.")] = None
    threads: Annotated[int, typer.Option(help="Threads of a job; another number changes the last bits.")] = 1
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Change a setting: --set epochs=1000.")
    ] = None
    seeds: Annotated[int, typer.Option(help="Repeat everything with so many seeds.")] = 1
    ray_address: Annotated[
        str | None, typer.Option(help="Address of a Ray cluster; RAY_ADDRESS, or one started here.")
    ] = None
    gpus: Annotated[float, typer.Option(help="GPUs of a job, on a Ray cluster.")] = 0
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="JOBS", help="Only jobs with these words in their name, or of this key."),
    ] = None
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write STORE/report.html, again and again while jobs run.")
    ] = True
    show: Annotated[bool, typer.Option("--list", help="Show the items, their jobs and an estimate of their time.")] = (
        False
    )
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False

    def run(self) -> None:
        from multigrade.threads import thread_environment

        os.environ.update(thread_environment(self.threads))  # before NumPy and JAX start
        # Workers and runs share what they compile: in the user's own cache, for a store may come from anywhere.
        if (home := os.path.expanduser("~")) != "~":  # there may be none
            os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", os.path.join(home, ".cache", "multigrade"))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
        from .. import catalogue, executors

        if self.executor not in executors.NAMES:
            raise ValueError(f"--executor must be one of {', '.join(executors.NAMES)}; got {self.executor!r}")
        if self.jobs is not None and self.jobs < 1:
            raise ValueError(f"--jobs must be at least 1; got {self.jobs}")
        overrides = _overrides(self.settings or [])
        plan = {"recipe": self.recipe, "images": self.images, "overrides": overrides, "seeds": self.seeds}
        names = self.items or [item.name for item in catalogue.items()]
        jobs = catalogue.only(catalogue.expand(names, **plan), self.only or [])
        workers = self.jobs or executors.default_workers(self.threads)
        if self.show:
            _show(names, self.recipe, jobs, workers)
        else:
            self._run_jobs(jobs, workers, self._cluster())

    def _cluster(self) -> dict:
        """Where jobs run, for the executor ray; nothing for the others."""
        if self.executor != "ray" and (self.ray_address is not None or self.gpus):
            raise ValueError("--ray-address and --gpus belong to --executor ray")
        address = self.ray_address or os.environ.get("RAY_ADDRESS")
        cluster = {"address": address, "gpus": self.gpus} if self.executor == "ray" else {}
        if self.jobs is not None and (self.executor == "inline" or cluster.get("address")):
            raise ValueError(
                "--jobs goes neither with --executor inline, which runs one at a time, nor with a Ray cluster that is "
                "there already (--ray-address or RAY_ADDRESS)"
            )
        return cluster

    def _run_jobs(self, jobs, workers: int, cluster: dict) -> None:
        from .. import costs, executors, experiments
        from ..progress import Progress, Silent
        from ..store import Store

        experiment = executors.Experiment(experiments.run, self.images and self.images.absolute(), self.threads)
        results = Store(self.store)
        cost = {job.key: costs.seconds(job) for job in jobs}
        progress: Any = Silent()
        if not self.quiet:
            progress = Progress(jobs, results.path, workers=workers, cost=lambda job: cost[job.key])
        if self.report:
            progress = _with_report(progress, results, len(jobs), None if self.quiet else self.store)
        try:
            with progress:
                reports = executors.run_jobs(
                    jobs, results, experiment, executor=self.executor, workers=workers,
                    cost=lambda job: cost[job.key], progress=progress, **cluster,
                )  # fmt: skip
        except KeyboardInterrupt:
            raise KeyboardInterrupt("; results are kept, run the same command again to continue") from None
        if not self.quiet:
            counts = {status: sum(r.status == status for r in reports) for status in ("finished", "kept", "failed")}
            print(", ".join(f"{number} {status}" for status, number in counts.items()) + f"; results in {self.store}")
            _print_ledger(results, self.store)
        failed = [report for report in reports if report.status == "failed"]
        for report in failed:
            typer.echo(f"failed: {report.job.item}, {report.job.label}: {report.sentence}", err=True)
        if failed:
            raise typer.Exit(1)


def _overrides(settings: list[str]) -> dict[str, str]:
    pairs = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise ValueError(f"--set must be name=value; got {text!r}")
        if name in pairs:
            raise ValueError(f"--set gives {name} twice")
        pairs[name] = value
    return pairs


def _show(names, recipe: str, expanded, workers: int) -> None:
    from rich.console import Console
    from rich.table import Table

    from .. import catalogue, costs
    from ..progress import duration

    speed = costs.calibrate()
    table = Table(
        "item", "what", "where", "jobs", "time", title=f"recipe {recipe}, {workers} job{'s' * (workers > 1)} at a time"
    )
    for name in names:
        item = catalogue.named(name)
        jobs = [job for job in expanded if catalogue.is_of(item, job)]
        table.add_row(name, item.title, item.place, str(len(jobs)), duration(costs.total(jobs, speed, workers)))
    whole = costs.total(expanded, speed, workers)
    table.add_section()
    table.add_row("all of them", "items share jobs", "", str(len(expanded)), duration(whole))
    Console().print(table)
    print("Time on this machine, estimated from two short fits; runs that stop early take less.")


def _with_report(progress, results, num_jobs: int, told: Path | None):
    from ..report.live import LivePage

    if told is not None:
        print(f"report in {told / 'report.html'}, from now on")
    return LivePage(progress, results, results.path / "report.html", num_jobs=num_jobs)


def _print_ledger(results, store: Path) -> None:
    from ..claims import left_out, verdicts
    from ..images import OWN_STORE

    saved = list(results.all())
    counts = Counter(str(verdict.status) for verdict in verdicts(saved))
    found = ", ".join(f"{number} {status}" for status, number in counts.items())
    print(f"claims of the paper: {found}; see multigrade claims {store}")
    if unusable := len(results.keys()) - len(saved):
        print(f"{unusable} results are not usable; see multigrade runs {store} --damaged")
    if unused := left_out(saved):
        print(f"{len(unused)} {OWN_STORE}")
