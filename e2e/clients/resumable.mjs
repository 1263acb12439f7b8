// Writes a stream of the AI SDK with the calls of resumable-stream, and reads it again. The argument is JSON: the options of a connection, words, and readers, of which each
// begins after another number of words. The lines are the texts of the readers, the first one by the request that has created the stream.
import assert from "node:assert/strict";
import { createResumableStreamContext } from "tailrace-client/resumable";

const { words, readers, ...connection } = JSON.parse(process.argv[2]);
const write = (line) => process.stdout.write(JSON.stringify(line) + "\n");
const frame = (chunk) => `data: ${typeof chunk === "string" ? chunk : JSON.stringify(chunk)}\n\n`;
const context = () => createResumableStreamContext({ ...connection, waitUntil: (promise) => written.push(promise) });
const written = [];
let made = 0;

function makeStream(ending) {
  made++;
  return new ReadableStream({
    async start(controller) {
      const send = (chunk) => controller.enqueue(frame(chunk));
      send({ type: "start", messageId: "m1" });
      send({ type: "start-step" });
      send({ type: "text-start", id: "t1" });
      for (let n = 0; n < words; n++) {
        send({ type: "text-delta", id: "t1", delta: `word ${n} é🌊 ` });
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
      if (ending === "error") return controller.error(new Error("the model is gone"));
      send({ type: "text-end", id: "t1" });
      send({ type: "finish-step" });
      send({ type: "finish" });
      send("[DONE]");
      controller.close();
    },
  });
}

async function read(stream) {
  let text = "";
  for await (const piece of stream) text += piece;
  return text;
}

const session = "whole";
assert.equal(await context().hasExistingStream(session), null);
assert.equal(await context().resumeExistingStream(session), undefined);
// Two requests at once: one of them creates the stream.
const [first, second] = await Promise.all([0, 1].map(() => context().resumableStream(session, makeStream)));
assert.equal(made, 1);
const rest = Array.from({ length: readers }, async (_, i) => read(await context().resumableStream(session, makeStream, i * 40)));
const text = await read(first);
write({ type: "text", id: text });
assert.equal(await read(second), text);
for (const [i, one] of (await Promise.all(rest)).entries()) assert.equal(one, text.slice(i * 40));
await Promise.all(written);
assert.equal(made, 1);
assert.equal(await context().hasExistingStream(session), "DONE");
assert.equal(await context().resumableStream(session, makeStream), null);

const failing = await context().createNewResumableStream("failing", () => makeStream("error"));
const end = await read(failing);
assert.ok(end.includes('"type":"error"'), end);
await assert.rejects(written.at(-1), { message: "the model is gone" });
assert.equal(await context().hasExistingStream("failing"), "DONE");
write({ type: "return" });
