"""Where a driver's UI is, by what its application says of it."""

from base64 import urlsafe_b64encode
from typing import Any

import pytest

from rekindle.controller.speculation.spark_rest import Address
from rekindle.controller.speculation.ui import UiUnreachable, ui_of
from rekindle.controller.submission.properties import PORTS

DRIVER: dict[str, Any] = {"metadata": {"name": "etl-driver"}, "status": {"phase": "Running", "podIP": "10.1.2.3"}}
PLAIN = PORTS["spark-ui"]


@pytest.mark.parametrize(
    "conf",
    [
        {},
        {"spark.ui.enabled": "true"},
        {"spark.ssl.enabled": "false"},
        {"spark.ssl.enabled": "true", "spark.ssl.ui.enabled": "false"},
        {"spark.ssl.ui.port": "9999"},
    ],
)
def test_it_is_at_the_pods_port_for_it(conf):
    assert ui_of(DRIVER, conf) == Address("10.1.2.3", PLAIN)


@pytest.mark.parametrize(
    ("conf", "port"),
    [
        ({"spark.ssl.enabled": "true"}, 4440),
        ({"spark.ssl.ui.enabled": "True "}, 4440),
        ({"spark.ssl.enabled": "false", "spark.ssl.ui.enabled": "true", "spark.ssl.ui.port": "8443"}, 8443),
        ({"spark.ssl.enabled": "true", "spark.ssl.ui.port": " 65535 "}, 65535),
    ],
)
def test_with_tls_it_is_at_the_port_that_is_said_or_at_sparks_own(conf, port):
    assert ui_of(DRIVER, conf) == Address("10.1.2.3", port, tls=True)


@pytest.mark.parametrize("off", ["false", "FALSE", " false "])
def test_one_that_is_off_cannot_be_asked_and_it_is_said_what_to_change(off):
    with pytest.raises(
        UiUnreachable, match=r"the driver's UI is off; remove spark\.ui\.enabled=false from spec\.sparkConf"
    ):
        ui_of(DRIVER, {"spark.ui.enabled": off})


JWS = "org.apache.spark.ui.JWSFilter"
SECRET = f"spark.{JWS}.param.secretKey"
LIKE_A_CERTIFICATE = urlsafe_b64encode(b"ssh-rsa " + b"A" * 32).decode()


@pytest.mark.parametrize("filters", [JWS, f"com.example.Other, {JWS}"])
def test_of_one_that_wants_signed_requests_the_key_is_known(filters):
    key = bytes(range(251, 256)) + bytes(range(28))  # - and _ are in its text, and it has to be filled up
    text = urlsafe_b64encode(key).decode().rstrip("=")
    assert ui_of(DRIVER, {"spark.ui.filters": filters, SECRET: text}).key == key
    assert ui_of(DRIVER, {"spark.ui.filters": filters, SECRET: text, "spark.ssl.enabled": "true"}).key == key


def test_of_one_with_another_login_there_is_no_key():
    assert ui_of(DRIVER, {"spark.ui.filters": "com.example.Other", SECRET: "A" * 44}).key is None


@pytest.mark.parametrize("text", ["", "A" * 40, "A" * 45, "!" * 44, "ä" * 44, LIKE_A_CERTIFICATE])
def test_a_key_that_is_none_is_named_and_not_told(text):
    with pytest.raises(UiUnreachable) as caught:
        ui_of(DRIVER, {"spark.ui.filters": JWS, SECRET: text})
    assert f"spec.sparkConf.{SECRET} is not a key of 32 bytes or more, in base64url" in str(caught.value)
    assert not text or text not in str(caught.value)


@pytest.mark.parametrize("port", ["", "https", "0", "-1", "65536", "44400000000000", "4440.0", "٤٤٤٠"])
def test_a_port_that_is_none_is_named(port):
    with pytest.raises(UiUnreachable) as caught:
        ui_of(DRIVER, {"spark.ssl.ui.enabled": "true", "spark.ssl.ui.port": port})
    assert f"spec.sparkConf.spark.ssl.ui.port is {port!r}; write a number from 1 to 65535" in str(caught.value)
