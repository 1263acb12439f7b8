// Sends messages with the stock Chat and the transport of tailrace-client, once without a cut and then with a first response that is cut after each number of bytes:
// the messages must be the same. The argument is the URL of an edge. The test copies this file next to the example.
import assert from 'node:assert';
import { Chat } from '@ai-sdk/react';
import { lastAssistantMessageIsCompleteWithApprovalResponses, lastAssistantMessageIsCompleteWithToolCalls } from 'ai';
import { TailraceChatTransport } from 'tailrace-client/ai/transport';

const [url, ...chats] = process.argv.slice(2);

// cutting is a fetch whose first response with a stream fails after some bytes, as a lost connection does. It counts requests and the bytes of the first stream.
function cutting(after = Infinity) {
  const seen = { requests: [], bytes: 0, ends: [] };
  const fetch = async (address, init) => {
    const response = await globalThis.fetch(address, init);
    seen.requests.push(`${init.method ?? 'GET'} ${response.status}`);
    if (seen.requests.length > 1 || response.status !== 200) return response;
    const reader = response.body.getReader();
    const body = new ReadableStream({
      async pull(controller) {
        const { done, value } = seen.bytes >= after ? {} : await reader.read();
        if (done) return controller.close();
        const piece = value?.slice(0, after - seen.bytes) ?? new Uint8Array();
        for (let i = 1; i < piece.length; i++) if (piece[i] === 10 && piece[i - 1] === 10) seen.ends.push(seen.bytes + i + 1);
        seen.bytes += piece.length;
        if (piece.length > 0) controller.enqueue(piece);
        if (seen.bytes < after) return;
        await reader.cancel();
        controller.error(new TypeError('network error'));
      },
    }, { highWaterMark: 0 });
    return new Response(body, response);
  };
  return { fetch, seen };
}

// play continues a chat with one request, and returns its messages. An error of the Chat fails it.
async function play(id, messages, send, after) {
  const { fetch, seen } = cutting(after);
  const errors = [];
  const chat = new Chat({ id, messages: structuredClone(messages), transport: new TailraceChatTransport({ url, fetch }), onError: (error) => errors.push(error) });
  await send(chat);
  assert.deepEqual(errors, [], `cut after ${after}: ${seen.requests}`);
  assert.equal(chat.status, 'ready');
  return { messages: chat.messages, seen };
}

// everywhere cuts at each byte of a short response, and around the end of each event of a long one.
async function everywhere(id, messages, send) {
  const whole = await play(id, messages, send); // it may have other pieces than those that follow: an answer in progress is sent as it is written
  const again = await play(id, messages, send);
  assert.deepEqual(again.messages, whole.messages);
  const { bytes, ends } = again.seen;
  const around = ends.flatMap((end) => [end - 2, end - 1, end, end + 1]);
  const cuts = bytes <= 600 ? Array.from({ length: bytes + 1 }, (_, i) => i) : around.filter((at) => at <= bytes);
  let requests = 0;
  const worker = async () => {
    for (let at = cuts.shift(); at !== undefined; at = cuts.shift()) {
      const { messages: got, seen } = await play(id, messages, send, at);
      assert.deepEqual(got, whole.messages, `cut after ${at} of ${bytes} bytes: ${seen.requests}`);
      requests += seen.requests.length;
    }
  };
  const count = cuts.length;
  await Promise.all(Array.from({ length: 40 }, worker));
  assert.ok(requests > 1.5 * count, `${requests} requests for ${count} cuts`);
  console.log(`${id}: ${count} cuts of ${bytes} bytes, ${requests} requests`);
  return whole.messages;
}

const say = (text) => (chat) => chat.sendMessage({ id: `${chat.id}-1`, role: 'user', parts: [{ type: 'text', text }] });
const [hello, story, order, clock] = chats;

await everywhere(hello, [], say('Hello'));
await everywhere(story, [], say('tell me'));

// The answer to a call continues its message, with the new parts only.
const asked = (await play(order, [], say('delete them'))).messages;
await everywhere(order, asked, async (chat) => {
  const call = chat.lastMessage.parts.find((part) => part.state === 'approval-requested');
  await chat.addToolApprovalResponse({ id: call.approval.id, approved: true });
  assert.ok(lastAssistantMessageIsCompleteWithApprovalResponses(chat));
  await chat.sendMessage();
});
const called = (await play(clock, [], say('where am I?'))).messages;
await everywhere(clock, called, async (chat) => {
  const call = chat.lastMessage.parts.find((part) => part.state === 'input-available');
  await chat.addToolOutput({ tool: call.toolName, toolCallId: call.toolCallId, output: 'Europe/Zurich' });
  assert.ok(lastAssistantMessageIsCompleteWithToolCalls(chat));
  await chat.sendMessage();
});
