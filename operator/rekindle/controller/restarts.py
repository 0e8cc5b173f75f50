"""Whether an attempt that ended is followed by another: a pure decision with a budget for each cause."""

from dataclasses import dataclass

from rekindle.api.application_status import FailureCause, RestartCounts
from rekindle.api.restart_policy import RestartPolicy

_UNSET = RestartPolicy(type="OnInfrastructureFailure")
_SUBMISSION_RETRIES, _SUBMISSION_INTERVAL = 3, 5


@dataclass(frozen=True, slots=True)
class Again:
    """Another attempt in `delay` seconds, with these counts."""

    delay: float
    counts: RestartCounts


@dataclass(frozen=True, slots=True)
class Over:
    """No other attempt; `why` completes the failure's sentence, and may be empty."""

    why: str


def after_success(policy: RestartPolicy | None) -> Again | Over:
    """`Always` runs again after a success too, as Kubeflow does."""
    if policy is not None and policy.type == "Always":
        return Again(float(policy.on_failure_retry_interval), RestartCounts())
    return Over("")


def after_failure(policy: RestartPolicy | None, cause: FailureCause, counts: RestartCounts, ran: float) -> Again | Over:
    """What follows a failure after `ran` seconds of running. Unset policy: failures of the infrastructure restart."""
    chosen = policy or _UNSET
    if not _is_wanted(chosen, cause):
        return Over("" if policy is None and cause is FailureCause.APPLICATION else f"restartPolicy is {chosen.type}")
    if chosen.retry_reset_seconds is not None and ran >= chosen.retry_reset_seconds:
        counts = RestartCounts()
    name = cause.value.lower()
    used = int(getattr(counts, name))
    retries, interval = _budget(chosen, cause)
    if used >= retries:
        return Over(
            f"all {retries} retries after {_NAMES[cause]} are used up"
            if retries
            else f"none are retried: {_NAMES[cause]}"
        )
    delay = min(interval * 2.0 ** min(used, 30), float(chosen.max_retry_interval))
    return Again(delay, counts.model_copy(update={name: used + 1}))


def longest_wait(policy: RestartPolicy | None) -> float:
    """Seconds that no restart is waited for."""
    chosen = policy or _UNSET
    return float(max(chosen.max_retry_interval, chosen.on_failure_retry_interval))


_NAMES = {
    FailureCause.SUBMISSION: "failed submissions",
    FailureCause.APPLICATION: "failures of the application",
    FailureCause.INFRASTRUCTURE: "failures of the infrastructure",
}


def _is_wanted(policy: RestartPolicy, cause: FailureCause) -> bool:
    if policy.type == "OnInfrastructureFailure":
        return cause is not FailureCause.APPLICATION
    return policy.type != "Never"


def _budget(policy: RestartPolicy, cause: FailureCause) -> tuple[int, int]:
    """Retries, and seconds before the first of them."""
    if cause is FailureCause.SUBMISSION:
        retries, interval = policy.on_submission_failure_retries, policy.on_submission_failure_retry_interval
        return (
            _SUBMISSION_RETRIES if retries is None else retries,
            _SUBMISSION_INTERVAL if interval is None else interval,
        )
    if cause is FailureCause.APPLICATION:
        return policy.on_failure_retries, policy.on_failure_retry_interval
    return policy.on_infrastructure_failure_retries, policy.on_infrastructure_failure_retry_interval
