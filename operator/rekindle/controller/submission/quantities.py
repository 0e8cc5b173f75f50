"""Memory and cores of the driver's container, as Spark's own submission computes them; Spark does the executors'."""

from rekindle.api.quantities import mebibytes
from rekindle.api.spark_application import SparkApplicationSpec
from rekindle.controller.resources import Object

_LEAST_OVERHEAD = 384
_JVM_FACTOR, _OTHER_FACTOR = 0.1, 0.4


def overhead_factor(spec: SparkApplicationSpec) -> float:
    """Memory beside the heap as a share of it: Spark gives programs that are not all JVM more."""
    given = spec.memory_overhead_factor or spec.spark_conf.get("spark.kubernetes.memoryOverheadFactor")
    if given is not None:
        return float(given)
    return _JVM_FACTOR if spec.type in ("Java", "Scala") else _OTHER_FACTOR


def driver_resources(spec: SparkApplicationSpec) -> Object:
    """Requests and limits; memory is both, so that the kernel kills no driver for its neighbours."""
    driver, conf = spec.driver, spec.spark_conf
    given = driver.model_fields_set
    heap = mebibytes(driver.memory if "memory" in given else conf.get("spark.driver.memory", driver.memory))
    beside = driver.memory_overhead or conf.get("spark.driver.memoryOverhead")
    factor = float(conf.get("spark.driver.memoryOverheadFactor", overhead_factor(spec)))
    memory = f"{heap + (mebibytes(beside) if beside else max(int(factor * heap), _LEAST_OVERHEAD))}Mi"
    cores = str(driver.cores) if "cores" in given else conf.get("spark.driver.cores", str(driver.cores))
    limits = {"memory": driver.memory_limit or memory}
    if (limit := driver.core_limit or conf.get("spark.kubernetes.driver.limit.cores")) is not None:
        limits["cpu"] = limit
    request = driver.core_request or conf.get("spark.kubernetes.driver.request.cores") or cores
    return {"requests": {"cpu": request, "memory": memory}, "limits": limits}
