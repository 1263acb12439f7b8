// Cuts streams at random bytes and reads them through the fetch of the example and
// the transport of the AI SDK: the output must be complete records, and the cursor
// the id of the last one. Argument: a seed. The test copies this file next to the
// example.
import assert from 'node:assert';
import { DefaultChatTransport } from 'ai';
import { fetchWithCursor } from './src/cursor.ts';

let state = BigInt(process.argv[2]);
const random = (n) => {
  state = (state * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn;
  return Number((state >> 33n) % BigInt(n));
};

// record returns one to three events; the last has the id.
function record(seq) {
  const parts = Array.from({ length: 1 + random(3) }, (_, i) => `${seq}.${i} é🌊\\n`);
  const frames = parts.map((part) => `data: {"type":"data-x","data":"${part}","transient":true}\n\n`);
  frames.push(`id: ${seq}\n${frames.pop()}`);
  if (random(4) === 0) frames.unshift(': keep-alive\n\n');
  return { seq, frames: frames.join(''), chunks: parts.length };
}

// brokenBody returns pieces of the bytes on demand, and an error at the end.
function brokenBody(bytes) {
  let at = 0;
  return new ReadableStream(
    {
      pull(controller) {
        if (at === bytes.length) return controller.error(new TypeError('network error'));
        const end = Math.min(bytes.length, at + 1 + random(random(2) === 0 ? 40 : 2000));
        controller.enqueue(bytes.slice(at, end));
        at = end;
      },
    },
    { highWaterMark: 0 },
  );
}

for (let round = 0; round < 500; round++) {
  const records = Array.from({ length: 1 + random(30) }, (_, i) => record(100 + i));
  const bytes = new TextEncoder().encode(records.map((r) => r.frames).join(''));
  const cut = bytes.slice(0, 1 + random(bytes.length));
  globalThis.fetch = async () => new Response(brokenBody(cut));
  const cursor = { id: '99', counts: false };
  const transport = new DefaultChatTransport({ fetch: fetchWithCursor(cursor) });
  const chunks = (await transport.reconnectToStream({ chatId: 'c' })).getReader();
  let got = 0;
  await assert.rejects(async () => {
    for (;;) {
      const { done } = await chunks.read();
      if (done) return;
      got++;
    }
  }, /network error/);
  const want = records.filter((r) => r.seq <= Number(cursor.id)).reduce((n, r) => n + r.chunks, 0);
  assert.equal(got, want, `round ${round}: the cursor is ${cursor.id}`);
  const whole = records.filter((r, i) => new TextEncoder().encode(records.slice(0, i + 1).map((x) => x.frames).join('')).length <= cut.length);
  assert.equal(cursor.id, String(whole.at(-1)?.seq ?? 99), `round ${round}`);
}
console.log('500 streams');
