"""Docker: the one that runs, or the system's package started by us and ended with the cluster.

A dockerd of ours keeps its images in the cache, has no default bridge, and listens where every client looks. Its
pid and the settings of the machine that it changes are written down before it starts, so `stop` can undo exactly
that: a dockerd that was there before is never touched.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests.kind import capruntime, firewall
from tests.kind.processes import Failed, cache, last_lines, log_of, run, say, step, wait_until

_PACKAGES = {"dockerd": "docker.io", "docker": "docker.io", "iptables": "iptables"}
_INSTALL_SECONDS, _START_SECONDS, _STOP_SECONDS = 600, 60, 90
_EXEC_ROOT = Path("/run/rekindle-docker")
_RUN_FOLDERS = tuple(map(Path, ("/run/docker/plugins", "/run/docker", "/run/containerd/s", "/run/containerd")))
_SETTINGS = {"net/ipv4/ip_forward": 1, "fs/inotify/max_user_instances": 1024}
"""What a cluster needs at least, and what it was before is restored. A node takes 14 instances of inotify."""


def docker(*arguments: str | Path, timeout: float = 60, text: str | None = None) -> str:
    """The output of a docker command."""
    return run(["docker", *arguments], timeout=timeout, text=text)


def runs() -> bool:
    """Whether a dockerd answers, ours or another."""
    try:
        docker("version", "--format", "{{.Server.Version}}", timeout=20)
    except Failed:
        return False
    return True


def ours() -> int | None:
    """The pid of the dockerd that we started, None where there is none of ours that lives."""
    try:
        pid = int(json.loads(_record().read_text())["pid"])
        command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pid if str(_data_root()) in command else None  # a pid may be another's after a restart of the machine


def start() -> None:
    """Have a dockerd that can run kind's nodes."""
    if runs():
        _check_capabilities()
        return
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        raise Failed("no Docker answers `docker version`: start it (only root on Linux gets one started here)")
    install(_PACKAGES)
    _prepare_machine()
    with step("starting dockerd"):
        _launch()


def stop() -> None:
    """End the dockerd that we started and undo what it did to the machine."""
    record = _record()
    if not record.exists():
        return
    written = json.loads(record.read_text())
    if (pid := ours()) is not None:
        say("stopping dockerd")
        os.kill(pid, signal.SIGTERM)
        wait_until("the end of dockerd", lambda: ours() is None, seconds=_STOP_SECONDS)
    firewall.remove_dockers_rules(written["forward"])
    for name, value in written["settings"].items():
        (Path("/proc/sys") / name).write_text(value)
    _remove_traces()
    record.unlink()


def _remove_traces() -> None:
    """Mounts, control groups and folders that dockerd leaves when it ends; only what is empty, but for its own."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in reversed(mounts):  # one that was killed leaves its images' folder mounted onto itself, too
        if any(Path(mount).is_relative_to(folder) for folder in (_EXEC_ROOT, _data_root())):
            run(["umount", mount], timeout=30)
    shutil.rmtree(_EXEC_ROOT, ignore_errors=True)
    groups = [group for parent in Path("/sys/fs/cgroup").glob("**/docker") for group in (parent, *parent.glob("**/"))]
    for folder in (*sorted(groups, reverse=True), *_RUN_FOLDERS):
        with suppress(OSError):
            folder.rmdir()


def _record() -> Path:
    return cache() / "dockerd.json"


def _data_root() -> Path:
    return cache() / "docker"


def install(packages: Mapping[str, str]) -> None:
    """Have these programs, {program: the words of its packages}, from the system's packages where they are missing."""
    wanted = sorted({package for program, package in packages.items() if not shutil.which(program)})
    if not wanted:
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise Failed(f"missing, and only root with apt-get gets them installed here: {' '.join(wanted)}")
    # RUNLEVEL=1: Docker's package must not start a dockerd of its own
    apt = {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    with step(f"installing {' '.join(wanted)} with apt-get"):
        run(["apt-get", "update", "-qq"], timeout=_INSTALL_SECONDS, env=apt)
        command = ["apt-get", "install", "-qq", "-y", "--no-install-recommends", *" ".join(wanted).split()]
        run(command, timeout=_INSTALL_SECONDS, env=apt)


def _prepare_machine() -> None:
    record = _record()
    if record.exists():  # an earlier dockerd of ours that did not end well: what it found is what to restore
        stop()
    before = {name: (Path("/proc/sys") / name).read_text() for name in _SETTINGS}
    record.write_text(json.dumps({"pid": 0, "settings": before, "forward": firewall.forward_policies()}))
    for name, least in _SETTINGS.items():
        if int(before[name]) < least:
            (Path("/proc/sys") / name).write_text(str(least))


def _launch() -> None:
    command = ["dockerd", "--data-root", str(_data_root()), "--exec-root", str(_EXEC_ROOT), "--bridge", "none"]
    command += ["--pidfile", str(_EXEC_ROOT / "dockerd.pid")]
    if _lacks_capabilities():
        command += ["--add-runtime", f"lessened={_runtime_program()}", "--default-runtime", "lessened"]
    _EXEC_ROOT.mkdir(parents=True, exist_ok=True)
    path = log_of("dockerd")
    with open(path, "wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/"
        )
    written = json.loads(_record().read_text())
    _record().write_text(json.dumps({**written, "pid": process.pid}))
    try:
        wait_until("dockerd", lambda: process.poll() is not None or runs(), seconds=_START_SECONDS)
        if process.poll() is not None:
            raise Failed(f"dockerd ended:\n{last_lines(path.read_text(errors='replace'))}")
    except Failed:
        with suppress(ProcessLookupError):
            process.terminate()
            process.wait(timeout=_STOP_SECONDS)
        stop()
        raise


def _lacks_capabilities() -> bool:
    have = capruntime.bounding_set(Path("/proc/self/status").read_text())
    return "CAP_SYS_RESOURCE" not in have


def _runtime_program() -> Path:
    """capruntime.py as a program of its own, which a change of the checkout does not reach."""
    program = cache() / "capruntime"
    source = Path(capruntime.__file__).read_text()
    program.write_text(f"#!{sys.executable} -IS\n{source}")
    program.chmod(0o755)
    return program


def _check_capabilities() -> None:
    """A dockerd of somebody else's where a capability is missing: say so now rather than fail at the first node."""
    if ours() is None and sys.platform.startswith("linux") and _lacks_capabilities():
        runtime = docker("info", "--format", "{{.DefaultRuntime}}").strip()
        if runtime == "runc":
            raise Failed(
                "this machine lacks CAP_SYS_RESOURCE, so a privileged container does not start on its dockerd. "
                "Stop that dockerd (one is then started here), or make tests/kind/capruntime.py its default runtime"
            )
