"""One POST to a job master. It runs in a driver, which is user code: what it may make us spend is bounded."""

import asyncio
from http import HTTPStatus

import aiohttp
from yarl import URL

from rekindle.api.operator_exchange import (
    MOST_ANSWER_BYTES,
    PATH,
    PORT,
    ExchangeAnswer,
    ExchangeRequest,
    decode,
    encode,
)
from rekindle.controller import bounded
from rekindle.controller.bounded import TooLarge
from rekindle.controller.speculation.spark_rest import driver_session
from rekindle.controller.speculation.spark_wire import one_line

_SECONDS = 5.0
_TIMEOUT = aiohttp.ClientTimeout(sock_connect=2.0)
_REASON_BYTES = 300


class NotServed(Exception):
    """Nobody answers on the port. `is_refused`: the driver runs no pipeline now; else it may be too busy to answer."""

    def __init__(self, message: str, *, is_refused: bool) -> None:
        super().__init__(message)
        self.is_refused = is_refused


class Unusable(Exception):
    """Somebody answers what nothing can be made of; the text, one line, says what is wrong."""


class NotKnown(Unusable):
    """A job master does not know the token."""


class ExchangeClient:
    """Connections to job masters. Make it in a running loop, and close it."""

    def __init__(self) -> None:
        self._session = driver_session()

    async def close(self) -> None:
        """End all connections."""
        await self._session.close()

    async def tell(self, host: str, token: str, request: ExchangeRequest) -> ExchangeAnswer:
        """The answer. Raises NotServed, Unusable."""
        try:
            async with asyncio.timeout(_SECONDS):
                return decode(await self._post(host, token, encode(request)), ExchangeAnswer)
        except (TimeoutError, aiohttp.ClientConnectorError) as error:
            why = one_line(f"{host}: {str(error) or 'no answer in time'}", _REASON_BYTES)
            raise NotServed(why, is_refused=isinstance(error, aiohttp.ClientConnectorError)) from None
        except (aiohttp.ClientError, OSError, ValueError, TooLarge) as error:
            wrong = str(error) or type(error).__name__
            raise Unusable(one_line(wrong, _REASON_BYTES)) from None

    async def _post(self, host: str, token: str, body: bytes) -> bytes:
        url = URL.build(scheme="http", host=host, port=PORT, path=PATH)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        async with self._session.post(
            url, data=body, headers=headers, timeout=_TIMEOUT, allow_redirects=False
        ) as response:
            if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
                raise TimeoutError("its job master is busy")
            if response.status == HTTPStatus.UNAUTHORIZED:
                raise NotKnown(f"it answered {response.status}")
            if response.status != HTTPStatus.OK:
                raise ValueError(f"it answered {response.status}")
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise ValueError("the answer is compressed, which was not asked for")
            return await bounded.body(response, MOST_ANSWER_BYTES)
