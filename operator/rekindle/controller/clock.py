"""Times as the API writes them (RFC 3339 in UTC) and as decisions take them (epoch seconds)."""

from datetime import UTC, datetime


def parse_time(text: str) -> float:
    """Epoch seconds of an RFC 3339 time."""
    return datetime.fromisoformat(text).timestamp()


def format_time(seconds: float) -> str:
    """Epoch seconds as RFC 3339 in UTC, in whole seconds as Kubernetes writes them."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(seconds: float) -> str:
    """Epoch seconds as Kubernetes' MicroTime."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
