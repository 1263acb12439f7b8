"""An application with an agent that workers ask, and with a route that starts runs. The arguments are the port and the address of the edge."""

import asyncio
import sys
from typing import Any, AsyncIterator

import uvicorn
from fastapi import BackgroundTasks, FastAPI

from tailrace import AsyncTailrace
from tailrace.fastapi import agent_route, start_run

app = FastAPI()
tr = AsyncTailrace(sys.argv[2])


async def native(body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    text = "".join(part["text"] for part in body["messages"][-1]["parts"])
    yield {"type": "text_delta", "delta": f"You said {text}"}
    if text == "fail":
        raise RuntimeError("the model is away")


async def aisdk(body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    yield {"type": "start"}
    yield {"type": "text-start", "id": "1"}
    async for chunk in native(body):
        yield {"type": "text-delta", "id": "1", "delta": chunk["delta"]}
    yield {"type": "text-end", "id": "1"}
    yield {"type": "finish"}


app.post("/native")(agent_route(native))
app.post("/aisdk")(agent_route(aisdk, dialect="aisdk"))


async def notes(fail: bool) -> AsyncIterator[dict[str, Any]]:
    for i in range(20):
        await asyncio.sleep(0)
        yield {"type": "custom", "eventName": "note", "data": i}
    if fail:
        raise RuntimeError("the model is away")


@app.post("/start/{session}")
async def start(session: str, background: BackgroundTasks, fail: bool = False) -> Any:
    return await start_run(tr, session, notes(fail), background, message="question")


uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
