"""Writes notes into a session, or follows it, with threads or with asyncio. A writer waits for a line of the standard input after each part of its notes."""

import asyncio
import json
import sys

from tailrace import AsyncTailrace, Tailrace

mode, url, session, count = sys.argv[1:]
notes = int(count)
part = notes // 8


def show(**members: object) -> None:
    print(json.dumps(members), flush=True)


def note(i: int) -> dict[str, object]:
    return {"type": "custom", "eventName": "note", "data": i}


def is_part(i: int) -> bool:
    return i % part == part - 1


def write() -> None:
    with Tailrace(url).run(session) as run:
        show(type="open")
        for i in range(notes):
            run.write(note(i))
            if is_part(i):
                sys.stdin.readline()


async def write_async() -> None:
    async with AsyncTailrace(url).run(session) as run:
        show(type="open")
        for i in range(notes):
            await run.write(note(i))
            if is_part(i):
                await asyncio.to_thread(sys.stdin.readline)


def check(got: list[int]) -> None:
    if got != list(range(notes)):
        raise ValueError(f"{len(got)} notes, of which the first are {got[:5]}")


def follow() -> None:
    check([event.chunk["data"] for event in Tailrace(url).follow(session, types=["custom"]) if event.chunk])


async def follow_async() -> None:
    check([event.chunk["data"] async for event in AsyncTailrace(url).follow(session, types=["custom"]) if event.chunk])


try:
    if mode == "threads-write":
        write()
    elif mode == "threads-follow":
        follow()
    elif mode == "asyncio-write":
        asyncio.run(write_async())
    else:
        asyncio.run(follow_async())
    show(type="return", sequence=notes)
except Exception as error:
    show(type="throw", error=repr(error))
