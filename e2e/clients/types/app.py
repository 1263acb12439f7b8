"""A program that uses all of the package, for the type checker."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any, AsyncIterator, Iterator

from starlette.applications import Starlette
from starlette.background import BackgroundTasks
from starlette.responses import Response
from starlette.routing import Route

import tailrace
from tailrace import AsyncRun, AsyncTailrace, Event, Run, RunState, Tailrace, TailraceError, Unreachable, mint_session_token
from tailrace.fastapi import agent_route, start_run
from tailrace.chunks import Chunk, TextDelta


@dataclasses.dataclass
class Piece:
    text: str


def pieces() -> Iterator[Piece]:
    yield Piece("a")


async def more() -> AsyncIterator[bytes]:
    yield b"data: [DONE]\n\n"


def show(chunk: Chunk) -> str:
    if chunk["type"] == "text_delta":
        return chunk["delta"]
    if chunk["type"] == "tool_end":
        return f"{chunk['toolName']} {chunk.get('error', '')}"
    if chunk["type"] == "run_started":
        return "".join(message["content"] for message in chunk["input"])
    return f"{chunk['agentId']} {chunk['timestamp']} {chunk['step']}"


def write(tr: Tailrace) -> RunState:
    text: TextDelta = {"type": "text_delta", "delta": "a"}
    with tr.run("s1", message="Where?", agent="support", run_id="job-17", take_over=True, model="m", provider="p") as run:
        one: Run = run
        one.text("a")
        one.write(text)
        one.write({"type": "acme.progress", "at": 5})
        one.write('{"type":"text_delta","delta":"b"}')
        with one.tool("track", {"id": 7}, call_id="c1") as call:
            call.result({"city": "Oslo"})
        with one.subagent("writer", call_id="c1") as child:
            child.text(call.id + child.session)
            child.result("done")
            with child.subagent("reader") as grandchild, grandchild.tool("read") as reading:
                reading.result(None)
        position: str = one.flush()
        number: int = one.epoch + one.stored_before
        state = one.pipe(pieces(), dialect="openai")
        one.pause(f"{position} {number} {one.run_id}")
        one.fail(one.status)
        one.end({"ok": True})
        return state


def follow(tr: Tailrace) -> str:
    cursor = "0"
    try:
        for event in tr.follow("s1", after=cursor, scope="session", view="public", types=["text_delta"], exclude=[], root=None):
            received: Event = event
            cursor = received.id
            if received.chunk is not None:
                show(received.chunk)
            elif received.type == "fail":
                print(received.data["error"])
    except Unreachable:
        return "offline"
    except TailraceError as error:
        return f"{error.status} {error.code} {error.title} {error.detail} {error.line} {error.stored} {error.nearest}"
    return cursor


async def both(tr: AsyncTailrace) -> None:
    async with tr.run("s1", input=[{"content": "Where?"}]) as run:
        one: AsyncRun = run
        await one.text("a")
        async with one.tool("track") as call:
            await call.result(1)
        async with one.subagent("writer") as child:
            await child.text("b")
            child.result("done")
        await one.flush()
        await one.pipe(more(), dialect="aisdk")
        state = await one.end()
        print(state.status, state.next, state.as_json())
    async for event in tr.follow("s1"):
        print(event.id)


async def events(body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    yield {"type": "text_delta", "delta": str(body["step"])}


app = Starlette(routes=[Route("/agent", agent_route(events, dialect="aisdk"), methods=["POST"])])


async def start(tr: AsyncTailrace) -> Response:
    return await start_run(tr, "s1", events({"step": 1}), BackgroundTasks(), dialect="agui", message="Where?", agent="support", run_id="r")


def mint(tr: Tailrace) -> str:
    minted = tr.mint("ann", ["read", "chat"], sessions=["s1"], view="public", minutes=5)
    print(minted.token, minted.expires_at, minted.token_id)
    return mint_session_token(
        key=b"0" * 32, issuer="app", audience="tailrace", tenant="acme", subject="ann", scopes=["read"], sessions="s1", view=["public"], lifetime=60, now=0
    ) + mint_session_token(key={"kty": "OKP"}, key_id="k", issuer="app", audience="tailrace", tenant="acme", subject="ann", scopes=("read",))


async def token() -> str:
    return "t"


if __name__ == "__main__":
    print(tailrace.__all__)
    client = Tailrace("http://127.0.0.1:1", token=lambda: "t", retry_for=5)
    write(client)
    follow(client)
    mint(client)
    asyncio.run(both(AsyncTailrace(token=token)))
