"""Routes of FastAPI and of Starlette: an agent that a worker asks over HTTP, and a run that a request starts."""

from __future__ import annotations

import json
from typing import Any, AsyncGenerator, AsyncIterable, Awaitable, Callable, Literal, Union, cast

from starlette.background import BackgroundTask, BackgroundTasks
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from ._agent import error_text
from ._async import AsyncRun, AsyncTailrace
from ._attempts import log
from ._errors import Cut, TailraceError, object_of
from ._pipe import Dialect, plain

AgentDialect = Literal["native", "aisdk", "agui"]

# The last event of a stream that has failed.
_FAILURES: dict[AgentDialect, Callable[[str], dict[str, Any]]] = {
    "native": lambda text: {"type": "stream_failed", "error": text},
    "aisdk": lambda text: {"type": "error", "errorText": text},
    "agui": lambda text: {"type": "RUN_ERROR", "message": text},
}


def _event(piece: Any) -> bytes:
    if isinstance(piece, (bytes, bytearray)):
        return bytes(piece)
    if isinstance(piece, str):
        return piece.encode("utf-8") + (b"" if piece.endswith("\n") else b"\n")
    text = json.dumps(piece if isinstance(piece, dict) else plain(piece), default=plain, ensure_ascii=False)
    return b"data: " + text.encode("utf-8") + b"\n\n"


async def _events(stream: AsyncIterable[Any], dialect: AgentDialect) -> AsyncGenerator[bytes, None]:
    ended = dialect != "native"
    try:
        async for piece in stream:
            if isinstance(piece, dict):
                ended = ended or cast("dict[str, Any]", piece).get("type") in ("stream_end", "stream_failed", "stream_paused")
            yield _event(piece)
    except Exception as error:
        log.exception("the agent has failed")
        yield b"\n\n" + _event(_FAILURES[dialect](error_text(error)))
        return
    if not ended:
        yield _event({"type": "stream_end"})


def agent_route(
    stream: Callable[[dict[str, Any]], AsyncIterable[Any]], *, dialect: AgentDialect = "native"
) -> Callable[[Request], Awaitable[Response]]:
    """Returns an endpoint for the POST of a worker: app.post("/agent")(agent_route(stream)).

    The stream gets the body of the request, and yields chunks or events of a dialect. An exception becomes the failure of the run, with its text.
    """

    async def endpoint(request: Request) -> Response:
        try:
            body = object_of(await request.body())
        except Cut:
            return JSONResponse({"detail": "want a JSON object"}, 400)
        return StreamingResponse(_events(stream(body), dialect), media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    return endpoint


async def start_run(
    tr: AsyncTailrace,
    session: str,
    stream: AsyncIterable[Any],
    background: Union[BackgroundTasks, None] = None,
    *,
    dialect: Union[Dialect, None] = None,
    message: Union[str, None] = None,
    agent: Union[str, None] = None,
    run_id: Union[str, None] = None,
) -> Response:
    """Opens a run, and answers 202 with the ids of the session and of the run. The stream is written after the response; an exception of it fails the run."""
    run = tr.run(session, message=message, agent=agent, run_id=run_id)
    try:
        await run.__aenter__()
    except TailraceError as error:
        return JSONResponse({"code": error.code, "detail": str(error)}, error.status or 503)
    response = JSONResponse({"session": session, "run": run.run_id}, 202)
    if background is None:
        response.background = BackgroundTask(_write, run, stream, dialect)
    else:
        background.add_task(_write, run, stream, dialect)
        response.background = background
    return response


async def _write(run: AsyncRun, stream: AsyncIterable[Any], dialect: Union[Dialect, None]) -> None:
    error: BaseException | None = None
    try:
        if dialect is not None:
            await run.pipe(stream, dialect=dialect)
        else:
            async for chunk in stream:
                await run.write(chunk)
    except Exception as failure:
        log.exception("run %s has failed", run.run_id)
        error = failure
    await run.__aexit__(None if error is None else type(error), error, None)
