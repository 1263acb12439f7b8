"""The lines of a run against a log without I/O, whose responses and requests are cut anywhere."""

import json
import random
import unittest

from tailrace import Tailrace, TailraceError, Unreachable
from tailrace._attempts import Attempts
from tailrace._errors import Cut, problem_of
from tailrace._run import Lines, RunState


class Log:
    """What an edge does with lines: it skips those that are stored."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def append(self, first: int, lines: list[bytes]) -> int:
        assert 1 <= first <= len(self.lines) + 1, "lines are missing"
        self.lines += lines[len(self.lines) + 1 - first :] if first + len(lines) > len(self.lines) else []
        return len(self.lines)

    def state(self) -> RunState:
        return RunState("r", 1, len(self.lines), len(self.lines) + 1, str(len(self.lines)), "active")


def first_line(path: str) -> int:
    return int(path.split("firstLine=")[1].split("&")[0])


class Runs(unittest.TestCase):
    def test_not_open(self) -> None:
        run = Tailrace("http://127.0.0.1:1").run("s")
        for write in (lambda: run.text("a"), run.flush, run.end):
            with self.assertRaisesRegex(RuntimeError, "the run is not open"):
                write()

    def test_warnings(self) -> None:
        for nearest, hint in (({}, ""), ({"nearest": "filename"}, "; did you mean filename?")):
            warning = {"line": 1, "member": "fileName", **nearest}
            with self.assertLogs("tailrace") as logged:
                Lines("s", "r", {}, None).report(json.dumps({"stored": 0, "warnings": [warning]}).encode())
            self.assertEqual(logged.records[0].getMessage(), "line 1 is stored, but its member fileName is probably mistaken" + hint)

    def test_cuts(self) -> None:
        for seed in range(300):
            rng, log = random.Random(seed), Log()
            lines = Lines("s", "r", {}, None)
            want = [b'{"n":%d}\n' % i for i in range(rng.randrange(1, 60))]
            left = list(want)
            while left or lines.unfinished:
                if lines.unsure:
                    lines.loaded(log.state())
                first = first_line(lines.begin().path)
                body = b""
                for _ in range(rng.randrange(8)):
                    for line in left[: rng.randrange(4)]:
                        lines.put(left.pop(0))
                    body += lines.take() or b""
                cut = rng.randrange(3) > 0
                arrived = body[: rng.randrange(len(body) + 1)] if cut else body
                stored = log.append(first, arrived.splitlines(keepends=True)[: arrived.count(b"\n")])
                if rng.randrange(2):
                    lines.report(b'{"stored":%d,"position":"%d"}' % (stored, stored))
                if not cut:
                    lines.report(b'{"done":true,"stored":%d,"next":%d,"position":"5"}' % (stored, stored + 1))
                    lines.finish()
                else:
                    with self.assertRaises(Cut):
                        lines.finish()
            self.assertEqual(log.lines, want)
            self.assertEqual(lines.size, 0)

    def test_a_response_is_sent_from_its_first_piece(self) -> None:
        lines = Lines("s", "r", {}, None)
        lines.begin_response("openai", "text/event-stream")
        for piece in (b"data: 1\n", b"\ndata: 2", b"\n\n"):
            lines.put(piece)
        request = lines.begin()
        self.assertEqual((first_line(request.path), request.media, lines.take()), (1, "text/event-stream", b"data: 1\n\ndata: 2\n\n"))
        self.assertEqual(lines.take(), b"")
        lines.report(b'{"stored":1,"position":"1"}')
        lines.end_response()
        self.assertEqual(first_line(lines.begin().path), 1)
        self.assertEqual((lines.take(), lines.take()), (b"data: 1\n\ndata: 2\n\n", None))
        lines.report(b'{"done":true,"stored":2,"next":4,"position":"3"}')
        lines.finish()
        self.assertEqual((lines.unfinished, first_line(lines.begin().path)), (False, 4))

    def test_a_hostile_response(self) -> None:
        for line in (b"[]", b"{", b"5"):
            with self.assertRaises(Cut):
                Lines("s", "r", {}, None).report(line)
        lines = Lines("s", "r", {}, None)
        lines.put(b"{}\n")
        lines.report(b'{"stored":99,"position":"x"}')
        self.assertEqual(lines.size, 0)


class Errors(unittest.TestCase):
    def test_text(self) -> None:
        body = {"error": "a line is not what the run takes", "code": "INVALID_LINE", "detail": "tool_start.toolCallId: want a string", "line": 3, "stored": 2}
        self.assertEqual(str(problem_of(400, body)), "INVALID_LINE: line 3: tool_start.toolCallId: want a string (2 lines stored)")
        self.assertEqual(str(problem_of(404, {"code": "NO_RUN", "title": "there is no such run"})), "NO_RUN: there is no such run")
        text = str(problem_of(409, {"code": "RUN_OPEN", "runId": "job-1"}))
        self.assertTrue('run_id="job-1"' in text and "take_over=True" in text)

    def test_attempts(self) -> None:
        now = 0.0
        attempts = Attempts("edge.test:1", 60, clock=lambda: now)
        with self.assertLogs("tailrace", "WARNING") as logged:
            self.assertLessEqual(attempts.failed(Cut("cut")), 0.1)
            now = 5.1
            with self.assertRaises(Unreachable):
                attempts.failed(Cut("cut"))
            attempts.answered()
            now = 1000.0
            for _ in range(20):
                self.assertLessEqual(attempts.failed(Cut("cut")), 30)
            now = 1061.0
            with self.assertRaises(Unreachable):
                attempts.failed(Cut("cut"))
        self.assertEqual(len(logged.records), 21)

    def test_what_is_not_repeated(self) -> None:
        attempts = Attempts("edge.test:1", 60, renews=True)
        for error in (TailraceError(409, "FENCED", ""), TailraceError(400, "INVALID_LINE", ""), RuntimeError()):
            with self.assertRaises(type(error)):
                attempts.failed(error)
        self.assertEqual(attempts.failed(TailraceError(401, "CREDENTIAL_EXPIRED", "")), 0)
        with self.assertRaises(TailraceError):
            attempts.failed(TailraceError(401, "UNAUTHENTICATED", ""))


class Json(unittest.TestCase):
    def test_requests(self) -> None:
        lines = Lines("s", "r", {"agentType": None, "input": [{"content": "é"}]}, None)
        self.assertEqual(json.loads(lines.open().body), {"input": [{"content": "é"}], "runId": "r"})
