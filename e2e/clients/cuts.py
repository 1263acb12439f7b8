"""Writes a run, or follows a session, through each of the proxies whose numbers and addresses are lines of the standard input. The results are lines of JSON."""

import asyncio
import json
import logging
import sys

from tailrace import AsyncTailrace, _attempts

_attempts.FIRST_RESPONSE = 60.0  # hundreds of clients at once on a busy machine; TestPythonReportsProblems has the limit of 5 seconds


async def write(url: str, session: str, notes: int) -> str:
    async with AsyncTailrace(url).run(session, run_id="r") as run:
        for i in range(notes):
            await run.write({"type": "custom", "eventName": "note", "data": i})
            await asyncio.sleep(0)  # the request is being sent
    return run.status


async def follow(url: str) -> str:
    return json.dumps([(event.id, event.data) async for event in AsyncTailrace(url).follow("followed")])


async def main() -> None:
    mode, notes, name = sys.argv[1:]
    logging.disable()
    places = asyncio.Semaphore(32 if mode == "write" else 256)

    async def one(number: str, url: str) -> None:
        async with places:
            try:
                result = await (write(url, f"{name}-{number}", int(notes)) if mode == "write" else follow(url))
                line = {"type": "return", "id": number, "reason": result}
            except Exception as error:
                line = {"type": "throw", "id": number, "error": repr(error)}
            print(json.dumps(line), flush=True)

    await asyncio.gather(*(one(*line.split()) for line in sys.stdin))


asyncio.run(main())
