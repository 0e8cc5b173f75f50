"""Go for the builds: the machine's own if it is new enough, else one from the module proxy, which serves
whole toolchains as modules."""

from __future__ import annotations

import os
import platform
import re
import shutil
import urllib.error
import urllib.request
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.kind import versions
from tests.kind.processes import Failed, cache, run, step

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def find_go() -> Path | None:
    """The machine's own Go if it is new enough, or fetches one that is (GOTOOLCHAIN=auto)."""
    found = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")
    return Path(found) if found and _version(found) >= versions.GO_OLDEST else None


def go_program() -> Path:
    """The machine's own Go, else one that is fetched. Raises Failed."""
    if (found := find_go()) is not None:
        return found
    return _fetch(f"v0.0.1-go{versions.GO}.linux-{architecture()}")


def architecture() -> str:
    """Go's name, and Debian's, for this machine's processor."""
    machine = platform.machine()
    if machine not in _MACHINES:
        raise Failed(f"the test cluster is not built for {machine}; there is {', '.join(_MACHINES)}")
    return _MACHINES[machine]


def module_file(module: str, version: str, name: str) -> str:
    """The text of a file of a module, fetched once. Raises Failed."""
    kept = cache() / f"{Path(module).name}-{version}" / Path(name).name
    if not kept.exists():
        with step(f"fetching {Path(name).name} of {module}"), TemporaryDirectory(dir=cache()) as aside:
            archive = Path(aside) / "module.zip"
            _download(f"{module}/@v/{version}.zip", archive, f"{module} could not be fetched")
            text = zipfile.ZipFile(archive).read(f"{module}@{version}/{name}")
        kept.parent.mkdir(exist_ok=True)
        kept.write_bytes(text)
    return kept.read_text(encoding="utf-8")


def proxies() -> list[str]:
    """Where modules come from, as Go itself reads GOPROXY; without the entries that are no address."""
    listed = os.environ.get("GOPROXY") or "https://proxy.golang.org,direct"
    return [entry.rstrip("/") for entry in re.split(r"[,|]", listed) if "://" in entry]


def _version(program: str) -> tuple[int, int]:
    found = re.search(r"\bgo(\d+)\.(\d+)", run([program, "version"], timeout=30, env={"GOTOOLCHAIN": "local"}))
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _fetch(version: str) -> Path:
    home = cache() / f"golang-{version}"
    if not home.exists():
        with step(f"fetching Go {versions.GO}"), TemporaryDirectory(dir=cache()) as aside:
            archive = Path(aside) / "go.zip"
            problem = "no Go could be fetched; install Go 1.21 or newer"
            _download(f"golang.org/toolchain/@v/{version}.zip", archive, problem)
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(aside)
            unpacked = Path(aside) / f"golang.org/toolchain@{version}"
            for program in (*(unpacked / "bin").iterdir(), *(unpacked / "pkg/tool").rglob("*")):
                program.chmod(0o755)  # a module's zip has no modes
            unpacked.rename(home)
    return home / "bin" / "go"


def _download(path: str, target: Path, problem: str) -> None:
    """From the first proxy that has it. Raises Failed, with `problem` and what each of them said."""
    problems = []
    for proxy in proxies():
        try:
            with urllib.request.urlopen(f"{proxy}/{path}", timeout=60) as answer, open(target, "wb") as file:
                shutil.copyfileobj(answer, file)
            return
        except (urllib.error.URLError, OSError) as said:
            problems.append(f"{proxy}: {said}")
    raise Failed(f"{problem}: " + "; ".join(problems or ["GOPROXY names none"]))
