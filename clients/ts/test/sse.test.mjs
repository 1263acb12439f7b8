import assert from "node:assert/strict";
import { test } from "node:test";
import { EventParser } from "../dist/index.js";

const text =
  ": a comment\nretry: 250\n\nid: 1-a\ndata: {\"text\":\"é🌊\"}\n\nid: 2-b\n\ndata: no id\ndata: second line\n\n" +
  "id:3-c\r\ndata:x\r\n\r\nid: 4-d\rdata: y\r\revent: named\nid: 5-e\ndata\n\nid: 6-f\ndata: cut";
const want = [
  { id: "1-a", data: '{"text":"é🌊"}' },
  { id: "2-b", data: undefined },
  { id: undefined, data: "no id\nsecond line" },
  { id: "3-c", data: "x" },
  { id: "4-d", data: "y" },
  { id: "5-e", data: "" },
];

test("events are complete wherever the bytes are cut, and an incomplete event is none", () => {
  const bytes = new TextEncoder().encode(text);
  for (let a = 0; a <= bytes.length; a++) {
    for (let b = a; b <= bytes.length; b += 7) {
      const parser = new EventParser();
      const got = [bytes.slice(0, a), bytes.slice(a, b), bytes.slice(b)].flatMap((piece) => parser.push(piece));
      assert.deepEqual(got, want, `cut at ${a} and ${b}`);
      assert.equal(parser.retry, 250);
    }
  }
});

test("a long line in small pieces is joined once", () => {
  const parser = new EventParser();
  const piece = new TextEncoder().encode("x".repeat(100));
  parser.push(new TextEncoder().encode("data: "));
  for (let i = 0; i < 10_000; i++) parser.push(piece);
  const [event] = parser.push(new TextEncoder().encode("\n\n"));
  assert.equal(event.data.length, 1_000_000);
});
