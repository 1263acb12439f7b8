"""Writes runs of AI agents into sessions of Tailrace, and follows them.

    tr = Tailrace("http://127.0.0.1:4480")
    with tr.run("s1", message="Where is my parcel?") as run:
        run.text("It is in Oslo.")
    for event in tr.follow("s1"):
        print(event.chunk)
"""

from ._async import AsyncCall, AsyncRun, AsyncSubagent, AsyncTailrace
from ._errors import TailraceError, Unreachable
from ._follow import Event
from ._run import RunState
from ._sync import Call, Run, Subagent, Tailrace
from ._tokens import MintedToken, mint_session_token

__all__ = [
    "AsyncCall",
    "AsyncRun",
    "AsyncSubagent",
    "AsyncTailrace",
    "Call",
    "Event",
    "MintedToken",
    "Run",
    "RunState",
    "Subagent",
    "Tailrace",
    "TailraceError",
    "Unreachable",
    "mint_session_token",
]
