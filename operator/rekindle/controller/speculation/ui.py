"""Where a driver's UI answers, by its pod and by what its application says of it."""

import re
from collections.abc import Mapping

from rekindle.controller.resources import Object
from rekindle.controller.speculation.spark_rest import Address
from rekindle.controller.submission.properties import UI_PORT

_TLS_OFFSET = 400
"""Spark's, from the port of the UI to its port with TLS."""


class UiUnreachable(Exception):
    """The driver's UI cannot be asked; the message says why, and what to change."""


def ui_of(driver: Object, conf: Mapping[str, str]) -> Address:
    """The address of the UI of a running driver's pod. Raises UiUnreachable."""
    if conf.get("spark.ui.enabled", "true").strip().lower() == "false":
        raise UiUnreachable(
            "slow tasks cannot be seen: the driver's UI is off; remove spark.ui.enabled=false from spec.sparkConf"
        )
    host = str(driver["status"]["podIP"])
    if not _is_on(conf):
        return Address(host, UI_PORT)
    port = conf.get("spark.ssl.ui.port", str(UI_PORT + _TLS_OFFSET)).strip()
    if re.fullmatch("[0-9]{1,5}", port) is None or not 0 < int(port) < 2**16:
        raise UiUnreachable(
            f"slow tasks cannot be seen: spec.sparkConf.spark.ssl.ui.port is {port!r}; write a number from 1 to 65535"
        )
    return Address(host, int(port), tls=True)


def _is_on(conf: Mapping[str, str]) -> bool:
    said = conf.get("spark.ssl.ui.enabled", conf.get("spark.ssl.enabled", "false"))
    return said.strip().lower() == "true"
