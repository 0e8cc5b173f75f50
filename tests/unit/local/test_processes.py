"""Sessions of real processes end whole; the watchdog ends them when its pipe does."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from rekindle.local.driver import Driver, make_python, read_error
from rekindle.local.logs import tail, wait_for_line
from rekindle.local.sessions import end_sessions, session_pids
from rekindle.local.watchdog import Watchdog, watch
from rekindle.runtime.errors import EnvironmentProblem

# A process with a child in another process group, as Spark's executors and PySpark's daemon are.
FAMILY = (
    "import os, subprocess, sys, time\n"
    "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], process_group=0)\n"
    "{more}\n"
    "print('up', flush=True)\n"
    "time.sleep(600)\n"
)


def start(more: str = "") -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-c", FAMILY.format(more=more)], start_new_session=True, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    return process


def until(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def family():
    process = start()
    until(lambda: len(session_pids(process.pid)) == 2)
    yield process
    end_sessions(process.pid)
    process.wait()


def test_a_session_ends_whole(family):
    assert end_sessions(family.pid) == []
    assert session_pids(family.pid) == []


def test_a_stopped_session_is_continued_so_that_it_can_answer():
    process = start("import signal; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))")
    for pid in session_pids(process.pid):
        os.kill(pid, signal.SIGSTOP)
    assert end_sessions(process.pid, grace=20.0) == []
    assert process.wait() == 7


def test_who_does_not_listen_is_killed():
    process = start("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    assert end_sessions(process.pid, grace=0.3) == []
    assert process.wait() == -signal.SIGKILL


def test_what_is_owned_goes_and_what_is_done_stays(family, tmp_path):
    mine, not_mine = tmp_path / "mine", tmp_path / "not"
    for folder in (mine, not_mine):
        (folder / "deep").mkdir(parents=True)
    other = start()
    try:
        watch(
            json.dumps(message)
            for message in [
                {"own": "session", "name": str(family.pid)},
                {"own": "session", "name": str(other.pid)},
                {"own": "folder", "name": str(mine)},
                {"own": "folder", "name": str(not_mine)},
                {"done": "session", "name": str(other.pid)},
                {"done": "folder", "name": str(not_mine)},
                {"own": "cgroup", "name": str(tmp_path / "none")},
            ]
        )
        assert session_pids(family.pid) == []
        assert len(session_pids(other.pid)) >= 1
        assert (mine.exists(), not_mine.exists()) == (False, True)
    finally:
        end_sessions(other.pid)
        other.wait()


def test_the_watchdog_cleans_up_after_a_killed_launcher(tmp_path):
    """The launcher dies of SIGKILL with everything in its hands."""
    folder = tmp_path / "work"
    folder.mkdir()
    code = (
        "import os, signal, subprocess, sys\n"
        "from rekindle.local.watchdog import Watchdog\n"
        "watchdog = Watchdog()\n"
        f"watchdog.own('folder', {str(folder)!r})\n"
        "sleep = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "child = subprocess.Popen(sleep, start_new_session=True)\n"
        "watchdog.own('session', child.pid)\n"
        "print(child.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    child = int(done.stdout)
    until(lambda: session_pids(child) == [] and not folder.exists())


def test_the_watchdog_ends_with_its_launcher(tmp_path):
    with Watchdog() as watchdog:
        watchdog.own("folder", tmp_path / "x")
        (tmp_path / "x").mkdir()
        pid = watchdog.pid
        assert psutil.pid_exists(pid)
    assert not psutil.pid_exists(pid)
    assert not (tmp_path / "x").exists()


def test_a_log_is_waited_for(tmp_path):
    log = tmp_path / "x.log"
    with open(log, "wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-c", "print('url spark://h:7', flush=True); import time; time.sleep(600)"],
            stdout=stream,
        )
    try:
        import re

        assert wait_for_line("it", process, log, re.compile(r"url (\S+)"), time.monotonic() + 30)[1] == "spark://h:7"
        with pytest.raises(EnvironmentProblem, match=r"(?s)it was not ready in time:\nurl spark://h:7"):
            wait_for_line("it", process, log, re.compile("never"), time.monotonic())
    finally:
        process.kill()
        process.wait()
    with pytest.raises(EnvironmentProblem, match=r"it ended at its start \(exit -9\)"):
        wait_for_line("it", process, log, re.compile("never"), time.monotonic() + 30)


def test_a_tail_is_short(tmp_path):
    log = tmp_path / "x.log"
    log.write_text("".join(f"line {n} {'x' * 300}\n\n" for n in range(100)))
    lines = tail(log, lines=3, width=10).splitlines()
    assert lines == ["line 97 xx", "line 98 xx", "line 99 xx"]
    assert tail(tmp_path / "none") == ""


def drive(tmp_path: Path, code: str) -> tuple[Driver, list[str]]:
    said: list[str] = []
    python = make_python(tmp_path / "python", tmp_path / "driver.err")
    with Watchdog() as watchdog:
        driver = Driver(
            [str(python), "-c", code],
            dict(os.environ),
            tmp_path,
            tmp_path / "driver.log",
            watchdog,
            said.append,
        )
        until(lambda: driver.poll() is not None)
        driver.close()
    return driver, said


def test_a_driver_s_output_is_told_and_its_errors_are_kept(tmp_path):
    driver, said = drive(tmp_path, "import os; print(os.getcwd()); print('two'); raise SystemExit('no')")
    assert said == [str(tmp_path), "two"]
    assert driver.poll() == 1
    assert (tmp_path / "driver.err").read_text() == "no\n"


def test_what_a_driver_leaves_running_ends_with_it(tmp_path):
    sleep = "[sys.executable, '-c', 'import time; time.sleep(600)']"
    code = f"import subprocess, sys; print(subprocess.Popen({sleep}).pid)"
    _, said = drive(tmp_path, code)
    until(lambda: not psutil.pid_exists(int(said[0])) or psutil.Process(int(said[0])).status() == "zombie")


def test_an_error_that_a_driver_left_is_read(tmp_path):
    path = tmp_path / "error.json"
    assert read_error(path) is None
    path.write_text('{"message": "no"')
    assert read_error(path) is None
    path.write_text('{"message": "no", "exitCode": 4}')
    assert read_error(path) == {"message": "no", "exitCode": 4}
