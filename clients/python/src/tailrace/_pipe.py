"""The pieces of a response in a dialect: what an SDK or an HTTP client yields, as the bytes of a body."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Literal

from ._run import Lines

Dialect = Literal["aisdk", "agui", "anthropic", "kortyx", "langgraph", "mastra", "openai"]


def plain(value: Any) -> Any:
    """Returns the members of an object of an SDK."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if not field.name.startswith("_")]
        if {"name", "instructions", "handoffs"} <= set(names):  # an agent of the OpenAI Agents SDK: the rest is its prompt, its tools and its model
            names = ["name"]
        return {name: getattr(value, name) for name in names}
    raise TypeError(f"a piece of a response is a {type(value).__name__}: want bytes, a line, a dict, a dataclass or an object with model_dump")


def nested(value: Any) -> Any:
    """Returns the members of an object inside of a piece, or the text of one that has no form in JSON, such as the result of a tool."""
    try:
        return plain(value)
    except TypeError:
        return str(value)


class Pieces:
    """The pieces of one response. Bytes may be cut anywhere, a text is a line, and anything else is an object."""

    def __init__(self, lines: Lines, dialect: str) -> None:
        self._lines = lines
        self._dialect = dialect
        self._begun = False  # the first byte has said what the body is
        self._held = b""

    def put(self, piece: Any) -> None:
        if isinstance(piece, (bytes, bytearray)):
            data = bytes(piece)
        elif isinstance(piece, str):
            data = piece.encode("utf-8") + (b"" if piece.endswith("\n") else b"\n")
        else:
            data = json.dumps(piece if isinstance(piece, dict) else plain(piece), default=nested, ensure_ascii=False).encode("utf-8") + b"\n"
        if not self._begun:
            self._held += data
            start, data = self._held.lstrip(), self._held
            if not start:
                return
            self._begin("application/x-ndjson" if start.startswith(b"{") else "text/event-stream")
        self._lines.put(data)

    def end(self) -> None:
        if not self._begun:
            self._begin("application/x-ndjson")
        self._lines.end_response()

    def _begin(self, media: str) -> None:
        self._begun = True
        self._lines.begin_response(self._dialect, media)
