#!/usr/bin/env python3
"""Writes a run of an agent into a session of Tailrace: each line of the standard input is a chunk. Standard library only.

    my-agent | python3 publish.py http://127.0.0.1:4480 s1
    echo '{"type":"text_delta","delta":"Hello"}' | python3 publish.py http://127.0.0.1:4480 s1

The edge needs TAILRACE_INGEST=on. Every chunk is stored once, however often a connection is cut. Copy class Run into your program.
"""

import argparse
import http.client
import json
import queue
import random
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

IDLE_SECONDS = 45  # the edge writes a heartbeat every 15 seconds
MAX_BATCH = 500  # lines of a request
RETRIED = ("SUPERSEDED", "BODY_CUT")  # a request that was given up and came late, or a proxy


class Refused(Exception):
    """What a retry does not change, such as FENCED: another writer has the session."""

    def __init__(self, problem):
        text = "%s %s" % (problem.get("code", ""), problem.get("title") or problem.get("error", ""))
        if problem.get("detail"):
            text += ": %s" % problem["detail"]
        if "line" in problem:
            text += " (line %s, %s stored)" % (problem["line"], problem.get("stored", 0))
        super().__init__(text)
        self.code = problem.get("code", "")


class Run:
    """A run that is being written. The constructor opens it, or continues the open run of this id."""

    def __init__(self, url, session, token=None, run_id=None, **members):
        self.base = "%s/v1/sessions/%s/runs" % (url.rstrip("/"), urllib.parse.quote(session, safe=""))
        self.token = token
        self.run_id = run_id or str(uuid.uuid4())
        self.next_line = 1
        opened = self.request("", dict(members, runId=self.run_id))
        self.epoch = opened["epoch"]
        state = self.request("/%s?epoch=%d" % (self.run_id, self.epoch))
        self.next_line = state["next"]  # lines are numbered over the whole run

    def append(self, lines):
        """Stores chunks, dicts or lines of JSON, and returns the position: a cursor of the events of the session."""
        lines = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        first, position = self.next_line, None
        end, unsure = first + len(lines), False

        def attempt():
            nonlocal position, unsure
            if unsure:  # a request was cut: it may have stored more than its response says
                state = self.load("/%s?epoch=%d" % (self.run_id, self.epoch))
                self.next_line, position = max(self.next_line, state["next"]), state["position"]
                if self.next_line >= end:
                    return
            unsure = True
            body = "".join(line.rstrip("\r\n") + "\n" for line in lines[self.next_line - first :])
            path = "/%s/chunks?epoch=%d&firstLine=%d" % (self.run_id, self.epoch, self.next_line)
            with self.open(path, body.encode("utf-8"), "application/x-ndjson") as response:
                for line in response:
                    report = json.loads(line) if line.strip() else {}
                    if "stored" in report:  # what is stored is not sent again
                        self.next_line = max(self.next_line, report["stored"] + 1)
                        position = report.get("position", position)
                    if "error" in report:
                        if report.get("status", 0) >= 500 or report.get("code") in RETRIED:
                            raise OSError(report["error"])
                        raise Refused(report)
                    for warning in report.get("warnings", ()):
                        print("line {line}: there is no member {member}; did you mean {nearest}?".format(**warning), file=sys.stderr)
                    if report.get("done"):
                        return
            raise OSError("the response was cut")

        if lines:
            self.repeat(attempt)
            self.next_line = end
        return position

    def end(self, final_output=None):
        return self.change("end", {} if final_output is None else {"finalOutput": final_output})

    def fail(self, error):
        return self.change("fail", {"error": error})

    def pause(self, reason):
        return self.change("pause", {"reason": reason})

    def change(self, name, body):
        return self.request("/%s/%s?epoch=%d" % (self.run_id, name, self.epoch), body)

    def request(self, path, body=None):
        data = None if body is None else json.dumps(body).encode("utf-8")

        return self.repeat(lambda: self.load(path, data))

    def load(self, path, data=None):
        with self.open(path, data, "application/json") as response:
            return json.loads(response.read())

    def open(self, path, data, media_type):
        request = urllib.request.Request(self.base + path, data=data, headers={"Content-Type": media_type})
        if self.token:
            request.add_header("Authorization", "Bearer " + self.token)
        return urllib.request.urlopen(request, timeout=IDLE_SECONDS)

    def repeat(self, attempt):
        """Every request can be repeated: the edge skips what is stored."""
        attempts = 0
        while True:
            wait, line = 0.0, self.next_line
            try:
                return attempt()
            except urllib.error.HTTPError as error:
                problem = problem_of(error)
                if error.code != 429 and error.code < 500 and problem.get("code") not in RETRIED:
                    raise Refused(problem) from error
                wait = float(error.headers.get("Retry-After") or 0)
            except (OSError, http.client.HTTPException, ValueError):
                pass  # the connection was refused or cut
            attempts = 0 if self.next_line > line else attempts + 1
            time.sleep(max(wait, min(30.0, 0.1 * 2 ** min(attempts, 10)) * random.uniform(0.5, 1)))


def problem_of(error):
    try:
        problem = json.loads(error.read())
    except (ValueError, OSError, http.client.HTTPException):
        problem = None
    return problem if isinstance(problem, dict) else {"code": str(error.code), "title": error.reason}


def batches(stream):
    """Yields lists of lines: the first line at once, then those that were written while the previous request was in flight."""
    lines = queue.Queue(maxsize=10 * MAX_BATCH)  # a full queue slows the writer down

    def read():
        for line in stream:
            if line.strip():
                lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    line = lines.get()
    while line is not None:
        batch = [line]
        while len(batch) < MAX_BATCH:
            try:
                line = lines.get_nowait()
            except queue.Empty:
                line = ""
                break
            if line is None:
                break
            batch.append(line)
        yield batch
        if line is not None:
            line = lines.get()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", help="address of the edge")
    parser.add_argument("session")
    parser.add_argument("--token", help="bearer token")
    parser.add_argument("--run", help="id of the run; a new one without it")
    parser.add_argument("--agent", default="agent", help="name of the agent's definition")
    parser.add_argument("--message", help="what the run answers")
    parser.add_argument("--take-over", action="store_true", help="replace an open run")
    args = parser.parse_args()
    members = {"agentType": args.agent, "takeOver": args.take_over}
    if args.message is not None:
        members["input"] = [{"content": args.message}]
    run = Run(args.url, args.session, token=args.token, run_id=args.run, **members)
    for batch in batches(sys.stdin):
        run.append(batch)
    print(json.dumps(run.end()), flush=True)


if __name__ == "__main__":
    try:
        main()
    except Refused as refused:
        sys.exit(str(refused))
    except KeyboardInterrupt:
        sys.exit(130)
