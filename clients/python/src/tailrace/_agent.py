"""The chunks that an agent writes, as the methods of a run and of its sub-agents build them."""

from __future__ import annotations

import json
import uuid
from typing import Any, Mapping, Union

from .chunks import Body, StreamFailed, SubagentEnd, SubagentStart, ToolEnd, ToolOutputError, ToolStart

# A chunk, one of a type of the application (acme.progress), or a line of JSON.
Written = Union[Body, Mapping[str, Any], str, bytes]


def error_text(error: BaseException) -> str:
    return str(error) or type(error).__name__


class Speaker:
    """The agent of a run, or a sub-agent, whose lines name its session and its type."""

    def __init__(self, members: Mapping[str, Any] | None = None) -> None:
        self._members = dict(members or {})

    def line(self, chunk: Written) -> bytes:
        """Returns the line of a chunk: JSON on one line."""
        if isinstance(chunk, (str, bytes)):
            line = (chunk.encode() if isinstance(chunk, str) else chunk).strip()
            if not line or b"\n" in line or b"\r" in line:
                raise ValueError("want one line of JSON")
            if not self._members:
                return line + b"\n"
            members: dict[str, Any] = json.loads(line)
        else:
            members = dict(chunk)
        text = json.dumps({**self._members, **members}, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode("utf-8") + b"\n"


class CallLines:
    """The lines of a call of a tool."""

    def __init__(self, name: str, arguments: Mapping[str, Any] | None, call_id: str | None) -> None:
        self.id = call_id or str(uuid.uuid4())
        self.ended = False
        self._name = name
        self._arguments = dict(arguments or {})

    def start(self) -> ToolStart:
        return {"type": "tool_start", "toolCallId": self.id, "toolName": self._name, "arguments": self._arguments}

    def end(self, result: Any) -> ToolEnd:
        if self.ended:
            raise RuntimeError("the call has a result")
        self.ended = True
        return {"type": "tool_end", "toolCallId": self.id, "toolName": self._name, "result": result}

    def fail(self, error: BaseException) -> ToolOutputError:
        self.ended = True
        return {"type": "tool_output_error", "toolCallId": self.id, "toolName": self._name, "error": error_text(error)}


class ChildLines:
    """The lines about a sub-agent, which are those of its caller."""

    def __init__(self, agent: str, session: str | None, call_id: str | None) -> None:
        self.session = session or str(uuid.uuid4())
        self.agent = agent
        self.result: Any = None
        self._call_id = call_id or str(uuid.uuid4())

    def start(self) -> SubagentStart:
        return {"type": "subagent_start", "subAgentType": self.agent, "subSessionId": self.session, "callId": self._call_id}

    def fail(self, error: BaseException) -> StreamFailed:
        """Returns the last line of the sub-agent itself."""
        self.result = {"error": error_text(error)}
        return {"type": "stream_failed", "error": error_text(error)}

    def end(self) -> SubagentEnd:
        return {"type": "subagent_end", "subAgentType": self.agent, "subSessionId": self.session, "callId": self._call_id, "result": self.result}
