"""Where a driver's UI answers, by its pod and by what its application says of it."""

import re
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from contextlib import suppress

import jwt

from rekindle.controller.resources import Object
from rekindle.controller.speculation.spark_rest import Address
from rekindle.controller.speculation.spark_wire import JWS_FILTER
from rekindle.controller.submission.properties import UI_PORT

_TLS_OFFSET = 400
"""Spark's, from the port of the UI to its port with TLS."""

_KEY_BYTES = 32
"""As many at least, for the filter too."""


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
        return Address(host, UI_PORT, key=_key(conf))
    port = conf.get("spark.ssl.ui.port", str(UI_PORT + _TLS_OFFSET)).strip()
    if re.fullmatch("[0-9]{1,5}", port) is None or not 0 < int(port) < 2**16:
        raise UiUnreachable(
            f"slow tasks cannot be seen: spec.sparkConf.spark.ssl.ui.port is {port!r}; write a number from 1 to 65535"
        )
    return Address(host, int(port), tls=True, key=_key(conf))


def _key(conf: Mapping[str, str]) -> bytes | None:
    """With which requests are signed, None where the UI is open, or asks for another login. Raises UiUnreachable."""
    if JWS_FILTER not in (name.strip() for name in conf.get("spark.ui.filters", "").split(",")):
        return None
    setting = f"spark.{JWS_FILTER}.param.secretKey"
    text = conf.get(setting, "").strip()
    with suppress(ValueError, jwt.PyJWTError):
        key = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        if len(key) >= _KEY_BYTES:
            jwt.encode({}, key, "HS256")  # what looks like a certificate is refused there
            return key
    raise UiUnreachable(
        f"slow tasks cannot be seen: spec.sparkConf.{setting} is not a key of {_KEY_BYTES} bytes or more, in base64url"
    )


def _is_on(conf: Mapping[str, str]) -> bool:
    said = conf.get("spark.ssl.ui.enabled", conf.get("spark.ssl.enabled", "false"))
    return said.strip().lower() == "true"
