"""Writes the standard input as a response of OpenAI into a run that has a native line before it, in one of the forms in which programs have responses."""

import asyncio
import dataclasses
import json
import os
import sys
from typing import Any, AsyncIterator, Iterator

from tailrace import AsyncTailrace, Tailrace, TailraceError

mode, form, url, session, run_id = sys.argv[1:]


@dataclasses.dataclass
class Choice:
    index: int
    delta: Any
    finish_reason: Any = None


@dataclasses.dataclass
class Completion:
    id: str
    object: str
    choices: Any


class Model:
    """An object as those of pydantic."""

    def __init__(self, members: Any) -> None:
        self._members = members

    def model_dump(self, mode: str) -> Any:
        assert mode == "json"
        return self._members


def pieces() -> Iterator[Any]:
    if form == "bytes":
        while piece := os.read(0, 1000):
            yield piece
        return
    called = False
    for line in sys.stdin:
        if form == "lines":
            yield line.rstrip("\n")
        elif line.startswith("data: ") and "[DONE]" not in line:
            members = json.loads(line[6:])
            called = "tool_calls" in line
            if form == "dataclasses":
                members["choices"] = [Choice(**choice) for choice in members["choices"]]
                yield Completion(**members)
            else:
                yield Model(members) if form == "objects" else members
        elif line.startswith("data: [DONE]") and not called:
            yield {"id": "1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


async def pieces_async() -> AsyncIterator[Any]:
    source = pieces()
    while (piece := await asyncio.to_thread(next, source, None)) is not None:
        yield piece


def write() -> str:
    with Tailrace(url).run(session, run_id=run_id) as run:
        if run.stored_before == 0:
            run.text("native ")
        return run.pipe(pieces(), dialect="openai").status


async def write_async() -> str:
    async with AsyncTailrace(url).run(session, run_id=run_id) as run:
        if run.stored_before == 0:
            await run.text("native ")
        return (await run.pipe(pieces_async(), dialect="openai")).status


try:
    status = write() if mode == "threads" else asyncio.run(write_async())
    print(json.dumps({"type": "return", "status": status}), flush=True)
except Exception as error:
    code = error.code if isinstance(error, TailraceError) else type(error).__name__
    print(json.dumps({"type": "throw", "code": code, "error": str(error)}), flush=True)
