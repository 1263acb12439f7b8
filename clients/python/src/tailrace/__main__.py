"""The command: python -m tailrace publish|follow."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from typing import Any

from . import Tailrace, TailraceError


def show(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, separators=(",", ":")), flush=True)


def publish(args: argparse.Namespace) -> None:
    lines = (line for line in sys.stdin.buffer if line.strip())
    first = next(lines, None)
    if first is None:
        sys.exit("nothing on standard input: no run was opened")
    tr = Tailrace(args.url, args.token)
    with tr.run(args.session, message=args.message, agent=args.agent, run_id=args.run, take_over=args.take_over) as run:
        for line in itertools.chain([first], lines):
            run.write(line)
        show(run.end().as_json())


def follow(args: argparse.Namespace) -> None:
    for event in Tailrace(args.url, args.token).follow(args.session, after=args.after, view=args.view):
        show({"id": event.id, **event.data})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tailrace", description="Writes and follows sessions of Tailrace.")
    commands = parser.add_subparsers(required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("session")
    common.add_argument("--url", help="address of the edge; TAILRACE_URL, or http://127.0.0.1:4480 without it")
    common.add_argument("--token", help="bearer token; TAILRACE_TOKEN without it")
    writing = commands.add_parser("publish", parents=[common], help="write a run: each line of the standard input is a chunk")
    writing.add_argument("--run", help="id of the run; a new one without it")
    writing.add_argument("--agent", help="name of the agent's definition")
    writing.add_argument("--message", help="what the run answers")
    writing.add_argument("--take-over", action="store_true", help="replace an open run")
    writing.set_defaults(command=publish)
    reading = commands.add_parser("follow", parents=[common], help="print each event as a line of JSON")
    reading.add_argument("--after", default="0", help="id of the last event that you have; the start of the log without it")
    reading.add_argument("--view")
    reading.set_defaults(command=follow)
    args = parser.parse_args()
    args.command(args)


if __name__ == "__main__":
    try:
        main()
    except (TailraceError, ValueError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
