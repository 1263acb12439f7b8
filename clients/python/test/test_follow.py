"""Events that arrive in any pieces, and are cut at every byte."""

import unittest

from tailrace._errors import Cut
from tailrace._follow import Follower

STREAM = (
    'retry: 10\n\n: heartbeat\n\nid: 1-a\ndata: {"type":"chunk","chunk":{"type":"text_delta","delta":"é\u2028"},"sequence":1}\n\n'
    'id: 2-b\n\nid: 3-c\ndata: {"type":"status",\ndata: "status":"paused"}\n\nid: 4-d\r\ndata: {"type":"end"}\r\n\r\n'
).encode()


def follower() -> Follower:
    return Follower("s", "0", "tree", None, ["a", "b"], None, None)


class Events(unittest.TestCase):
    def test_cuts(self) -> None:
        for cut in range(len(STREAM) + 1):
            f = follower()
            events = f.feed(STREAM[:cut])
            cursor = f.cursor
            self.assertIn(f"after={cursor}&", f.request().path)
            rest = STREAM.replace(b"\r\n", b"\n")
            if cursor != "0":
                rest = rest[rest.index(b"\n\n", rest.index(f"id: {cursor}".encode())) + 2 :]
            events += f.feed(rest)
            self.assertEqual([e.id for e in events], ["1-a", "3-c", "4-d"])
            self.assertEqual([e.type for e in events], ["chunk", "status", "end"])
            self.assertEqual((events[0].chunk or {})["delta"], "é\u2028")
            self.assertEqual((f.ended, f.retry, f.cursor), (True, 0.01, "4-d"))

    def test_an_event_that_is_no_event(self) -> None:
        for data in ("{", "[]", "5", '{"type":5}'):
            with self.assertRaises(Cut):
                follower().feed(f"id: 1\ndata: {data}\n\n".encode())
