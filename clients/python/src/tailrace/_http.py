"""HTTP/1.1 without I/O. A parser reads a response while its request is still being sent, which the clients of the standard library cannot do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, urlencode, urlsplit

from ._errors import Cut, Unreachable

_MAX_HEAD = 64 << 10
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])(?: [^\r\n]*)?")


class Address:
    """Where an edge is."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r}: want the address of an edge, such as http://127.0.0.1:4480")
        self.tls = parts.scheme == "https"
        self.host = parts.hostname
        self.port = parts.port or (443 if self.tls else 80)
        self.base = parts.path.rstrip("/")
        self.name = parts.netloc.rpartition("@")[2]


@dataclass(frozen=True)
class Request:
    """A request. An open one has a body that is sent while it is produced."""

    method: str
    path: str
    body: bytes = b""
    media: str = ""
    open: bool = False


def path_of(*parts: str, **query: str | int | None) -> str:
    """Returns the path of a resource of sessions. Members of the query that are None are left out."""
    members = urlencode({name: value for name, value in query.items() if value is not None and value != ""})
    return "/v1/" + "/".join(quote(part, safe="") for part in parts) + (f"?{members}" if members else "")


def encode(address: Address, request: Request, token: str | None) -> bytes:
    """Returns the head of a request, and its body unless it is open."""
    lines = [
        f"{request.method} {address.base}{request.path} HTTP/1.1",
        f"Host: {address.name}",
        "User-Agent: tailrace-python",
        "Connection: close",
    ]
    if token:
        if not token.isascii() or not token.isprintable():
            raise ValueError("the token has characters that a header cannot have")
        lines.append(f"Authorization: Bearer {token}")
    if request.media:
        lines.append(f"Content-Type: {request.media}")
    if request.open:
        lines.append("Transfer-Encoding: chunked")
    elif request.method == "POST":
        lines.append(f"Content-Length: {len(request.body)}")
    return "\r\n".join(lines).encode("ascii") + b"\r\n\r\n" + (b"" if request.open else request.body)


def encode_chunk(data: bytes) -> bytes:
    """Returns a piece of an open body; one without bytes ends it."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class Parser:
    """The response to one request."""

    def __init__(self, address: Address) -> None:
        self.status = 0  # 0 until the head is complete
        self.headers: dict[str, str] = {}
        self.complete = False
        self._address = address
        self._buffer = bytearray()
        self._chunked = False
        self._trailer = False
        self._left: int | None = None  # bytes of the body or of its present chunk, None if that is not known

    def feed(self, data: bytes) -> bytes:
        """Returns the bytes of the body in the next bytes of a connection."""
        self._buffer += data
        body = bytearray()
        while not self.complete and (self._head() if self.status == 0 else self._body(body)):
            pass
        return bytes(body)

    def end(self) -> None:
        """The connection has ended."""
        if self.status and not self._chunked and self._left is None:
            self.complete = True
        if not self.complete:
            raise Cut("the connection was cut")

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\r\n")
        if end < 0:
            if len(self._buffer) > _MAX_HEAD:
                raise Cut("the response is not HTTP")
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    def _head(self) -> bool:
        start = bytes(self._buffer[:5])
        if start == b"INFO ":
            raise Unreachable(f"{self._address.name} is a NATS server; the edge is on 4480")
        if not b"HTTP/".startswith(start):
            raise Unreachable(f"{self._address.name} does not speak HTTP")
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > _MAX_HEAD:
                raise Cut("the head of the response is too large")
            return False
        first, *lines = bytes(self._buffer[:end]).split(b"\r\n")
        del self._buffer[: end + 4]
        status = _STATUS.fullmatch(first)
        if status is None:
            raise Cut("the response is not HTTP")
        if status[1].startswith(b"1"):
            return True  # another head follows
        self.status = int(status[1])
        for line in lines:
            name, _, value = line.decode("latin-1").partition(":")
            self.headers[name.strip().lower()] = value.strip()
        self._chunked = self.headers.get("transfer-encoding", "").lower() == "chunked"
        length = self.headers.get("content-length", "")
        if self.status in (204, 304):
            self.complete = True
        elif not self._chunked and length.isdecimal():
            self._left = int(length)
            self.complete = self._left == 0
        return True

    def _body(self, body: bytearray) -> bool:
        if not self._chunked:
            return self._take(body)
        if self._left is not None and self._left > 2:  # with the end of its line
            return self._chunk(body)
        if self._left is not None:
            if len(self._buffer) < self._left:
                return False
            del self._buffer[: self._left]
            self._left = None
            return True
        line = self._line()
        if line is None:
            return False
        if self._trailer:
            self.complete = line == b""
            return True
        size = line.partition(b";")[0].strip()
        if re.fullmatch(rb"[0-9a-fA-F]{1,15}", size) is None:
            raise Cut("the response is not HTTP")
        self._trailer = int(size, 16) == 0
        self._left = None if self._trailer else int(size, 16) + 2
        return True

    def _chunk(self, body: bytearray) -> bool:
        assert self._left is not None
        piece = self._buffer[: self._left - 2]
        body += piece
        self._left -= len(piece)
        del self._buffer[: len(piece)]
        return len(piece) > 0

    def _take(self, body: bytearray) -> bool:
        piece = bytes(self._buffer[: self._left] if self._left is not None else self._buffer)
        body += piece
        del self._buffer[: len(piece)]
        if self._left is not None:
            self._left -= len(piece)
            self.complete = self._left == 0
        return False
