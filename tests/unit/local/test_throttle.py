"""CPU limits: where cgroups are, what is written to them, and the duty cycle."""

import threading
from pathlib import Path

import pytest

from rekindle.local.throttle import CgroupThrottle, DutyCycleThrottle, cgroup_parent

V1 = "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\n"
V2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n"
OTHER = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n"


@pytest.mark.parametrize(
    ("mounts", "own", "parent"),
    [
        (OTHER + V1, "5:memory:/\n4:cpu,cpuacct:/user/me\n0::/\n", "/sys/fs/cgroup/cpu,cpuacct/user/me"),
        (OTHER + V1, "4:cpu,cpuacct:/\n", "/sys/fs/cgroup/cpu,cpuacct"),
        (V2, "0::/user.slice/me\n", "/sys/fs/cgroup/user.slice/me"),
        (
            V1 + "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n",
            "4:cpu:/a\n0::/b\n",
            "/sys/fs/cgroup/cpu,cpuacct/a",
        ),
        (OTHER, "5:memory:/\n", None),
        ("", "", None),
    ],
)
def test_a_node_s_cgroup_goes_below_our_own(mounts, own, parent):
    found = cgroup_parent(mounts, own)
    assert (str(found) if found else None) == parent


class FakeCgroup:
    """A folder that has the files of one cgroup version once it is made, as the kernel does it."""

    def __init__(self, monkeypatch, folder: Path, *files: str):
        self.folder, make = folder, Path.mkdir

        def mkdir(path: Path, *arguments: object, **named: object) -> None:
            make(path)
            for name in files:
                (path / name).write_text("")

        monkeypatch.setattr(Path, "mkdir", mkdir)

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()


def test_version_1_gets_period_and_quota(tmp_path, monkeypatch):
    cgroup = FakeCgroup(monkeypatch, tmp_path / "n", "cpu.cfs_period_us", "cpu.cfs_quota_us", "cgroup.procs")
    throttle = CgroupThrottle(cgroup.folder)
    assert cgroup.read("cpu.cfs_quota_us") == "-1"
    throttle.limit(0.6)
    assert (cgroup.read("cpu.cfs_period_us"), cgroup.read("cpu.cfs_quota_us")) == ("100000", "60000")
    throttle.limit(0.001)
    assert cgroup.read("cpu.cfs_quota_us") == "1000"  # the kernel refuses less
    throttle.limit(None)
    assert cgroup.read("cpu.cfs_quota_us") == "-1"
    throttle.adopt(4711)
    assert cgroup.read("cgroup.procs") == "4711"


def test_version_2_gets_both_in_one_file(tmp_path, monkeypatch):
    cgroup = FakeCgroup(monkeypatch, tmp_path / "n", "cpu.max", "cgroup.procs")
    throttle = CgroupThrottle(cgroup.folder)
    assert cgroup.read("cpu.max") == "max 100000"
    throttle.limit(1.5)
    assert cgroup.read("cpu.max") == "150000 100000"


class Signals:
    """What a duty cycle sends; `wait_for` blocks until so many signals were sent."""

    def __init__(self):
        self.sent, self._changed = [], threading.Condition()

    def __call__(self, pids, run):
        with self._changed:
            self.sent.append((tuple(pids), run))
            self._changed.notify_all()

    def wait_for(self, count):
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.sent) >= count, timeout=30)


def test_a_duty_cycle_stops_and_continues_and_ends_with_continue():
    signals = Signals()
    throttle = DutyCycleThrottle(lambda: [1, 2], 1.0, period=0.01, send=signals)
    throttle.limit(0.5)
    signals.wait_for(4)
    throttle.close()
    assert signals.sent[:4] == [((1, 2), False), ((1, 2), True)] * 2
    assert signals.sent[-1] == ((1, 2), True)


def test_without_a_limit_nobody_is_stopped():
    signals = Signals()
    throttle = DutyCycleThrottle(lambda: [1], 2.0, period=0.01, send=signals)
    throttle.limit(None)
    throttle.limit(2.0)
    throttle.close()
    assert signals.sent == []


def test_a_lifted_limit_stops_nobody_any_more():
    signals = Signals()
    throttle = DutyCycleThrottle(lambda: [1], 1.0, period=0.01, send=signals)
    throttle.limit(0.1)
    signals.wait_for(2)
    throttle.limit(None)
    throttle.close()
    sent = len(signals.sent)
    assert signals.sent[-1] == ((1,), True)
    assert len(signals.sent) == sent
