"""When a driver that ended is started again, and how long anything may take to start."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from rekindle.api.model import ApiModel, OnKubernetes
from rekindle.api.quantities import YEAR, PositiveDuration


def _zero_is_never(value: object) -> object:
    return None if value == 0 and isinstance(value, int) and not isinstance(value, bool) else value


class RestartPolicy(ApiModel):
    """Whether a driver that ended is started again. Each cause of a failure has a count and a wait of its own."""

    type: Literal["Never", "OnFailure", "OnInfrastructureFailure", "Always"] = "Never"
    """`Never`: no restart. `OnFailure`: after any failure. `OnInfrastructureFailure`: only after one that the
    application did not cause. `Always`: after a success too."""

    on_failure_retries: int = Field(default=3, ge=0)
    """Restarts after the application itself failed: its driver ended with an error of its own. On one machine,
    restarts after any failure."""

    on_failure_retry_interval: int = Field(default=5, ge=1, le=YEAR)
    """Seconds before the first of these restarts. On Kubernetes the wait doubles with each one, up to
    `maxRetryInterval`; on one machine it grows by this much."""

    on_submission_failure_retries: OnKubernetes[int | None] = Field(default=None, ge=0)
    """Further tries after the API server refused an object of the application. Unset: 3."""

    on_submission_failure_retry_interval: OnKubernetes[int | None] = Field(default=None, ge=1, le=YEAR)
    """Seconds before the first of these tries; the wait doubles with each one, up to `maxRetryInterval`.
    Unset: 5."""

    on_infrastructure_failure_retries: OnKubernetes[int] = Field(default=3, ge=0)
    """Restarts after the infrastructure failed: the node was lost, the driver was evicted or killed, its image
    was not pulled, it was not scheduled, or it did not start in time."""

    on_infrastructure_failure_retry_interval: OnKubernetes[int] = Field(default=5, ge=1, le=YEAR)
    """Seconds before the first of these restarts; the wait doubles with each one, up to `maxRetryInterval`."""

    max_retry_interval: OnKubernetes[int] = Field(default=300, ge=1, le=YEAR)
    """Seconds that no wait before a restart exceeds, however often it doubled."""

    retry_reset_seconds: OnKubernetes[Annotated[int | None, BeforeValidator(_zero_is_never)]] = Field(
        default=3600, ge=0, json_schema_extra={"nullable": True}
    )
    """Seconds: an attempt that ran this long starts all counts anew. 0: none does; so says null, but `kubectl apply`
    does not keep a null."""


class Timeouts(ApiModel):
    """How long the pods of an attempt may take to run; one that takes longer is a failure of the infrastructure."""

    driver_start: PositiveDuration = 300.0
    """From the making of the driver's pod until its container runs: a text such as 60s, or seconds."""

    executor_start: PositiveDuration = 300.0
    """From the making of the first executor's pod until one runs: a text such as 60s, or seconds."""
