"""A loop of asyncio in a thread, on which the client of programs without asyncio runs."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Any, Callable, Coroutine, TypeVar

T = TypeVar("T")

_guard = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_process = 0


def loop() -> asyncio.AbstractEventLoop:
    """Returns the loop of this process: a thread does not exist any more after a fork."""
    global _loop, _process
    with _guard:
        if _loop is None or _process != os.getpid():
            _loop, _process = asyncio.new_event_loop(), os.getpid()
            threading.Thread(target=_loop.run_forever, name="tailrace", daemon=True).start()
        return _loop


def wait(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on the loop and waits for its result."""
    future = asyncio.run_coroutine_threadsafe(work, loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def soon(work: Callable[[], None]) -> None:
    """Calls a function on the loop."""
    loop().call_soon_threadsafe(work)
