"""The client for programs with asyncio. That of threads runs it on a loop of its own."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from types import TracebackType
from typing import Any, AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping

from ._agent import CallLines, ChildLines, Written, Speaker, error_text
from ._attempts import FIRST_RESPONSE, Attempts, log
from ._errors import Cut, TailraceError
from ._follow import Event, Follower
from ._http import Request
from ._net import Edge, Exchange, Token
from ._pipe import Dialect, Pieces
from ._run import MAX_PENDING, Lines, RunState, state_of
from ._tokens import MintedToken, minted, minting


class AsyncTailrace:
    """An edge. Without an address it is that of TAILRACE_URL, and without a token that of TAILRACE_TOKEN."""

    def __init__(self, url: str | None = None, token: Token = None, *, retry_for: float = 60.0) -> None:
        self._edge = Edge(url, token, retry_for)

    def run(
        self,
        session: str,
        *,
        message: str | None = None,
        agent: str | None = None,
        run_id: str | None = None,
        take_over: bool = False,
        input: Iterable[Mapping[str, Any]] | None = None,
        model: str | None = None,
        provider: str | None = None,
        root: str | None = None,
    ) -> AsyncRun:
        """Returns a run that `async with` opens, or continues if a run with this id is open. Each chunk is stored once, however often a connection is cut."""
        if message is not None and input is not None:
            raise ValueError("want a message or an input, not both")
        members: dict[str, Any] = {"agentType": agent, "takeOver": take_over or None, "model": model, "provider": provider}
        if message is not None or input is not None:
            members["input"] = [{"content": message}] if message is not None else list(input or ())
        return AsyncRun(self._edge, Lines(session, run_id or str(uuid.uuid4()), members, root))

    async def follow(
        self,
        session: str,
        *,
        after: str = "0",
        scope: str = "tree",
        view: str | None = None,
        types: Iterable[str] | None = None,
        exclude: Iterable[str] | None = None,
        root: str | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Yields the events after a cursor, each once and in order, across cut connections. It ends when the run is complete."""
        async with contextlib.aclosing(batches(self._edge, Follower(session, after, scope, view, types, exclude, root))) as all_events:
            async for events in all_events:
                for event in events:
                    yield event

    async def mint(
        self,
        subject: str,
        scopes: Iterable[str],
        *,
        sessions: str | Iterable[str] | None = None,
        view: str | Iterable[str] | None = None,
        minutes: int | None = None,
    ) -> MintedToken:
        """Asks the edge for a session token of a user, with the rights of this client at most. It needs the right admin."""
        request = Request("POST", "/v1/tokens", minting(subject, scopes, sessions, view, minutes), "application/json")
        _, body = await self._edge.load(request, self._edge.attempts())
        return minted(body)


async def batches(edge: Edge, follower: Follower) -> AsyncGenerator[list[Event], None]:
    """Yields the events of each piece of a response."""
    attempts = edge.attempts()
    attempts.first_delay = 1.0  # clients of a stopped edge do not come back together
    while True:
        try:
            async with Exchange(edge, follower.request(), attempts) as exchange:
                await exchange.head()
                if exchange.status == 204:
                    return
                async for piece in exchange.pieces():
                    events = follower.feed(piece)
                    if follower.moved:
                        attempts.succeeded()
                    if events:
                        yield events
            if follower.ended:
                return
            raise Cut("the stream ended early")
        except Exception as error:
            attempts.first_delay = follower.retry or attempts.first_delay
            await asyncio.sleep(attempts.failed(error))


class AsyncWriter(Speaker):
    """Writes the chunks of one agent of a run."""

    _run: AsyncRun

    async def write(self, chunk: Written) -> None:
        """Writes a chunk, or a line of JSON. It waits while more than 1 MiB is not stored."""
        self._run.put(self.line(chunk))
        if self._run.lines.size > MAX_PENDING:
            await self._run.drained()

    async def text(self, delta: str) -> None:
        await self.write({"type": "text_delta", "delta": delta})

    @contextlib.asynccontextmanager
    async def tool(self, name: str, arguments: Mapping[str, Any] | None = None, *, call_id: str | None = None) -> AsyncGenerator[AsyncCall, None]:
        """Writes a call of a tool. An exception in its block is the error of the call, and is raised."""
        call = AsyncCall(self, CallLines(name, arguments, call_id))
        await self.write(call.lines.start())
        try:
            yield call
        except BaseException as error:
            if not call.lines.ended:
                await self.write(call.lines.fail(error))
            raise
        if not call.lines.ended:
            await call.result(None)

    @contextlib.asynccontextmanager
    async def subagent(self, agent: str, *, session: str | None = None, call_id: str | None = None) -> AsyncGenerator[AsyncSubagent, None]:
        """Writes a sub-agent. An exception in its block fails it, and is raised. A block of tool("subagent__" + agent, input) around it, with its id as call_id, is the call with the input."""
        child = AsyncSubagent(self._run, ChildLines(agent, session, call_id))
        await self.write(child.lines.start())
        try:
            yield child
        except BaseException as error:
            await child.write(child.lines.fail(error))
            await self.write(child.lines.end())
            raise
        await self.write(child.lines.end())


class AsyncCall:
    """A call of a tool that is being written."""

    def __init__(self, writer: AsyncWriter, lines: CallLines) -> None:
        self.lines = lines
        self.id = lines.id
        self._writer = writer

    async def result(self, value: Any) -> None:
        await self._writer.write(self.lines.end(value))


class AsyncSubagent(AsyncWriter):
    """A sub-agent that is being written."""

    def __init__(self, run: AsyncRun, lines: ChildLines) -> None:
        super().__init__({"agentId": lines.session, "agentType": lines.agent})
        self._run = run
        self.lines = lines
        self.session = lines.session

    def result(self, value: Any) -> None:
        """Sets the result, which the end of the block writes."""
        self.lines.result = value


class AsyncRun(AsyncWriter):
    """A run that is being written. A block of `async with` opens it and ends it; an exception in the block fails it, and is raised."""

    def __init__(self, edge: Edge, lines: Lines) -> None:
        super().__init__()
        self._run = self
        self.lines = lines
        self.run_id = lines.run_id
        self.status = "active"
        self._edge = edge
        self._attempts: Attempts
        self._open = False
        self._failure: Exception | None = None
        self._sending: asyncio.Task[None] | None = None
        self._work = asyncio.Event()  # there may be something to send
        self._moved = asyncio.Event()  # something was stored, or the sender has ended

    @property
    def epoch(self) -> int:
        """The fencing token."""
        return self.lines.epoch

    @property
    def stored_before(self) -> int:
        """The lines that another process has stored in this run."""
        return self.lines.stored_before

    async def __aenter__(self) -> AsyncRun:
        self._attempts = self._edge.attempts()
        status, opened = await self._edge.load(self.lines.open(), self._attempts)
        self.lines.epoch = opened["epoch"]
        if status == 200:  # by the first of two requests of this process, or by another process
            state = await self._load(self.lines.load())
            self.lines.continued(state)
            self.status = state.status
        self._open = True
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if error is not None:
                return await self._give_up(error)
            try:
                await self.flush()
                if self.status == "active":
                    await self.end()
            except TailraceError as refused:
                await self._give_up(refused)
                raise
        finally:
            if self._sending is not None:
                self._sending.cancel()

    async def _give_up(self, error: BaseException) -> None:
        if isinstance(error, TailraceError) and error.code == "FENCED":
            return
        try:
            await asyncio.wait_for(self.fail(error_text(error)), FIRST_RESPONSE)
        except (TailraceError, OSError, asyncio.TimeoutError) as failure:
            log.warning("run %s is left open: %s", self.run_id, str(failure) or "no response in time")

    async def flush(self) -> str:
        """Waits until everything is stored, and returns the position: a cursor of the events of the session."""
        self.lines.flushing += 1
        self.wake()
        try:
            await self._until(lambda: not self.lines.unfinished and self._sending is None)
        finally:
            self.lines.flushing -= 1
        return self.lines.position

    async def drained(self) -> None:
        """Waits until less than 1 MiB is not stored."""
        self.lines.flushing += 1  # a proxy may hold back an open request
        self.wake()
        try:
            await self._until(lambda: self.lines.size <= MAX_PENDING)
        finally:
            self.lines.flushing -= 1

    async def end(self, final_output: Any = None) -> RunState:
        """Ends the run, after all chunks."""
        await self.flush()
        return await self._change("end", {} if final_output is None else {"finalOutput": final_output})

    async def fail(self, error: str) -> RunState:
        """Fails the run, after all chunks that can be stored."""
        try:
            await self.flush()
        except TailraceError as refused:
            if refused.code == "FENCED":
                raise
        return await self._change("fail", {"error": error})

    async def pause(self, reason: str = "") -> RunState:
        """The run waits for a user or for sub-agents. A chunk of the type stream_active continues it."""
        await self.flush()
        return await self._change("pause", {"reason": reason} if reason else {})

    async def pipe(self, source: Iterable[Any] | AsyncIterable[Any], *, dialect: Dialect) -> RunState:
        """Writes a whole response of a model or of an agent in its dialect, as it arrives, and returns the state of the run after it: it has ended, has failed or waits.

        Bytes may be cut anywhere, a str is a line, and a dict, a dataclass or an object with model_dump is an event. The response is kept until it is stored.
        """
        await self.flush()
        pieces = Pieces(self.lines, dialect)
        try:
            if isinstance(source, AsyncIterable):
                async for piece in source:
                    self.piece(pieces, piece)
            else:
                for piece in source:
                    self.piece(pieces, piece)
        except BaseException:
            await self.drop()
            raise
        return await self.piped(pieces)

    def piece(self, pieces: Pieces, piece: Any) -> None:
        self.check()
        pieces.put(piece)
        self.wake()

    async def piped(self, pieces: Pieces) -> RunState:
        """Waits until a response is stored."""
        pieces.end()
        await self.flush()
        state = await self._load(self.lines.load())
        self.status = state.status
        return state

    async def drop(self) -> None:
        """Cuts the body of a response whose source has failed."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.wait([self._sending])
        self.lines.drop()

    async def _change(self, name: str, body: Mapping[str, Any]) -> RunState:
        state = await self._load(self.lines.change(name, body))
        self.status = state.status
        return state

    async def _load(self, request: Request) -> RunState:
        _, body = await self._edge.load(request, self._attempts)
        return state_of(body)

    def put(self, line: bytes) -> None:
        self.check()
        self.lines.put(line)
        self.wake()

    def check(self) -> None:
        """Raises why a line cannot be stored, or an earlier one could not."""
        if not self._open:
            raise RuntimeError("the run is not open: write it in a block of with, or of async with")
        if self._failure is not None:
            raise self._failure

    def wake(self) -> None:
        self._work.set()
        if self._sending is None and self.lines.unfinished and self._failure is None:
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def _until(self, condition: Callable[[], bool]) -> None:
        while True:
            self.check()
            if condition():
                return
            self._moved.clear()
            await self._moved.wait()

    async def _send(self) -> None:
        try:
            while self.lines.unfinished:
                try:
                    await self._exchange()
                except Exception as error:
                    await asyncio.sleep(self._attempts.failed(error))
            self._attempts.succeeded()
        except Exception as error:
            self._failure = error
        finally:
            self._sending = None
            self._moved.set()

    async def _exchange(self) -> None:
        if self.lines.unsure:
            # Otherwise a long body that is cut each time would begin at its first line each time.
            self.lines.loaded(await self._load(self.lines.load()))
            if not self.lines.unfinished:
                return
        async with Exchange(self._edge, self.lines.begin(), self._attempts) as exchange:
            feeding = asyncio.ensure_future(self._feed(exchange))
            try:
                await exchange.head()
                async for line in exchange.lines():
                    if self.lines.report(line):
                        self._attempts.succeeded()
                        self._moved.set()
            finally:
                feeding.cancel()
                await asyncio.wait([feeding])
                if not feeding.cancelled():
                    feeding.exception()  # a body that was cut is known from its response
        self.lines.finish()
        self._attempts.succeeded()

    async def _feed(self, exchange: Exchange) -> None:
        while True:
            self._work.clear()
            piece = self.lines.take()
            if piece is None:
                await exchange.send(b"")
                return
            if piece:
                await exchange.send(piece)
            else:
                await self._work.wait()
