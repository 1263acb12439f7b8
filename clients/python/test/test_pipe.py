"""The events of the OpenAI Agents SDK, in classes of its shapes, as lines of a body."""

import dataclasses
import json
import unittest
import weakref
from typing import Any

from tailrace._pipe import Pieces
from tailrace._run import Lines


@dataclasses.dataclass
class Agent:
    name: str
    instructions: str
    handoffs: list[Any]
    model: Any = None


class Model:
    def __init__(self, **members: Any) -> None:
        self.members = members

    def model_dump(self, mode: str) -> dict[str, Any]:
        return self.members


@dataclasses.dataclass
class Item:
    agent: Agent
    raw_item: Any
    output: Any = None
    type: str = "tool_call_output_item"
    _agent_ref: Any = None


@dataclasses.dataclass
class Event:
    name: str
    item: Item
    type: str = "run_item_stream_event"


class Parcel:
    def __str__(self) -> str:
        return "a parcel"


class Pipes(unittest.TestCase):
    def body(self, *pieces: Any) -> bytes:
        lines = Lines("s", "r", {}, None)
        of = Pieces(lines, "openai")
        for piece in pieces:
            of.put(piece)
        request = lines.begin()
        self.assertEqual(request.media, "application/x-ndjson")
        return lines.take() or b""

    def test_events_of_an_agent(self) -> None:
        agent = Agent("Clerk", "SECRET", [], object())
        item = Item(agent, {"call_id": "c1", "type": "function_call_output"}, {"where": Parcel()}, _agent_ref=weakref.ref(agent))
        text = self.body({"type": "raw_response_event", "data": Model(type="response.created")}, Event("tool_output", item))
        self.assertEqual(
            [json.loads(line) for line in text.splitlines()],
            [
                {"type": "raw_response_event", "data": {"type": "response.created"}},
                {
                    "name": "tool_output",
                    "type": "run_item_stream_event",
                    "item": {
                        "agent": {"name": "Clerk"},
                        "raw_item": {"call_id": "c1", "type": "function_call_output"},
                        "output": {"where": "a parcel"},
                        "type": "tool_call_output_item",
                    },
                },
            ],
        )

    def test_another_object(self) -> None:
        with self.assertRaises(TypeError):
            self.body(Parcel())
