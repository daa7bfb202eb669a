"""The same jobs on a Ray cluster give the same store, with the store in sight of the workers and without."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from multigrade_paper.executors import Experiment, run_jobs
from multigrade_paper.ray_executor import on_ray, remote_job
from multigrade_paper.store import Store

from . import small

ROOT = Path(__file__).parents[2]


def test_results_of_a_worker_that_does_not_see_the_store_are_gathered(tmp_path):
    (job,) = small.jobs(1, epochs=20)
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")
    report, files = remote_job(str(tmp_path / "nowhere"), here.identity, job, Experiment(small.run), {})
    assert report.status == "finished"
    here.put(job.key, files)
    report, files = remote_job(str(there.path), here.identity, job, Experiment(small.run), {})  # another store
    assert files is not None
    report, files = remote_job(str(there.path), there.identity, job, Experiment(small.run), {})
    assert files is None
    assert small.contents(here.path) == small.contents(there.path)
    (bad,) = small.jobs(1, fail=[0])
    assert remote_job("nowhere", "", bad, Experiment(small.run), {})[1] is None


def test_without_ray_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"pip install 'multigrade-paper\[ray\]'"):
        next(on_ray(small.jobs(1), Store(tmp_path / "runs"), Experiment(small.run)))


# Ray leaves sockets to the garbage collector and warns of its own future: its clusters live in other processes.
LOCAL = """
import sys
from pathlib import Path
from multigrade_paper.executors import Experiment, run_jobs
from multigrade_paper.store import Store
from tests.reproduction import small
reports = run_jobs(small.jobs(3, epochs=400), Store(sys.argv[1]), Experiment(small.run), executor="ray", workers=2)
print(*(report.status for report in reports))
"""


def test_a_local_ray_cluster_gives_the_store_of_processes(tmp_path):
    pytest.importorskip("ray")
    command = [sys.executable, "-c", LOCAL, str(tmp_path / "ray")]
    with tempfile.TemporaryDirectory() as folder:  # short: Ray puts sockets there, whose names have little room
        (Path(folder) / "ray").mkdir()
        (Path(folder) / "ray/ray_current_cluster").write_text("127.0.0.1:1")  # left by a cluster that was killed
        environment = {**os.environ, "RAY_TMPDIR": folder}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "finished finished finished"
    run_jobs(small.jobs(3, epochs=400), Store(tmp_path / "processes"), Experiment(small.run), workers=2)
    assert small.contents(tmp_path / "ray") == small.contents(tmp_path / "processes")


# Two raylets on this machine; the one that does not hold the driver is killed once both are at work.
CLUSTER = """
import os, sys, time
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
import ray
from ray.cluster_utils import Cluster
from multigrade_paper import catalogue, experiments
from multigrade_paper.executors import Experiment, run_jobs
from multigrade_paper.store import Store

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
second = cluster.add_node(num_cpus=1)
cluster.wait_for_nodes()
ray.init(address=cluster.address, log_to_driver=False)
store = Store(sys.argv[1])
killed = []

class Killer:
    def started(self, job): ...
    def ended(self, report):
        if len(killed) == 0 and len(store.keys()) >= 3:
            cluster.remove_node(second, allow_graceful=False)
            killed.append(len(store.keys()))

jobs = catalogue.expand(["lr-synthetic"], recipe="quick", images=None)
reports = run_jobs(jobs, store, Experiment(experiments.run), executor="ray", progress=Killer())
deadline = time.monotonic() + 120  # it takes the cluster a while to declare a node dead
while (alive := sum(node["Alive"] for node in ray.nodes())) > 1 and time.monotonic() < deadline:
    time.sleep(0.5)
print(f"killed after {killed[0]} of {len(jobs)}, {alive} node left,", {report.status for report in reports})
ray.shutdown()
cluster.shutdown()
"""


@pytest.mark.slow
def test_a_two_node_cluster_that_loses_a_node_finishes_and_equals_processes(tmp_path):
    pytest.importorskip("ray")
    command = [sys.executable, "-c", CLUSTER, str(tmp_path / "ray")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    (told,) = (line for line in done.stdout.splitlines() if line.startswith("killed after"))
    assert told.endswith("1 node left, {'finished'}")
    assert not told.startswith("killed after 12")
    command = [sys.executable, "-m", "multigrade.cli", *"reproduce lr-synthetic --recipe quick -q --store".split()]
    subprocess.run([*command, str(tmp_path / "processes")], cwd=ROOT, check=True, timeout=600)
    assert small.contents(tmp_path / "ray") == small.contents(tmp_path / "processes")
    assert len(Store(tmp_path / "ray").keys()) == 12
