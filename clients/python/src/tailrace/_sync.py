"""The client for programs without asyncio: the same names, and calls that wait."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Any, AsyncIterator, Generator, Iterable, Mapping

from ._agent import CallLines, ChildLines, Written, Speaker
from ._async import AsyncRun, AsyncTailrace, batches
from ._follow import Event, Follower
from ._loop import soon, wait
from ._net import Edge, Token
from ._pipe import Dialect, Pieces
from ._run import MAX_PENDING, RunState
from ._tokens import MintedToken


class Tailrace:
    """An edge. Without an address it is that of TAILRACE_URL, and without a token that of TAILRACE_TOKEN."""

    def __init__(self, url: str | None = None, token: Token = None, *, retry_for: float = 60.0) -> None:
        self._edge = Edge(url, token, retry_for)
        self._twin = AsyncTailrace(url, token, retry_for=retry_for)

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
    ) -> Run:
        """Returns a run that `with` opens, or continues if a run with this id is open. Each chunk is stored once, however often a connection is cut."""
        twin = self._twin.run(
            session, message=message, agent=agent, run_id=run_id, take_over=take_over, input=input, model=model, provider=provider, root=root
        )
        return Run(twin)

    def follow(
        self,
        session: str,
        *,
        after: str = "0",
        scope: str = "tree",
        view: str | None = None,
        types: Iterable[str] | None = None,
        exclude: Iterable[str] | None = None,
        root: str | None = None,
    ) -> Generator[Event, None, None]:
        """Yields the events after a cursor, each once and in order, across cut connections. It ends when the run is complete."""
        source = batches(self._edge, Follower(session, after, scope, view, types, exclude, root))
        try:
            while (events := wait(_next(source))) is not None:
                yield from events
        finally:
            with contextlib.suppress(RuntimeError):  # an interrupted request still runs
                wait(source.aclose())

    def mint(
        self,
        subject: str,
        scopes: Iterable[str],
        *,
        sessions: str | Iterable[str] | None = None,
        view: str | Iterable[str] | None = None,
        minutes: int | None = None,
    ) -> MintedToken:
        """Asks the edge for a session token of a user, with the rights of this client at most. It needs the right admin."""
        return wait(self._twin.mint(subject, scopes, sessions=sessions, view=view, minutes=minutes))


async def _next(source: AsyncIterator[list[Event]]) -> list[Event] | None:
    return await anext(source, None)


class Writer(Speaker):
    """Writes the chunks of one agent of a run."""

    _run: Run

    def write(self, chunk: Written) -> None:
        """Writes a chunk, or a line of JSON. It returns at once, or waits while more than 1 MiB is not stored."""
        self._run.put(self.line(chunk))

    def text(self, delta: str) -> None:
        self.write({"type": "text_delta", "delta": delta})

    @contextlib.contextmanager
    def tool(self, name: str, arguments: Mapping[str, Any] | None = None, *, call_id: str | None = None) -> Generator[Call, None, None]:
        """Writes a call of a tool. An exception in its block is the error of the call, and is raised."""
        call = Call(self, CallLines(name, arguments, call_id))
        self.write(call.lines.start())
        try:
            yield call
        except BaseException as error:
            if not call.lines.ended:
                self.write(call.lines.fail(error))
            raise
        if not call.lines.ended:
            call.result(None)

    @contextlib.contextmanager
    def subagent(self, agent: str, *, session: str | None = None, call_id: str | None = None) -> Generator[Subagent, None, None]:
        """Writes a sub-agent. An exception in its block fails it, and is raised. A block of tool("subagent__" + agent, input) around it, with its id as call_id, is the call with the input."""
        child = Subagent(self._run, ChildLines(agent, session, call_id))
        self.write(child.lines.start())
        try:
            yield child
        except BaseException as error:
            child.write(child.lines.fail(error))
            self.write(child.lines.end())
            raise
        self.write(child.lines.end())


class Call:
    """A call of a tool that is being written."""

    def __init__(self, writer: Writer, lines: CallLines) -> None:
        self.lines = lines
        self.id = lines.id
        self._writer = writer

    def result(self, value: Any) -> None:
        self._writer.write(self.lines.end(value))


class Subagent(Writer):
    """A sub-agent that is being written."""

    def __init__(self, run: Run, lines: ChildLines) -> None:
        super().__init__({"agentId": lines.session, "agentType": lines.agent})
        self._run = run
        self.lines = lines
        self.session = lines.session

    def result(self, value: Any) -> None:
        """Sets the result, which the end of the block writes."""
        self.lines.result = value


class Run(Writer):
    """A run that is being written. A block of `with` opens it and ends it; an exception in the block fails it, and is raised."""

    def __init__(self, twin: AsyncRun) -> None:
        super().__init__()
        self._run = self
        self._twin = twin
        self._woken = False
        self.run_id = twin.run_id

    @property
    def status(self) -> str:
        """active, paused, ended or failed."""
        return self._twin.status

    @property
    def epoch(self) -> int:
        """The fencing token."""
        return self._twin.epoch

    @property
    def stored_before(self) -> int:
        """The lines that another process has stored in this run."""
        return self._twin.stored_before

    def __enter__(self) -> Run:
        wait(self._twin.__aenter__())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        wait(self._twin.__aexit__(kind, error, trace))

    def pipe(self, source: Iterable[Any], *, dialect: Dialect) -> RunState:
        """Writes a whole response of a model or of an agent in its dialect, as it arrives, and returns the state of the run after it: it has ended, has failed or waits.

        Bytes may be cut anywhere, a str is a line, and a dict, a dataclass or an object with model_dump is an event. The response is kept until it is stored.
        """
        self.flush()
        pieces = Pieces(self._twin.lines, dialect)
        try:
            for piece in source:
                self._twin.check()
                pieces.put(piece)
                self._wake_soon()
        except BaseException:
            wait(self._twin.drop())
            raise
        return wait(self._twin.piped(pieces))

    def put(self, line: bytes) -> None:
        self._twin.check()
        self._twin.lines.put(line)
        self._wake_soon()
        if self._twin.lines.size > MAX_PENDING:
            wait(self._twin.drained())

    def _wake_soon(self) -> None:
        if not self._woken:
            self._woken = True
            soon(self._wake)

    def _wake(self) -> None:
        self._woken = False
        self._twin.wake()

    def flush(self) -> str:
        """Waits until everything is stored, and returns the position: a cursor of the events of the session."""
        return wait(self._twin.flush())

    def end(self, final_output: Any = None) -> RunState:
        """Ends the run, after all chunks."""
        return wait(self._twin.end(final_output))

    def fail(self, error: str) -> RunState:
        """Fails the run, after all chunks that can be stored."""
        return wait(self._twin.fail(error))

    def pause(self, reason: str = "") -> RunState:
        """The run waits for a user or for sub-agents. A chunk of the type stream_active continues it."""
        return wait(self._twin.pause(reason))
