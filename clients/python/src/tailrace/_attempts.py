"""When a request is sent again, and when it is given up."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import Callable

from ._errors import TailraceError, Unreachable

log = logging.getLogger("tailrace")

FIRST_RESPONSE = 5.0  # seconds until the first response of an edge
IDLE = 45.0  # seconds without a byte: the edge writes a heartbeat every 15
_LONGEST = 30.0


class Attempts:
    """The attempts of one run or of one follower."""

    def __init__(self, name: str, retry_for: float, renews: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.first_delay = 0.1
        self._name = name
        self._retry_for = retry_for
        self._renews = renews  # the token is a function, which may have a new one
        self._renewed = False
        self._clock = clock
        self._answered = False
        self._since: float | None = clock()  # of the first attempt without success
        self._count = 0

    @property
    def timeout(self) -> float:
        """The seconds in which the next bytes have to arrive."""
        if self._answered or self._since is None:
            return IDLE
        return max(0.1, self._since + FIRST_RESPONSE - self._clock())

    def answered(self) -> None:
        """An edge has sent a response, of any kind."""
        if not self._answered:
            self._answered, self._since = True, None

    def succeeded(self) -> None:
        """Something was achieved: later failures are new ones."""
        self._since, self._count, self._renewed = None, 0, False

    def failed(self, error: Exception) -> float:
        """Returns the seconds to wait before the next attempt, or raises what no attempt changes."""
        after = 0.0
        if isinstance(error, TailraceError):
            if error.status == 401 and self._renews and not self._renewed:
                self._renewed = True
                return 0.0
            if not error.again:
                raise error
            after = error.retry_after
        elif not isinstance(error, (OSError, asyncio.TimeoutError)):
            raise error
        now = self._clock()
        if self._since is None:
            self._since = now
        limit = self._retry_for if self._answered else FIRST_RESPONSE
        left = self._since + limit - now
        reason = str(error) or "no response in time"
        if left <= 0:
            if isinstance(error, TailraceError):
                raise error
            raise Unreachable(f"{self._name} has not answered for {limit:g} s: {reason}") from error
        self._count += 1
        backoff = min(_LONGEST, self.first_delay * 2 ** min(self._count - 1, 16)) * random.uniform(0.5, 1)
        delay = max(after, min(backoff, left))
        log.warning("%s: %s; next attempt in %.1f s", self._name, reason, delay)
        return delay
