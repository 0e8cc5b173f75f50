"""From a manifest to a driver's command line: each part of the spec is a function of its own."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from rekindle.api.manifest import ManifestError
from rekindle.api.quantities import mebibytes
from rekindle.api.restart_policy import RestartPolicy
from rekindle.api.settings import RekindleSettings
from rekindle.api.spark_application import SparkApplication, SparkApplicationSpec
from rekindle.local.files import find_file
from rekindle.local.java import QUICK_JVM, spark_home
from rekindle.runtime.configure import session_conf
from rekindle.runtime.store import Store, is_url

_PATIENCE = 3.0

# The launcher's own: a manifest that sets these would not run where the launcher says it does.
_OURS = (
    "spark.master",
    "spark.driver.host",
    "spark.driver.bindAddress",
    "spark.cores.max",
    "spark.local.dir",
)


@dataclass(frozen=True, slots=True)
class ExecutorShape:
    """Executors of an application: how many, and cores and memory (MiB) of each."""

    instances: int
    cores: int
    memory: int
    beside_heap: int = 0
    """MiB that Spark asks of a Worker for each executor beside the heap."""


@dataclass(frozen=True, slots=True)
class Submission:
    """All of a driver but its attempt. Paths are absolute; `notes` are lines for the user."""

    application: str
    main_file: str
    arguments: tuple[str, ...]
    options: tuple[str, ...]
    conf: Mapping[str, str]
    environment: Mapping[str, str]
    folder: Path
    executors: ExecutorShape
    settings: RekindleSettings
    restart_policy: RestartPolicy | None = None
    notes: tuple[str, ...] = ()

    @property
    def store(self) -> Store:
        """Where results are stored, for the launcher, which cannot wait long: it has drivers to watch."""
        assert self.settings.recovery.store is not None
        return Store.at(self.settings.recovery.store, self.conf, patience=_PATIENCE)

    def command(
        self, master: str, java_options: str, conf: Mapping[str, str], properties: Path | None = None
    ) -> list[str]:
        """spark-submit's command line; `conf` comes last and wins, also over the file `properties`."""
        merged = {**self.conf, **conf}
        return [
            str(spark_home() / "bin" / "spark-submit"),
            *("--master", master, "--deploy-mode", "client", "--name", self.application),
            *("--driver-java-options", java_options),
            *(("--properties-file", str(properties)) if properties else ()),
            *self.options,
            *(part for key, value in merged.items() for part in ("--conf", f"{key}={value}")),
            self.main_file,
            *self.arguments,
        ]


def plan_submission(
    application: SparkApplication,
    folder: Path,
    *,
    nodes: int,
    store: str | os.PathLike[str] | None = None,
    store_limit: int | None = None,
) -> Submission:
    """What `rekindle run` submits for a manifest in `folder`.

    `store` and `store_limit` win over the manifest's. Raises ManifestError.
    """
    spec = application.spec
    _refuse(spec)
    notes = _notes(application)
    settings = _settings(application, folder, store, store_limit)
    executors = executor_shape(spec, nodes)
    return Submission(
        application=application.metadata.name,
        main_file=find_file("spec.mainApplicationFile", spec.main_application_file, folder, notes),
        arguments=tuple(spec.arguments),
        options=(*_dependencies(spec, folder, notes), "--driver-memory", spec.driver.memory),
        conf=_conf(spec, settings, executors),
        environment=spec.driver.environment(),
        folder=folder,
        executors=executors,
        settings=settings,
        restart_policy=spec.restart_policy,
        notes=tuple(notes),
    )


def executor_shape(spec: SparkApplicationSpec, nodes: int) -> ExecutorShape:
    """Cores, memory and number of executors: the spec's fields, else its sparkConf, else one on each node."""
    given, conf = spec.executor.model_fields_set, spec.spark_conf

    def pick(name: str, key: str, otherwise: str) -> str:
        value = getattr(spec.executor, name)
        return str(value) if name in given and value is not None else conf.get(key, otherwise)

    extra = mebibytes(conf.get("spark.executor.pyspark.memory", "0"))
    if conf.get("spark.memory.offHeap.enabled", "false").lower() == "true":
        extra += mebibytes(conf.get("spark.memory.offHeap.size", "0"), "b")
    try:
        return ExecutorShape(
            instances=int(pick("instances", "spark.executor.instances", str(nodes))),
            cores=int(pick("cores", "spark.executor.cores", "1")),
            memory=mebibytes(pick("memory", "spark.executor.memory", "1g")),
            beside_heap=extra,
        )
    except ValueError as error:
        raise ManifestError(f"spec.sparkConf: spark.executor.*: {error}") from None


def driver_java_options(spec: SparkApplicationSpec, temporary: Path) -> str:
    """JVM options of the driver: ours, then the user's, which win."""
    theirs = spec.driver.java_options or spec.spark_conf.get("spark.driver.extraJavaOptions", "")
    return _java_options(temporary, theirs)


def executor_java_conf(spec: SparkApplicationSpec, temporary: Path) -> dict[str, str]:
    """JVM options of the executors, as Spark configuration."""
    theirs = spec.executor.java_options or spec.spark_conf.get("spark.executor.extraJavaOptions", "")
    return {"spark.executor.extraJavaOptions": _java_options(temporary, theirs)}


def default_store(application: SparkApplication, folder: Path) -> Path:
    """Where results are stored when nobody says: beside the manifest, the same place for each run."""
    return folder / ".rekindle" / application.metadata.name


def _refuse(spec: SparkApplicationSpec) -> None:
    if spec.type != "Python":
        raise ManifestError(
            f"spec.type: {spec.type} applications are not run on one machine: what is stored and recovered "
            "there is a PySpark pipeline; use the operator on Kubernetes, or spark-submit"
        )
    for key in _OURS:
        if key in spec.spark_conf:
            raise ManifestError(f"spec.sparkConf.{key}: rekindle chooses this for its private cluster; remove it")


def _notes(application: SparkApplication) -> list[str]:
    notes = []
    if meaningless := application.meaningless_locally():
        notes.append(f"no meaning on one machine: {', '.join(meaningless)}")
    installed = version("pyspark")
    if application.spec.spark_version != installed:
        notes.append(f"spec.sparkVersion is {application.spec.spark_version}; PySpark {installed} is used here")
    return notes


def _settings(
    application: SparkApplication, folder: Path, store: str | os.PathLike[str] | None, store_limit: int | None
) -> RekindleSettings:
    """The application's settings with an absolute store."""
    settings = application.spec.settings()
    recovery = settings.recovery
    if store is None and recovery.store:
        store = recovery.store if is_url(recovery.store) else folder / recovery.store
    place = os.fspath(store or default_store(application, folder))
    changed = recovery.model_copy(
        update={
            "store": place if is_url(place) else str(Path(place).resolve()),
            "store_limit": store_limit or recovery.store_limit,
        }
    )
    return settings.model_copy(update={"recovery": changed})


def _dependencies(spec: SparkApplicationSpec, folder: Path, notes: list[str]) -> list[str]:
    deps, options = spec.deps, []
    files = {"jars": deps.jars, "files": deps.files, "pyFiles": deps.py_files, "archives": deps.archives}
    flags = {"jars": "--jars", "files": "--files", "pyFiles": "--py-files", "archives": "--archives"}
    for name, values in files.items():
        found = [find_file(f"spec.deps.{name}[{i}]", value, folder, notes) for i, value in enumerate(values)]
        options += [flags[name], ",".join(found)] if found else []
    coordinates = {
        "--packages": deps.packages,
        "--exclude-packages": deps.exclude_packages,
        "--repositories": deps.repositories,
    }
    for flag, values in coordinates.items():
        options += [flag, ",".join(values)] if values else []
    return options


def _conf(spec: SparkApplicationSpec, settings: RekindleSettings, executors: ExecutorShape) -> dict[str, str]:
    own_settings = settings.to_spark_conf()
    return {
        "spark.ui.enabled": "false",
        # On one machine silence means a hung executor: do not wait two minutes for it, least of all at the end.
        "spark.rpc.askTimeout": "10s",
        "spark.network.timeout": "60s",
        **session_conf(settings),
        **{key: value for key, value in spec.spark_conf.items() if key not in own_settings},
        **{f"spark.hadoop.{key}": value for key, value in spec.hadoop_conf.items()},
        **{f"spark.executorEnv.{key}": value for key, value in spec.executor.environment().items()},
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.cores": str(executors.cores),
        "spark.executor.memory": f"{executors.memory}m",
        "spark.cores.max": str(executors.instances * executors.cores),
        "spark.pyspark.python": sys.executable,
    }


def _java_options(temporary: Path, theirs: str) -> str:
    return " ".join([*QUICK_JVM, f"-Djava.io.tmpdir={temporary}", *([theirs] if theirs else [])])


def driver_environment(submission: Submission, base: Mapping[str, str], temporary: Path) -> dict[str, str]:
    """The driver's environment over the run's, its PYTHONPATH behind ours."""
    theirs = submission.environment
    merged = {**base, **theirs, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(temporary / "local")}
    if "PYTHONPATH" in theirs:
        merged["PYTHONPATH"] = os.pathsep.join([base["PYTHONPATH"], theirs["PYTHONPATH"]])
    return {**merged, "SPARK_LAUNCHER_OPTS": " ".join(QUICK_JVM)}
