"""Structured logs: one JSON object in a line, with the application and its uid wherever one is looked at."""

import logging
from contextvars import ContextVar

from pythonjsonlogger.json import JsonFormatter

looked_at: ContextVar[tuple[str, str]] = ContextVar("looked_at", default=("", ""))
"""Namespace/name and uid of the application that the present task looks at."""


class _WithApplication(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.application, record.uid = looked_at.get()
        return True


def set_up(log_format: str, level: str = "INFO") -> None:
    """Send all logs to standard error, as `json` or `text`."""
    handler = logging.StreamHandler()
    handler.addFilter(_WithApplication())
    if log_format == "json":
        fields = "%(asctime)s %(levelname)s %(name)s %(message)s %(application)s %(uid)s"
        handler.setFormatter(JsonFormatter(fields, rename_fields={"asctime": "time", "levelname": "level"}))
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(application)s %(message)s"))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for chatty in ("aiohttp.access", "asyncio", "kopf"):
        logging.getLogger(chatty).setLevel("WARNING")
