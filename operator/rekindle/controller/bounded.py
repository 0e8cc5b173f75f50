"""Answers of which no more is read than there is room for."""

from collections.abc import AsyncIterator

import aiohttp

_CHUNK = 64 * 1024


class TooLarge(Exception):
    """An answer has more bytes than it may have. The text says so."""


async def chunks(response: aiohttp.ClientResponse, most: int) -> AsyncIterator[bytes]:
    """The body, at most so many bytes of it. Raises TooLarge where it goes on, and what aiohttp raises."""
    size = 0
    async for chunk in response.content.iter_chunked(_CHUNK):
        size += len(chunk)
        if size > most:
            raise TooLarge(f"the answer is too large: more than {most} bytes")
        yield chunk


async def body(response: aiohttp.ClientResponse, most: int) -> bytes:
    """All of it, as `chunks`."""
    return b"".join([chunk async for chunk in chunks(response, most)])
