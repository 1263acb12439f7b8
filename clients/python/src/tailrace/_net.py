"""Requests over streams of asyncio."""

from __future__ import annotations

import asyncio
import inspect
import os
import ssl
from typing import Any, AsyncIterator, Awaitable, Callable, Union

from ._attempts import Attempts
from ._errors import TailraceError, object_of, problem_of
from ._http import Address, Parser, Request, encode, encode_chunk

Token = Union[str, Callable[[], Union[str, Awaitable[str]]], None]

_MAX_BODY = 64 << 20  # bytes of a response that is read as a whole


class Edge:
    """An edge and a credential for it."""

    def __init__(self, url: str | None, token: Token, retry_for: float) -> None:
        self.address = Address(url or os.environ.get("TAILRACE_URL") or "http://127.0.0.1:4480")
        self._token: Token = token or os.environ.get("TAILRACE_TOKEN")
        self._retry_for = retry_for
        self._tls: ssl.SSLContext | None = None

    def attempts(self) -> Attempts:
        return Attempts(self.address.name, self._retry_for, callable(self._token))

    async def token(self) -> str | None:
        token = self._token() if callable(self._token) else self._token
        return await token if inspect.isawaitable(token) else token

    def tls(self) -> ssl.SSLContext | None:
        if self.address.tls and self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls

    async def load(self, request: Request, attempts: Attempts) -> tuple[int, dict[str, Any]]:
        """Sends a request until it succeeds, and returns its status and its body."""
        while True:
            try:
                async with Exchange(self, request, attempts) as exchange:
                    await exchange.head()
                    body = await exchange.object()
                attempts.succeeded()
                return exchange.status, body
            except Exception as error:
                await asyncio.sleep(attempts.failed(error))


class Exchange:
    """A request and its response, on a connection of their own."""

    def __init__(self, edge: Edge, request: Request, attempts: Attempts) -> None:
        self._edge = edge
        self._request = request
        self._attempts = attempts
        self._parser = Parser(edge.address)
        self._body = b""  # that has arrived with the head

    @property
    def status(self) -> int:
        return self._parser.status

    async def __aenter__(self) -> Exchange:
        address, token = self._edge.address, await self._edge.token()
        connecting = asyncio.open_connection(address.host, address.port, ssl=self._edge.tls())
        self._reader, self._writer = await asyncio.wait_for(connecting, self._attempts.timeout)
        self._writer.write(encode(address, self._request, token))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.transport.abort()

    async def send(self, piece: bytes) -> None:
        """Sends a piece of the body; one without bytes ends it."""
        self._writer.write(encode_chunk(piece))
        await self._writer.drain()

    async def head(self) -> None:
        """Waits for the head of the response. It raises the problem of one that refuses the request."""
        while self.status == 0:
            self._body += await self._more()
        if self.status in (200, 201, 202, 204):
            return
        error = problem_of(self.status, await self._problem())
        after = self._parser.headers.get("retry-after", "")
        error.retry_after = float(after) if after.isdecimal() else 0.0
        raise error

    async def _more(self) -> bytes:
        data = await asyncio.wait_for(self._reader.read(64 << 10), self._attempts.timeout)
        if data:
            body = self._parser.feed(data)
        else:
            self._parser.end()
            body = b""
        if self.status:
            self._attempts.answered()
        return body

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yields the body as it arrives."""
        body, self._body = self._body, b""
        while True:
            if body:
                yield body
            if self._parser.complete:
                return
            body = await self._more()

    async def lines(self) -> AsyncIterator[bytes]:
        """Yields the complete lines of the body."""
        rest = b""
        async for piece in self.pieces():
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if line:
                    yield line

    async def object(self) -> dict[str, Any]:
        """Reads the body as a JSON object."""
        text = b""
        async for piece in self.pieces():
            text += piece
            if len(text) > _MAX_BODY:
                raise TailraceError(self.status, "TOO_LARGE", "the response is too large")
        return object_of(text)

    async def _problem(self) -> dict[str, Any]:
        if self._parser.headers.get("content-type", "").partition(";")[0].endswith("json"):
            return await self.object()
        return {"title": f"the response has the status {self.status}"}
