#!/usr/bin/env python3
"""Follows a session of Tailrace and prints each event as a line of JSON. Standard library only.

    python3 follow.py http://127.0.0.1:4480 s1

Each event is printed once and in order, also across cut connections. Copy follow() into your program.
"""

import argparse
import http.client
import json
import random
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

IDLE_SECONDS = 45  # the edge writes a heartbeat every 15 seconds


def follow(url, session, token=None, cursor="0", scope="tree", view=None):
    """Yields (id, event) after a cursor: "0" is the start of the log, the id of an event continues after it. Returns when the run is complete.

    An event of the type "truncated" means that shown events were removed, or that the cursor is lost: load /v1/sessions/{id}/snapshot, and continue after its
    streamSequence. The error is urllib.error.HTTPError for what a retry does not change.
    """
    delay, attempts = 1.0, 0
    while True:
        query = {"after": cursor, "scope": scope}
        if view:
            query["view"] = view
        request = urllib.request.Request(
            "%s/v1/sessions/%s/events?%s" % (url.rstrip("/"), urllib.parse.quote(session, safe=""), urllib.parse.urlencode(query)),
            headers={"Accept": "text/event-stream"},
        )
        if token:
            request.add_header("Authorization", "Bearer " + token)
        wait = 0.0
        try:
            with urllib.request.urlopen(request, timeout=IDLE_SECONDS) as response:
                if response.status == 204:  # complete, and the cursor is at the end
                    return
                for event_id, data, retry in read_events(response):
                    if retry is not None:
                        delay = retry / 1000
                        continue
                    if event_id is not None:
                        cursor, attempts = event_id, 0
                    if data is None:  # records that are not shown
                        continue
                    yield cursor, json.loads(data)
            # http.client reports a response that was cut as one that has ended: the next request tells whether more follows
        except urllib.error.HTTPError as error:
            if error.code != 429 and error.code < 500:
                raise
            wait = float(error.headers.get("Retry-After") or 0)
        except (OSError, http.client.HTTPException):
            pass  # the connection was refused or cut: continue after the last complete event
        attempts += 1
        backoff = min(30.0, delay * 2 ** min(attempts - 1, 16))
        time.sleep(max(wait, backoff * random.uniform(0.5, 1)))


def read_events(response):
    """Yields (id, data, retry) of complete events: one that was cut has no blank line, and its id must not become the cursor."""
    event_id, data = None, []
    while True:
        line = response.readline()
        if not line.endswith(b"\n"):  # the end, or an unfinished line
            return
        line = line.rstrip(b"\r\n").decode("utf-8")
        if line == "":
            if event_id is not None or data:
                yield event_id, "\n".join(data) if data else None, None
            event_id, data = None, []
            continue
        name, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "id":
            event_id = value
        elif name == "data":
            data.append(value)
        elif name == "retry" and value.isdigit():
            yield None, None, int(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", help="address of the edge")
    parser.add_argument("session")
    parser.add_argument("--token", help="bearer token")
    parser.add_argument("--after", default="0", help="id of the last event that you have; the start of the log without it")
    parser.add_argument("--view")
    args = parser.parse_args()
    for event_id, event in follow(args.url, args.session, token=args.token, cursor=args.after, view=args.view):
        print(json.dumps({"id": event_id, **event}, ensure_ascii=False, separators=(",", ":")), flush=True)


if __name__ == "__main__":
    try:
        main()
    except urllib.error.HTTPError as error:
        sys.exit("%s %s" % (error.code, error.read().decode("utf-8", "replace")))
    except KeyboardInterrupt:
        sys.exit(130)
