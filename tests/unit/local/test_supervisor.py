"""The launcher's loop, with small programs in the place of spark-submit."""

import os
import signal
import sys
import threading
from dataclasses import dataclass, field

import pytest

from rekindle.api.restart_policy import RestartPolicy
from rekindle.api.settings import RecoverySpec, RekindleSettings
from rekindle.local.submission import ExecutorShape, Submission
from rekindle.local.supervisor import Supervisor, Target
from rekindle.local.watchdog import Watchdog


@dataclass(frozen=True)
class Program(Submission):
    """Runs Python code; `ATTEMPT` and `TAKEOVER` are what a driver would read from its configuration."""

    code: str = ""

    def command(self, master, java_options, conf, properties=None):
        known = {
            "ATTEMPT": int(conf["spark.rekindle.driver.attempt"]),
            "TAKEOVER": conf["spark.rekindle.driver.takeover"],
            "ERROR": conf["spark.rekindle.driver.error"],
        }
        return [conf["spark.pyspark.driver.python"], "-c", f"{known}\nglobals().update({known})\n{self.code}"]


@dataclass
class Lines:
    lines: list[str] = field(default_factory=list)
    out: list[str] = field(default_factory=list)
    heard: threading.Event = field(default_factory=threading.Event)

    def line(self, text):
        self.lines.append(text)

    def output(self, text):
        self.out.append(text)
        self.heard.set()


class WhenHeard:
    """A companion that acts once, when the driver has printed something."""

    def __init__(self, screen, act):
        self._screen, self._act = screen, act

    def step(self, now, driver):
        if self._screen.heard.is_set():
            self._screen.heard.clear()
            self._act(driver)


@pytest.fixture
def watchdog():
    with Watchdog() as watchdog:
        yield watchdog


@pytest.fixture
def supervise(tmp_path, watchdog):
    def run(code, policy=None, act=None, **options):
        work = tmp_path / "work"
        work.mkdir(exist_ok=True)
        settings = RekindleSettings(recovery=RecoverySpec(store=str(tmp_path / "store")))
        program = Program(
            application="x",
            main_file="x",
            arguments=(),
            options=(),
            conf={},
            environment={},
            folder=tmp_path,
            executors=ExecutorShape(1, 1, 1),
            settings=settings,
            restart_policy=policy,
            code=code,
        )
        screen = Lines()
        companions = (WhenHeard(screen, act),) if act else ()
        target = Target("local[1]", work, "")
        return Supervisor(program, target, watchdog, screen, companions, **options).run(), screen

    return run


def test_a_driver_that_finishes_ends_the_run(supervise):
    outcome, screen = supervise("print('answer', ATTEMPT, TAKEOVER)")
    assert (outcome.code, outcome.message, outcome.drivers) == (0, "", 1)
    assert screen.out == ["answer 1 false"]


def test_a_killed_driver_is_followed_by_one_that_may_take_over(supervise):
    outcome, screen = supervise("print(ATTEMPT, TAKEOVER)\nif ATTEMPT < 3:\n    import os; os.kill(os.getpid(), 9)")
    assert (outcome.code, outcome.drivers) == (0, 3)
    assert screen.out == ["1 false", "2 true", "3 true"]
    assert screen.lines == [
        "the driver was killed (SIGKILL); starting driver 2",
        "the driver was killed (SIGKILL); starting driver 3",
    ]


def test_the_first_driver_takes_over_when_the_last_run_s_is_proven_gone(supervise):
    _, screen = supervise("print(TAKEOVER)", takeover=True)
    assert screen.out == ["true"]


def test_restarts_are_used_up(supervise):
    outcome, _ = supervise("raise SystemExit(3)", RestartPolicy(type="Never"))
    assert (outcome.code, outcome.drivers) == (3, 1)


def test_the_old_driver_is_gone_before_the_new_one_starts(supervise):
    """The first leaves a process behind; the second looks whether it lives."""
    code = (
        "import os, pathlib, subprocess, sys\n"
        "pid = pathlib.Path('pid')\n"
        "if ATTEMPT == 1:\n"
        "    left = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "    pid.write_text(str(left.pid))\n"
        "    os.kill(os.getpid(), 9)\n"
        "import psutil\n"
        "left = int(pid.read_text())\n"
        "print(psutil.pid_exists(left) and psutil.Process(left).status() != 'zombie')\n"
    )
    _, screen = supervise(code)
    assert screen.out == ["False"]


def test_the_user_s_traceback_is_told(supervise):
    outcome, _ = supervise("def f():\n    raise ValueError('bad row')\nf()")
    assert outcome.code == 1
    assert outcome.message.startswith("the driver ended with exit code 1\nTraceback (most recent call last):")
    assert outcome.message.endswith("ValueError: bad row")


@pytest.mark.parametrize("code", [1, 2, 3, 4])
def test_the_error_that_a_driver_left_sets_exit_code_and_message(supervise, code):
    outcome, _ = supervise(
        "import json, os, sys\n"
        f"error = {{'exitCode': {code}, 'message': 'it is so', 'remedy': 'do this'}}\n"
        "open(ERROR, 'w').write(json.dumps(error))\n"
        "sys.exit(1)",
        RestartPolicy(type="Never"),
    )
    assert (outcome.code, outcome.message) == (code, "it is so\n-> do this")


def test_an_error_of_an_earlier_driver_is_not_the_last_one_s(supervise):
    outcome, _ = supervise(
        "import os\n"
        "if ATTEMPT == 1:\n"
        "    open(ERROR, 'w').write('{\"exitCode\": 4}')\n"
        "    os.kill(os.getpid(), 9)\n"
        "raise ValueError('bad row')"
    )
    assert outcome.code == 1
    assert outcome.message.endswith("ValueError: bad row")


def test_a_wrong_pipeline_is_a_usage_error(supervise):
    code = (
        "class PipelineError(ValueError):\n    __module__ = 'rekindle.pipeline.errors'\n"
        "raise PipelineError('stage x: no input y')"
    )
    outcome, _ = supervise(code)
    assert outcome.code == 2
    assert outcome.message == "<string> line 5: stage x: no input y"


def interrupt_launcher(driver):
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_lets_the_driver_end_cleanly(supervise, tmp_path):
    code = (
        "import time, pathlib\n"
        "try:\n    print('up'); time.sleep(600)\n"
        "except KeyboardInterrupt:\n    pathlib.Path('closed').write_text('journal')\n    raise SystemExit(1)"
    )
    outcome, screen = supervise(code, act=interrupt_launcher)
    assert (outcome.code, outcome.drivers) == (130, 1)
    assert outcome.message == "stopped; the next run goes on from what is stored"
    assert screen.lines == ["stopping (Ctrl-C again to kill)"]
    assert (tmp_path / "closed").read_text() == "journal"


def test_a_second_ctrl_c_kills_a_driver_that_does_not_listen(supervise):
    code = (
        "import signal, time\n"
        "def deaf(*_):\n    print('heard')\n"
        "signal.signal(signal.SIGINT, deaf)\n"
        "print('up')\nwhile True: time.sleep(1)"
    )
    outcome, screen = supervise(code, act=interrupt_launcher)
    assert outcome.code == 130
    assert screen.out == ["up", "heard"]


def test_the_launcher_s_own_signals_are_put_back(supervise):
    before = signal.getsignal(signal.SIGINT)
    supervise("pass")
    assert signal.getsignal(signal.SIGINT) is before


def test_a_delay_is_kept_and_can_be_interrupted(supervise, monkeypatch):
    policy = RestartPolicy(type="OnFailure", on_failure_retry_interval=600)
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        outcome, _ = supervise("import os; os.kill(os.getpid(), 9)", policy)
    finally:
        timer.cancel()
    assert outcome.code == 130
    assert outcome.drivers == 1


def test_the_program_runs_in_this_python(supervise):
    _, screen = supervise("import sys; print(sys.executable)")
    assert screen.out == [sys.executable]


def test_a_program_that_passes_over_its_pipelines_error_is_told_of(supervise):
    code = "import json; json.dump({'message': 'stage a: no such column', 'exitCode': 1}, open(ERROR, 'w'))"
    outcome, screen = supervise(code)
    assert outcome.code == 0
    assert "a pipeline failed, and the program ended well all the same: stage a: no such column" in screen.lines
