"""kubectl against the cluster of the tests: ours, or the one that REKINDLE_TEST_KUBECONFIG names."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.kind import binaries
from tests.kind.processes import Failed, run

_ROOT = Path(__file__).resolve().parents[2]
BUILD = _ROOT / ".build"


def given_kubeconfig() -> Path | None:
    """A cluster that somebody else looks after."""
    named = os.environ.get("REKINDLE_TEST_KUBECONFIG")
    return Path(named) if named else None


def kubeconfig() -> Path:
    """Where the tests' kubeconfig is, or will be."""
    return given_kubeconfig() or BUILD / "kubeconfig"


def kubectl_program() -> str:
    built = binaries.KUBECTL.path("kubectl")
    if built.exists():
        return str(built)
    found = shutil.which("kubectl")
    if found is None:
        raise Failed("no kubectl: make cluster builds one, or install it")
    return found


def kubectl(*arguments: str, timeout: float = 60, text: str | None = None) -> str:
    return run([kubectl_program(), "--kubeconfig", kubeconfig(), *arguments], timeout=timeout, text=text)
