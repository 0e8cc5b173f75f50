"""Java, stores and addresses as they are found, and reports as they are left."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from rekindle.local import cluster
from rekindle.local.faults import Done
from rekindle.local.java import base_environment, class_path, find_java, make_secret, source_root
from rekindle.local.launch_report import write_report
from rekindle.local.meter import CpuMeter
from rekindle.local.run import keep_logs
from rekindle.local.sessions import end_sessions
from rekindle.local.stores import forget, last_driver_is_gone
from rekindle.local.supervisor import Outcome
from rekindle.runtime.errors import EnvironmentProblem, StoreRefused
from rekindle.runtime.layout import FIRST_RUN, IDENTITY, LEASE
from rekindle.runtime.lease import Lease
from rekindle.runtime.store import Store


def fake_java(folder: Path, prints: str, code: int = 0) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{prints}' >&2\nexit {code}\n")
    java.chmod(0o755)
    return folder


@pytest.mark.parametrize("shown", ['openjdk version "17.0.15" 2025-04-15', 'java version "21" 2023-09-19 LTS'])
def test_java_home_is_used(tmp_path, monkeypatch, shown):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, shown)))
    assert find_java() == tmp_path / "bin" / "java"


def test_java_is_found_on_the_path(tmp_path, monkeypatch):
    home = fake_java(tmp_path, 'openjdk version "17.0.1"')
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{home / 'bin'}:{os.environ['PATH']}")
    assert find_java() == home / "bin" / "java"


@pytest.mark.parametrize(
    ("shown", "code", "says"),
    [
        ('openjdk version "11.0.2"', 0, "is Java 11: Spark 4 needs Java 17 or newer"),
        ('java version "1.8.0_301"', 0, "is Java 1: "),
        ("who knows", 0, "is Java of an unknown version"),
        ("No Java runtime present", 1, "does not run \\(it is what JAVA_HOME names\\)"),
    ],
)
def test_a_java_that_will_not_do_is_named_with_the_remedy(tmp_path, monkeypatch, shown, code, says):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, shown, code)))
    with pytest.raises(EnvironmentProblem, match=says) as caught:
        find_java()
    assert "apt install openjdk-17-jre-headless" in str(caught.value)
    assert caught.value.exit_code == 3


def test_no_java_says_what_to_install(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EnvironmentProblem, match="no Java found") as caught:
        find_java()
    assert "brew install openjdk@17" in str(caught.value)


def test_the_user_s_spark_variables_do_not_leak_into_a_run(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.1")
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    monkeypatch.setenv("PYTHONPATH", "/theirs")
    environment = base_environment(tmp_path)
    assert "SPARK_LOCAL_IP" not in environment
    assert not Path(environment["SPARK_CONF_DIR"]).exists()
    assert environment["PYTHONPATH"] == f"{source_root()}:/theirs"
    assert (Path(environment["SPARK_HOME"]) / "jars").is_dir()


def test_the_class_path_has_every_jar_and_slf4j_first(tmp_path):
    (tmp_path / "jars").mkdir()
    for name in ("a.jar", "slf4j-api-2.0.17.jar"):
        (tmp_path / "jars" / name).touch()
    assert class_path(tmp_path) == f"{tmp_path}/jars/slf4j-api-2.0.17.jar:{tmp_path}/jars/*"


def test_the_secret_is_for_our_eyes_only_and_new_each_time(tmp_path):
    first = make_secret(tmp_path)
    text = first.read_text()
    assert first.stat().st_mode & 0o077 == 0
    assert "spark.authenticate true" in text
    assert make_secret(tmp_path).read_text() != text


def test_nodes_have_addresses_of_their_own_or_there_are_none(monkeypatch):
    assert cluster.loopback_addresses(3) in (["127.0.0.2", "127.0.0.3", "127.0.0.4"], None)

    class OnlyOne(socket.socket):
        def bind(self, address):
            if address[0] != "127.0.0.1":
                raise OSError("cannot assign requested address")
            super().bind(address)

    monkeypatch.setattr(socket, "socket", OnlyOne)
    assert cluster.loopback_addresses(3) is None


def lease(tmp_path, **fields):
    text = json.dumps({"holder": "h", "counter": 1, "released": False, **fields})
    (tmp_path / LEASE).write_text(text)


def test_the_last_driver_is_gone_when_its_process_is(tmp_path):
    assert not last_driver_is_gone(Store.at(tmp_path))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    lease(tmp_path, host=socket.gethostname(), pid=ended.pid)
    assert last_driver_is_gone(Store.at(tmp_path))
    lease(tmp_path, host=socket.gethostname(), pid=os.getpid())
    assert not last_driver_is_gone(Store.at(tmp_path))
    lease(tmp_path, host="another-machine", pid=ended.pid)
    assert not last_driver_is_gone(Store.at(tmp_path))
    lease(tmp_path, host=socket.gethostname(), pid=10**30)
    assert not last_driver_is_gone(Store.at(tmp_path))
    for damaged in ("{cut", "[" * 100_000):
        (tmp_path / LEASE).write_text(damaged)
        assert not last_driver_is_gone(Store.at(tmp_path))


def test_forgetting_leaves_a_folder_that_is_no_store_alone(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "precious").write_text("")
    forget(Store.at(tmp_path), 0.2, print)
    assert (tmp_path / "runs" / "precious").exists()


def test_forgetting_removes_runs_and_volumes_and_nothing_else(tmp_path):
    ours = (IDENTITY, "runs/0001/journal/x", "volume-1/runs/0001/data")
    for name in (*ours, "volume-1/mine", "volume-old/x", "logs/old"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    forget(Store.at(tmp_path), 0.2, print)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"volume-1/mine", "volume-old/x", "logs/old", LEASE, FIRST_RUN}


def test_nobody_can_begin_a_run_while_runs_are_forgotten(tmp_path, monkeypatch):
    store, delete = Store.at(tmp_path).prepare(), Store.delete
    store.put_if_absent(IDENTITY, b"{}")
    tried: list[str] = []

    def try_to_begin(self, name: str) -> None:
        if name == "runs":
            with pytest.raises(StoreRefused, match="in use by fresh-"):
                Lease(store, "other", 0.2).acquire()
            tried.append(name)
        delete(self, name)

    monkeypatch.setattr(Store, "delete", try_to_begin)
    forget(store, 0.2, lambda _: None)
    assert tried == ["runs"]


def test_a_store_in_use_is_not_forgotten(tmp_path):
    (tmp_path / IDENTITY).write_text("{}")
    running = Lease(Store.at(tmp_path).prepare(), "running", 0.4)
    running.acquire()
    try:
        with pytest.raises(StoreRefused, match="in use by running"):
            forget(Store.at(tmp_path), 0.4, print)
    finally:
        running.release()
    assert (tmp_path / IDENTITY).exists()


def test_a_report_has_what_only_the_launcher_knows(tmp_path):
    said: list[str] = []
    path = tmp_path / "reports" / "out.json"
    chaos = [Done(5.0, "kill-driver@time=1", "the driver was killed")]
    write_report(path, Store.at(tmp_path / "store"), Outcome(0, "", 2, 41.23456), 12.3456, chaos, said.append)
    assert json.loads(path.read_text())["launcher"] == {
        "exitCode": 0,
        "seconds": 41.235,
        "coreSeconds": 12.346,
        "drivers": 2,
        "chaos": [{"t": 5.0, "fault": "kill-driver@time=1", "what": "the driver was killed"}],
    }
    assert said == [f"report: {path}"]


def test_a_report_that_cannot_be_written_is_said(tmp_path):
    said: list[str] = []
    write_report(tmp_path, Store.at(tmp_path / "store"), Outcome(0, "", 1, 1.0), 0.0, [], said.append)
    assert said == [f"no report: {tmp_path}: Is a directory"]


def test_cpu_time_of_all_processes_counts_and_stays_when_they_end():
    burn = "n = 0\nwhile n < 2e6: n += 1"
    code = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', {burn + chr(10) + 'input()'!r}], stdin=subprocess.PIPE)\n"
        f"{burn}\nprint(child.pid, flush=True)\ntime.sleep(600)"
    )
    busy = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE)
    assert busy.stdout is not None

    class Driver:
        pid = busy.pid

    meter = CpuMeter(tuple)
    try:
        processes = [psutil.Process(busy.pid), psutil.Process(int(busy.stdout.readline()))]
        used = [process.cpu_times().user for process in processes]
        meter.step(1.0, Driver())
        seen = meter.core_seconds
    finally:
        end_sessions(busy.pid)
        busy.wait()
    meter.step(1.5, Driver())
    meter.step(3.0, Driver())
    assert seen >= sum(used) > max(used)
    assert meter.core_seconds == seen


def test_logs_of_the_last_failed_runs_are_kept(tmp_path):
    work = tmp_path / "work"
    (work / "127.0.0.2" / "work" / "app" / "0").mkdir(parents=True)
    (work / "127.0.0.2" / "work" / "app" / "0" / "stderr").write_text("executor")
    (work / "driver-1.err").write_text("driver")
    (work / "spark-defaults.conf").write_text("secret")
    for day in range(1, 8):
        (tmp_path / "store" / "logs" / f"2026010{day}-000000").mkdir(parents=True)
    line = keep_logs(work, Store.at(tmp_path / "store"))
    kept = Path(line.removeprefix("logs: "))
    found = sorted(str(path.relative_to(kept)) for path in kept.rglob("*") if path.is_file())
    assert found == ["127.0.0.2/work/app/0/stderr", "driver-1.err"]
    assert sorted(path.name for path in kept.parent.iterdir())[:4] == [f"2026010{day}-000000" for day in (4, 5, 6, 7)]
    assert len(list(kept.parent.iterdir())) == 5
