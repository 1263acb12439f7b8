"""The lines of a run, without I/O: what is sent next, what is stored, and what is sent again after a cut."""

from __future__ import annotations

import json
import threading
from collections import deque
from dataclasses import dataclass
from typing import Any, Literal, Mapping

from ._attempts import log
from ._errors import Cut, object_of, problem_of
from ._http import Request, path_of

MAX_PENDING = 1 << 20  # bytes that are not stored, above which a writer waits
_MAX_PIECE = 64 << 10
_JSON = "application/json"


@dataclass(frozen=True)
class RunState:
    """What is stored of a run."""

    run_id: str
    epoch: int
    stored: int
    next: int
    position: str
    status: Literal["active", "paused", "ended", "failed"]

    def as_json(self) -> dict[str, Any]:
        """Returns the members as the edge has sent them."""
        names = {"run_id": "runId"}
        return {names.get(name, name): value for name, value in self.__dict__.items()}


def state_of(body: Mapping[str, Any]) -> RunState:
    try:
        return RunState(body["runId"], body["epoch"], body["stored"], body["next"], body["position"], body["status"])
    except KeyError as error:
        raise Cut(f"the response has no {error}") from error


class Lines:
    """The lines that are not known to be stored. Writers of other threads may add some."""

    def __init__(self, session: str, run_id: str, members: Mapping[str, Any], root: str | None) -> None:
        self.run_id = run_id
        self.epoch = 0
        self.stored_before = 0  # lines that another process has stored
        self.position = "0"
        self.dialect: str | None = None  # of the response that is being written
        self.flushing = 0  # callers that wait for the end of the request
        self.unsure = False  # a request was cut: it may have stored more than its response says
        self._session = session
        self._root = root
        self._members = {name: value for name, value in members.items() if value is not None}
        self._guard = threading.Lock()  # of the fields below
        self._unsent: deque[bytes] = deque()
        self._sent: deque[bytes] = deque()
        self._size = 0
        self._last = 0  # number of the last line that is stored
        self._media = "application/x-ndjson"
        self._complete = False  # no more pieces of the response follow
        self._done: int | None = None  # the number behind the last line, if the response says that all is stored

    def _path(self, *parts: str, **query: str | int | None) -> str:
        return path_of("sessions", self._session, "runs", *parts, root=self._root, **query)

    def open(self) -> Request:
        body = {**self._members, "runId": self.run_id}
        return Request("POST", self._path(), json.dumps(body).encode(), _JSON)

    def load(self) -> Request:
        return Request("GET", self._path(self.run_id, epoch=self.epoch))

    def change(self, name: str, body: Mapping[str, Any]) -> Request:
        return Request("POST", self._path(self.run_id, name, epoch=self.epoch), json.dumps(body).encode(), _JSON)

    def loaded(self, state: RunState) -> None:
        """The edge has said what is stored."""
        self.position = state.position
        self.unsure = False
        if self.dialect is None:
            self._advance(state.next - 1)

    def continued(self, state: RunState) -> None:
        """The run existed when it was opened."""
        self.stored_before = state.stored
        self._last = state.next - 1
        self.position = state.position

    @property
    def size(self) -> int:
        """The bytes that are not known to be stored."""
        return self._size

    @property
    def unfinished(self) -> bool:
        return self._size > 0 or self.dialect is not None

    def put(self, line: bytes) -> None:
        """Adds a line, or a piece of a response in a dialect."""
        with self._guard:
            self._unsent.append(line)
            self._size += len(line)

    def begin_response(self, dialect: str, media: str) -> None:
        """The pieces that follow are one response in a dialect. All of it is sent again after a cut."""
        self.dialect, self._media, self._complete = dialect, media, False

    def end_response(self) -> None:
        self._complete = True

    def begin(self) -> Request:
        """Begins a request with all lines that are not known to be stored."""
        with self._guard:
            self._sent.extend(self._unsent)
            self._unsent, self._sent = self._sent, deque()
            self.unsure, self._done = self.dialect is None, None
            query = {"epoch": self.epoch, "firstLine": self._last + 1, "dialect": self.dialect}
        return Request("POST", self._path(self.run_id, "chunks", **query), media=self._media, open=True)

    def take(self) -> bytes | None:
        """Returns what the open request sends next: nothing if there is nothing at present, None if its body ends."""
        with self._guard:
            size, first = 0, len(self._sent)
            while self._unsent and size < _MAX_PIECE:
                line = self._unsent.popleft()
                self._sent.append(line)
                size += len(line)
            if size > 0:
                return b"".join(self._sent[i] for i in range(first - len(self._sent), 0))
            ends = self._complete if self.dialect is not None else self.flushing > 0
            return None if ends else b""

    def report(self, line: bytes) -> bool:
        """Reads a line of the response. It returns whether more is stored than before, and raises the error of the response."""
        body = object_of(line)
        self.position = body.get("position", self.position)
        stored = body.get("stored")
        moved = isinstance(stored, int) and (self.dialect is not None or self._advance(stored))
        for warning in body.get("warnings", ()):
            hint = f"; did you mean {warning['nearest']}?" if "nearest" in warning else ""
            log.warning("line %s is stored, but its member %s is probably mistaken%s", warning["line"], warning["member"], hint)
        if "error" in body:
            raise problem_of(body.get("status", 400), body)
        if body.get("done") is True:
            self._done = body["next"]
        return moved

    def finish(self) -> None:
        """The response has ended."""
        if self._done is None:
            raise Cut("the response was cut")
        self.unsure = False
        if self.dialect is None:
            return
        with self._guard:
            self._sent.clear()
            self._size, self._last = 0, self._done - 1
            self.dialect, self._media = None, "application/x-ndjson"

    def drop(self) -> None:
        """Forgets what is not stored: the source of a response has failed."""
        with self._guard:
            self._unsent.clear()
            self._sent.clear()
            self._size, self.dialect, self._media = 0, None, "application/x-ndjson"

    def _advance(self, last: int) -> bool:
        with self._guard:
            moved = last > self._last
            for _ in range(last - self._last):
                lines = self._sent or self._unsent
                if not lines:
                    break
                self._size -= len(lines.popleft())
            self._last = max(self._last, last)
            return moved
