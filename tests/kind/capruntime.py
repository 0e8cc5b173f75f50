"""An OCI runtime that is runc, less the capabilities that this machine does not have.

kind starts every node privileged, and dockerd then asks for every capability it knows. Where the bounding set lacks
one (CAP_SYS_RESOURCE, in many sandboxes), runc ends with "unable to apply caps: operation not permitted". As
dockerd's default runtime, this takes such names out of what runc will read, and becomes runc. It imports nothing of
the project, for dockerd starts the file itself, once for every step of every container.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

_IN_ORDER = """CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE
SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL
SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE"""
NAMES = tuple(re.findall(r"\w+", _IN_ORDER))
"""In the order of the kernel's numbers."""


def bounding_set(status: str) -> frozenset[str]:
    """The names that a /proc/PID/status says the process could ever have."""
    found = re.search(r"^CapBnd:\s*([0-9a-f]+)", status, re.MULTILINE)
    bits = int(found[1], 16) if found else 0
    return frozenset(f"CAP_{name}" for number, name in enumerate(NAMES) if bits >> number & 1)


def lessen(process: dict[str, Any], have: frozenset[str], open_files: int) -> None:
    """Keep of an OCI process only what this machine can give it."""
    capabilities = process.get("capabilities") or {}
    for kind, names in capabilities.items():
        capabilities[kind] = [name for name in names or () if name in have]
    for limit in process.get("rlimits") or ():
        if limit["type"] == "RLIMIT_NOFILE" and "CAP_SYS_RESOURCE" not in have:
            limit["hard"], limit["soft"] = min(limit["hard"], open_files), min(limit["soft"], open_files)


def file_to_change(arguments: Sequence[str]) -> tuple[Path, str] | None:
    """The file that runc will read, and where in it the process is; None for commands that start nothing."""
    options = dict(pairwise(arguments))
    options |= dict(word.split("=", 1) for word in arguments if word.startswith("-") and "=" in word)
    if "create" in arguments or "run" in arguments:
        return Path(options.get("--bundle") or options.get("-b") or ".") / "config.json", "process"
    if "exec" in arguments and (named := options.get("--process") or options.get("-p")):
        return Path(named), ""
    return None


def main(arguments: Sequence[str]) -> None:
    if (found := file_to_change(arguments)) is not None:
        path, member = found
        whole = json.loads(path.read_bytes())
        have = bounding_set(Path("/proc/self/status").read_text())
        lessen(whole[member] if member else whole, have, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        path.write_text(json.dumps(whole))
    runc = shutil.which("runc") or "/usr/sbin/runc"
    os.execv(runc, [runc, *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
