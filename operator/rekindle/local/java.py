"""Java and Spark on this machine, and the commands that start their processes."""

import os
import re
import secrets
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import rekindle
from rekindle.runtime.errors import EnvironmentProblem

OLDEST_JAVA = 17

# Short-lived JVMs on few cores: without the second compiler and with the serial collector three Workers were
# up in half of the time. No perf data, for a killed JVM would leave its file behind.
QUICK_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")

# What Spark's own launcher gives every JVM (JavaModuleOptions), as far as its daemons need it.
_MODULES = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in (
        "java.lang",
        "java.lang.invoke",
        "java.io",
        "java.net",
        "java.nio",
        "java.util",
        "java.util.concurrent",
        "java.util.concurrent.atomic",
        "sun.nio.ch",
        "sun.nio.cs",
        "sun.security.action",
    )
)

_VERSION = re.compile(r'version "(\d+)')


def find_java() -> Path:
    """The java of JAVA_HOME, else of PATH. Raises EnvironmentProblem: none, too old, or it does not run."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if found is None:
        raise _no_java("no Java found (JAVA_HOME is not set and PATH has no java)")
    try:
        done = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        raise _no_java(f"{found} does not run{' (it is what JAVA_HOME names)' if home else ''}") from None
    version = _VERSION.search(done.stderr + done.stdout)
    if version is None or int(version[1]) < OLDEST_JAVA:
        raise _no_java(f"{found} is Java {version[1] if version else 'of an unknown version'}")
    return Path(found)


def _no_java(what: str) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"{what}: Spark 4 needs Java {OLDEST_JAVA} or newer",
        remedy="install one (Debian, Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install "
        "openjdk@17; conda: conda install -c conda-forge openjdk=17), or set JAVA_HOME to one",
    )


def spark_home() -> Path:
    """The installed PySpark's folder, which is a whole Spark. Raises EnvironmentProblem."""
    spec = find_spec("pyspark")
    home = Path(spec.origin).parent if spec and spec.origin else None
    if home is None or not (home / "jars").is_dir():
        raise EnvironmentProblem(
            f"{sys.executable} has no PySpark with its jars", remedy="pip install 'pyspark>=4.0,<5'"
        )
    return home


def source_root() -> Path:
    """The folder to put on PYTHONPATH so that drivers and executors import this very rekindle."""
    return Path(rekindle.__file__).resolve().parent.parent


def base_environment(temporary: Path) -> dict[str, str]:
    """Environment of every process of a run; temporary files go to `temporary`, which the run removes."""
    theirs = os.environ.get("PYTHONPATH")
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith("SPARK_")},
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONF_DIR": str(temporary / "no-conf"),  # is not there: settings come from the command line alone
        "SPARK_SCALA_VERSION": "2.13",  # else an executor's launch looks for a source build's folders
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": f"{source_root()}{os.pathsep}{theirs}" if theirs else str(source_root()),
        "TMPDIR": str(temporary),
    }


def make_secret(folder: Path) -> Path:
    """A properties file, for our eyes only, with the secret of one private cluster.

    The cluster takes drivers and executors that know it, no other user's; on a command line all would see it.
    """
    path = folder / "spark-defaults.conf"
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(f"spark.authenticate true\nspark.authenticate.secret {secrets.token_hex(32)}\n")
    return path


def class_path(home: Path) -> str:
    """slf4j first, as Spark's own launcher has it: class data sharing needs one order for all JVMs."""
    first = sorted((home / "jars").glob("slf4j-api-*.jar"))
    return os.pathsep.join([*map(str, first), f"{home}/jars/*"])


def daemon_command(java: Path, temporary: Path, main_class: str, *arguments: str) -> list[str]:
    """A Spark daemon's command line: java itself, so that the process we start is the process we own."""
    return [
        str(java),
        *QUICK_JVM,
        *_MODULES,
        "-Xmx256m",
        f"-Djava.io.tmpdir={temporary}",
        "-cp",
        class_path(spark_home()),
        main_class,
        *arguments,
    ]
