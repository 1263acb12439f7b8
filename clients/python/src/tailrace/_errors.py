"""The errors of the package."""

from __future__ import annotations

import json
from typing import Any, cast

# A request that was given up came late, a proxy has cut a body, or another request of this run has stored lines.
_RETRIED = ("SUPERSEDED", "BODY_CUT", "WRONG_FIRST_LINE")


class TailraceError(Exception):
    """A response of the edge that says why a request is refused."""

    def __init__(
        self,
        status: int,
        code: str,
        title: str,
        detail: str = "",
        line: int | None = None,
        stored: int | None = None,
        nearest: str | None = None,
    ) -> None:
        self.status = status
        self.code = code
        self.title = title
        self.detail = detail
        self.line = line
        self.stored = stored
        self.nearest = nearest
        self.retry_after = 0.0
        super().__init__(self._text())

    def _text(self) -> str:
        text = self.detail or self.title
        if self.line is None:
            return f"{self.code}: {text}"
        if not text.startswith(f"line {self.line}: "):
            text = f"line {self.line}: {text}"
        stored = self.stored or 0
        return f"{self.code}: {text} ({stored} line{'' if stored == 1 else 's'} stored)"

    @property
    def again(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in (408, 425, 429) or self.status >= 500 or self.code in _RETRIED


class Unreachable(TailraceError):
    """No edge has answered in time."""

    def __init__(self, title: str) -> None:
        super().__init__(0, "UNREACHABLE", title)

    def _text(self) -> str:
        return self.title


class Cut(ConnectionError):
    """A connection ended before a response did."""


def object_of(text: bytes | str) -> dict[str, Any]:
    """Returns the members of a JSON object. A response with anything else is taken for one that was cut."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise Cut("the response is not JSON") from error
    if not isinstance(value, dict):
        raise Cut("the response has a value that is not an object")
    return cast("dict[str, Any]", value)


def problem_of(status: int, body: dict[str, Any]) -> TailraceError:
    """Returns the error of a problem: of a response, or of the last line of one."""

    def text(name: str) -> str:
        value = body.get(name)
        return value if isinstance(value, str) else ""

    def number(name: str) -> int | None:
        value = body.get(name)
        return value if isinstance(value, int) else None

    code, title, detail = text("code"), text("title") or text("error"), text("detail")
    if code == "RUN_OPEN":
        run = text("runId")
        again = f"continue it with run_id={json.dumps(run)}, or " if run else ""
        detail = f"{'run ' + run if run else 'another run'} of the session is open: {again}replace it with take_over=True"
    return TailraceError(
        status, code or str(status), title or "the request was refused", detail, number("line"), number("stored"), text("nearest") or None
    )
