"""Images: building them without a registry, and getting them into the nodes.

A tag made here is a hash of what went in, so an image that is there is the right one. A tag of the caller's may be
built anew: nodes remember which image they have under it.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.kind.engine import docker
from tests.kind.processes import Failed, cache, run_logged, step

BUILD_SECONDS, _LOAD_SECONDS = 1200, 300
_LOADED = "/kind/loaded"
"""In a node: a file for each tag that it has, with the image's id."""


def content_tag(name: str, *content: object) -> str:
    """`NAME:HASH` of values and of files: a path stands for the bytes of what lies there."""
    digest = hashlib.sha256()
    for value in content:
        for part in _files(value) if isinstance(value, Path) else [repr(value).encode()]:
            digest.update(part + b"\0")
    return f"{name}:{digest.hexdigest()[:12]}"


def _files(path: Path) -> Iterable[bytes]:
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file() and "__pycache__" not in file.parts:
            yield str(file.relative_to(path)).encode() + f" {file.stat().st_mode:o} ".encode() + file.read_bytes()


def image_exists(tag: str) -> bool:
    return bool(docker("image", "ls", "--quiet", tag).strip())


def why_not_pulled(tag: str) -> str | None:
    """None when the image is there or a registry gave it, else what Docker said."""
    if image_exists(tag):
        return None
    try:
        docker("pull", "--quiet", tag, timeout=_LOAD_SECONDS)
    except Failed as failed:
        return str(failed).splitlines()[-1].strip(" |")
    return None


def build_image(
    dockerfile: Path, target: str | None, tag: str, build_args: Mapping[str, str] | None, context: Path
) -> str:
    """Build `tag` from a Dockerfile; Docker's own cache makes it quick when nothing changed. The image's id.

    The network of the machine is the build's, for no bridge of Docker's need be there.
    """
    command = ["docker", "build", "--network=host", "--tag", tag, "--file", str(dockerfile)]
    command += ["--target", target] if target else []
    for name, value in (build_args or {}).items():
        command += ["--build-arg", f"{name}={value}"]
    run_logged(f"image-{tag.partition(':')[0].replace('/', '-')}", [*command, str(context)], timeout=BUILD_SECONDS)
    return image_id(tag)


def image_id(tag: str) -> str:
    return docker("image", "inspect", "--format", "{{.Id}}", tag).strip().removeprefix("sha256:")


def import_tree(tag: str, tar: Sequence[str | Path], entrypoint: Sequence[str] = ()) -> None:
    """An image of one layer: what a tar command writes."""
    change = ["--change", f"ENTRYPOINT {json.dumps(list(entrypoint))}"] if entrypoint else []
    with subprocess.Popen(["tar", *map(str, tar)], stdout=subprocess.PIPE) as packer:
        assert packer.stdout is not None
        name = f"import-{tag.rpartition('/')[2].partition(':')[0]}"
        run_logged(name, ["docker", "import", *change, "-", tag], timeout=BUILD_SECONDS, stdin=packer.stdout)
    if packer.returncode:
        raise Failed(f"tar ended with {packer.returncode} while {tag} was made")


def load_images(tags: Sequence[str], nodes: Sequence[str]) -> None:
    """Put images into the nodes (their containers' names), all nodes at once; those that a node has are left out."""
    wanted = {tag: image_id(tag) for tag in tags}
    missing = {node: wanted.items() - _loaded(node).items() for node in nodes}
    takers = [node for node, lacking in missing.items() if lacking]
    if not takers:
        return
    chosen = dict(sorted(set().union(*missing.values())))
    size = sum(int(docker("image", "inspect", "--format", "{{.Size}}", tag)) for tag in chosen)
    with (
        step(f"loading {', '.join(chosen)} ({size / 1e6:.0f} MB) into {len(takers)} nodes"),
        TemporaryDirectory(dir=cache()) as folder,
        ThreadPoolExecutor(len(takers)) as pool,
    ):
        archive = Path(folder) / "images.tar"
        save_images(list(chosen), archive)
        list(pool.map(lambda node: _load(archive, node, chosen), takers))


def save_images(tags: Sequence[str], archive: Path) -> None:
    docker("save", "--output", archive, *tags, timeout=_LOAD_SECONDS)


def remove_outdated() -> None:
    """Keep the newest of each image that is made here, and no layer that nothing names. Not beside a build."""
    seen = set()
    for tag in docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "rekindle-test/*").split():  # newest first
        repository = tag.partition(":")[0]
        if repository in seen:
            docker("image", "rm", tag)
        seen.add(repository)
    docker("image", "prune", "--force", timeout=BUILD_SECONDS)


def _load(archive: Path, node: str, loaded: Mapping[str, str]) -> None:
    importer = ["ctr", "--namespace", "k8s.io", "images", "import", "--all-platforms", "-"]
    with open(archive, "rb") as packed:
        command = ["docker", "exec", "--interactive", node, *importer]
        run_logged(f"load-{node}", command, timeout=_LOAD_SECONDS, stdin=packed)
    marks = [f"mkdir -p {_LOADED}"]
    marks += [f"echo {tag} {identity} >{_LOADED}/{tag.replace('/', '-')}" for tag, identity in loaded.items()]
    docker("exec", node, "sh", "-c", " && ".join(marks))


def _loaded(node: str) -> dict[str, str]:
    marks = docker("exec", node, "sh", "-c", f"cat {_LOADED}/* 2>/dev/null || true").split()
    return dict(zip(marks[::2], marks[1::2], strict=True))
