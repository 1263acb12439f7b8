// A model with fixed answers, so that the example and its tests need no provider. A keyword in the message selects the answer:
//
//   tell   a long answer in two steps, with a tool of the route between them
//   where  a tool that the browser runs
//   delete a tool that a user must approve
//   fail   an answer that fails in the middle
//
// Any other message is repeated.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { MockLanguageModelV3 } from 'ai/test';

const pace = Number(process.env.PACE ?? 40); // milliseconds before each word
const hold = process.env.HOLD; // directory; an answer stops in the middle until a file is there that is named after its chat

const usage = {
  inputTokens: { total: 20, noCache: 20, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 10, text: 10, reasoning: undefined },
};
const sentences = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => `This is sentence ${from + i}. `).join('');
const call = (toolCallId, toolName, input) => ({ type: 'tool-call', toolCallId, toolName, input: JSON.stringify(input) });
const textOf = (message) => message.content.filter((p) => p.type === 'text').map((p) => p.text).join('');

let answers = 0;

// reply yields texts and calls, and waits where the script does.
async function* reply(prompt, wait) {
  const last = prompt.at(-1);
  const question = textOf(prompt.findLast((m) => m.role === 'user'));
  const outcome = last.role === 'tool' ? last.content.find((p) => p.type === 'tool-result')?.output : undefined;
  if (question.includes('tell')) {
    if (!outcome) {
      yield sentences(1, 10);
      yield call(`page-${++answers}`, 'turn_page', { to: 2 });
      return;
    }
    yield sentences(11, 15);
    await wait();
    yield sentences(16, 25);
  } else if (question.includes('where')) {
    if (outcome) {
      yield `Your clock says ${JSON.stringify(outcome.value)}.`;
      return;
    }
    yield 'Let me ask your browser. ';
    yield call('where', 'page_time_zone', {});
  } else if (question.includes('delete')) {
    if (!outcome) {
      yield 'That needs your permission. ';
      yield call('delete', 'delete_files', { files: 3 });
      return;
    }
    if (outcome.type === 'execution-denied' || outcome.type === 'error-text') {
      yield 'The files stay where they are.';
      return;
    }
    if (question.includes('slowly')) await wait();
    yield 'The files are gone.';
  } else if (question.includes('fail')) {
    yield 'I begin, and then ';
    throw new Error('The model is on strike.');
  } else {
    yield `You said: ${question}. This is answer ${process.pid}-${++answers}.`;
  }
}

async function* parts(prompt, wait, signal) {
  yield { type: 'stream-start', warnings: [] };
  let calls = 0, texts = 0;
  try {
    for await (const piece of reply(prompt, wait)) {
      if (typeof piece !== 'string') {
        calls++;
        const { toolCallId: id, toolName, input } = piece;
        yield { type: 'tool-input-start', id, toolName };
        for (const delta of input.match(/.{1,4}/g)) yield { type: 'tool-input-delta', id, delta };
        yield { type: 'tool-input-end', id };
        yield piece;
        continue;
      }
      const id = `t${++texts}`;
      yield { type: 'text-start', id };
      for (const delta of piece.split(/(?<= )/)) {
        await sleep(pace, undefined, { signal });
        yield { type: 'text-delta', id, delta };
      }
      yield { type: 'text-end', id };
    }
  } catch (error) {
    if (signal?.aborted) throw error;
    yield { type: 'error', error };
    return;
  }
  yield { type: 'finish', usage, finishReason: { unified: calls ? 'tool-calls' : 'stop', raw: undefined } };
}

export function scriptedModel(chat) {
  return new MockLanguageModelV3({
    doStream: async ({ prompt, abortSignal }) => {
      const wait = async () => {
        while (hold && !existsSync(join(hold, encodeURIComponent(chat)))) await sleep(10, undefined, { signal: abortSignal });
      };
      return { stream: ReadableStream.from(parts(prompt, wait, abortSignal)) };
    },
  });
}
