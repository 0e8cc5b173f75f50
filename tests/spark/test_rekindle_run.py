"""`rekindle run` from the outside: a driver on the cluster, restarts, Ctrl-C, and nothing left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

MANIFEST = """\
apiVersion: rekindle.dev/v1beta2
kind: SparkApplication
metadata: {name: tiny}
spec:
  type: Python
  sparkVersion: "4"
  mainApplicationFile: main.py
  arguments: [%s]
  executor: {memory: 500m}
"""

MAIN = """
import os, signal, sys, time
from pyspark.sql import SparkSession

def host(_):
    import os, rekindle
    return os.environ["SPARK_LOCAL_IP"]

spark = SparkSession.builder.getOrCreate()
attempt = spark.conf.get("spark.rekindle.driver.attempt")
print("attempt", attempt, "on", spark.sparkContext.parallelize([1], 1).map(host).first())
if sys.argv[1] == "raise":
    raise ValueError("no such year: 1815")
if sys.argv[1] == "die-once" and attempt == "1":
    os.kill(os.getppid(), signal.SIGKILL)  # the driver's JVM; this program is left behind
if sys.argv[1] == "wait" or (sys.argv[1] == "die-once" and attempt == "1"):
    time.sleep(600)
"""


class Run:
    """A `rekindle run` in a folder of its own, its temporary files too, so that what is left can be seen."""

    def __init__(self, folder: Path, does: str, *options: str):
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        (folder / "main.py").write_text(MAIN)
        (folder / "app.yaml").write_text(MANIFEST % does)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rekindle.cli", "run", str(folder / "app.yaml"), "--nodes", "1", *options],
            env={**os.environ, "TMPDIR": str(self.temporary)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_for_driver(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=120)
        return self.process.returncode, out, err

    def processes(self) -> list[list[str]]:
        """Command lines of what still runs with this run's temporary folder in its environment."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("TMPDIR", "").startswith(str(self.temporary)):
                    found.append(process.cmdline())
            except psutil.Error:
                continue
        return found


@pytest.fixture
def run(tmp_path):
    runs = []

    def start(does: str, *options: str) -> Run:
        runs.append(Run(tmp_path, does, *options))
        return runs[-1]

    yield start
    for one in runs:
        one.process.kill()
        one.process.communicate()


def cgroups(pid: int) -> list[Path]:
    return [path for path in Path("/sys/fs/cgroup").glob(f"**/rekindle-{pid}-*") if path.is_dir()]


def until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.requirement("S7-26")
def test_a_killed_driver_is_started_again_and_nothing_is_left(run, tmp_path):
    tiny = run("die-once", "--report", str(tmp_path / "out.json"))
    code, out, err = tiny.end()
    assert out.endswith("attempt 2 on 127.0.0.2\n")
    assert (code, "the driver was killed (SIGKILL); starting driver 2" in err) == (0, True)
    launcher = json.loads((tmp_path / "out.json").read_text())["launcher"]
    assert (launcher["drivers"], launcher["exitCode"]) == (2, 0)
    assert launcher["coreSeconds"] > 1
    assert tiny.processes() == []
    assert list(tiny.temporary.iterdir()) == []
    assert cgroups(tiny.process.pid) == []


@pytest.mark.requirement("S7-26", "S7-29")
def test_a_killed_launcher_leaves_nothing(run):
    tiny = run("wait")
    assert tiny.wait_for_driver() == "attempt 1 on 127.0.0.2\n"
    assert len(tiny.processes()) >= 5  # master, Worker, executor, JVM and program of the driver
    tiny.process.send_signal(signal.SIGKILL)
    until(lambda: tiny.processes() == [] and list(tiny.temporary.iterdir()) == [])
    assert cgroups(tiny.process.pid) == []


def test_ctrl_c_stops_cleanly(run):
    tiny = run("wait")
    tiny.wait_for_driver()
    tiny.process.send_signal(signal.SIGINT)
    code, _, err = tiny.end()
    assert code == 130
    assert err.endswith("rekindle: stopped; the next run goes on from what is stored\n")
    assert tiny.processes() == []
    assert list(tiny.temporary.iterdir()) == []


def test_user_code_that_raises_is_exit_1_with_its_own_traceback(run, tmp_path):
    code, _, err = run("raise").end()
    assert code == 1
    shown = err[err.index("rekindle: ") :].splitlines()
    assert shown[0] == "rekindle: the driver ended with exit code 1"
    assert shown[1] == "Traceback (most recent call last):"
    assert shown[-1] == "ValueError: no such year: 1815"
    assert len(shown) <= 10
    assert list((tmp_path / ".rekindle" / "tiny" / "logs").glob("*/driver-1.err"))
