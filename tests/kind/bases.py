"""Base images for tests, made on the machine: Debian with Python, and with Spark on top.

Where no registry can be reached, Debian comes from its package mirrors with debootstrap. PySpark comes from the package
index with pip; its wheel's folder is a whole Spark home. Both images carry the machine's own certificate authorities:
without them nothing inside a build could talk to an index behind a company's proxy.
"""

from __future__ import annotations

import os
import shutil
import ssl
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.kind import versions
from tests.kind.engine import docker, install
from tests.kind.go import architecture
from tests.kind.images import build_image, content_tag, image_exists, import_tree, why_not_pulled
from tests.kind.processes import cache, run, run_logged, step

_FILES = Path(__file__).parent / "spark"
_DEBOOTSTRAP_SECONDS, _PIP_SECONDS = 900, 900
_LEFT_OUT = ("rocksdbjni-*.jar", "*.cmd")
"""Of PySpark: a sixth of its size is a state store for streams, for nine platforms."""
_NEVER_READ = ("doc", "man", "locale", "info", "lintian")
_DPKG_CONFIG = "".join(f"path-exclude=/usr/share/{folder}/*\n" for folder in _NEVER_READ) + "force-unsafe-io\n"


def debian_tag() -> str:
    """Of Debian's least, the base of all others."""
    return content_tag("rekindle-test/debian", versions.DEBIAN, architecture(), _DPKG_CONFIG)


def debian_image() -> str:
    """Its tag; made when it is not there."""
    tag = debian_tag()
    if image_exists(tag):
        return tag
    if why_not_pulled(versions.DEBIAN_IMAGE) is None:
        docker("tag", versions.DEBIAN_IMAGE, tag)
        return tag
    install({"debootstrap": "debootstrap debian-archive-keyring"})
    with step(f"making a Debian {versions.DEBIAN} tree"), TemporaryDirectory(dir=cache()) as folder:
        tree = Path(folder) / "tree"
        command: list[str | Path] = ["debootstrap", "--variant=minbase", versions.DEBIAN, tree, *_mirror()]
        run_logged("debootstrap", command, timeout=_DEBOOTSTRAP_SECONDS)
        (tree / "etc/dpkg/dpkg.cfg.d/small").write_text(_DPKG_CONFIG)
        left_out = ["var/cache/apt/*", "var/lib/apt/lists/*", "var/log/*", "dev/*"]
        left_out += [f"usr/share/{folder}/*" for folder in _NEVER_READ]
        options = [f"--exclude=./{path}" for path in left_out]
        import_tree(tag, [*options, "-C", str(tree), "-c", "."])
    return tag


def python_image() -> str:
    """`rekindle-test/python`: Python 3.11 with pip and venv, tini, procps, the machine's authorities."""
    return _build("python", debian_image(), versions.DEBIAN)


def spark_image() -> str:
    """`rekindle-test/spark`: the same with Java and PySpark, and the contract of Spark's own image."""
    return _build("spark", debian_image(), versions.DEBIAN, versions.JAVA, versions.PYSPARK, _LEFT_OUT)


def _build(target: str, base: str, *content: object) -> str:
    authorities = _authorities()
    tag = content_tag(f"rekindle-test/{target}", base, _FILES, authorities, *content)
    if image_exists(tag):
        return tag
    with step(f"building {tag}"), TemporaryDirectory(dir=cache()) as folder:
        context = Path(folder)
        shutil.copytree(_FILES, context, dirs_exist_ok=True)
        (context / "machine.crt").write_bytes(authorities)
        if target == "spark":
            left_out = shutil.ignore_patterns(*_LEFT_OUT)
            shutil.copytree(_pyspark(), context / "packages", copy_function=os.link, ignore=left_out)
        build_image(context / "Dockerfile", target, tag, {"BASE": base, "JAVA": versions.JAVA}, context)
    return tag


def _pyspark() -> Path:
    """PySpark and what it needs, as pip installs them."""
    folder = cache() / f"pyspark-{versions.PYSPARK}"
    if not folder.exists():
        with step(f"fetching PySpark {versions.PYSPARK} (450 MB)"), TemporaryDirectory(dir=cache()) as aside:
            target = Path(aside) / "packages"
            pip: list[str | Path] = [
                sys.executable,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-compile",
                "--target",
                target,
            ]
            run_logged("pyspark", [*pip, f"pyspark=={versions.PYSPARK}"], timeout=_PIP_SECONDS)
            target.rename(folder)
    return folder


def _authorities() -> bytes:
    """Every certificate authority that this machine trusts."""
    named = os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    return Path(named).read_bytes() if named else b""


def _mirror() -> list[str]:
    """The Debian mirror of this machine, or none: then debootstrap's own choice."""
    if shutil.which("apt-get") is None:
        return []
    wanted = ["--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian", f"Codename: {versions.DEBIAN}"]
    return run(["apt-get", "indextargets", *wanted], timeout=60).split()[:1]
