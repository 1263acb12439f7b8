"""The events of a session, without I/O: a parser of server-sent events, and the cursor after the last complete one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable

from ._errors import Cut, object_of
from ._http import Request, path_of
from .chunks import Chunk


@dataclass(frozen=True)
class Event:
    """An event of a session: a chunk, the end or the failure of a run, a pause, or removed chunks."""

    id: str  # the cursor: follow continues after it
    data: dict[str, Any]  # all members, as the edge has sent them

    @property
    def type(self) -> str:
        """chunk, end, fail, status or truncated."""
        return self.data["type"]

    @property
    def chunk(self) -> Chunk | None:
        """The chunk of an event of this type."""
        return self.data.get("chunk")


class Follower:
    """A follower between and during its connections."""

    def __init__(
        self, session: str, after: str, scope: str, view: str | None, types: Iterable[str] | None, exclude: Iterable[str] | None, root: str | None
    ) -> None:
        self.cursor = after
        self.retry: float | None = None  # seconds, as the edge asks for
        self.moved = False  # the last bytes had an event
        self.ended = False  # the last event ended the run
        self._session = session
        self._query = {
            "scope": scope,
            "view": view,
            "root": root,
            "types": None if types is None else ",".join(types),
            "exclude": None if exclude is None else ",".join(exclude),
        }
        self._rest = b""
        self._id: str | None = None
        self._data: list[str] = []

    def request(self) -> Request:
        """Begins a connection. What the last one has cut is forgotten: its id must not become the cursor."""
        self._rest, self._id, self._data = b"", None, []
        return Request("GET", path_of("sessions", self._session, "events", after=self.cursor, **self._query))

    def feed(self, data: bytes) -> list[Event]:
        """Returns the events that are complete with the next bytes."""
        self.moved = False
        *lines, self._rest = (self._rest + data).split(b"\n")
        events: list[Event] = []
        for line in lines:
            self._line(line.rstrip(b"\r").decode("utf-8", "replace"), events)
        return events

    def _line(self, line: str, events: list[Event]) -> None:
        if line == "":
            if self._id is not None:
                self.cursor, self.moved = self._id, True
            if self._data:
                events.append(self._event("\n".join(self._data)))
            self._id, self._data = None, []
            return
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            self._id = value
        elif name == "data":
            self._data.append(value)
        elif name == "retry" and value.isdecimal():
            self.retry = int(value) / 1000

    def _event(self, text: str) -> Event:
        data = object_of(text)
        if not isinstance(data.get("type"), str):
            raise Cut("an event has no type")
        self.ended = data["type"] in ("end", "fail")
        return Event(self.cursor, data)
