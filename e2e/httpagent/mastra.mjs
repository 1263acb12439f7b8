// An agent of @mastra/core, behind the route that a Mastra server has for it: node mastra.mjs
import { createServer } from 'node:http';
import { Agent } from '@mastra/core/agent';
import { createTool } from '@mastra/core/tools';
import { MockLanguageModelV3 } from 'ai/test';
import { z } from 'zod';

const usage = { inputTokens: { total: 20, noCache: 20 }, outputTokens: { total: 10, text: 10 } };
const say = (text, unified = 'stop') => [
  { type: 'text-start', id: 't' }, { type: 'text-delta', id: 't', delta: text }, { type: 'text-end', id: 't' }, { type: 'finish', usage, finishReason: { unified } },
];
const call = (toolName, input) => [
  { type: 'tool-call', toolCallId: `call-${toolName}`, toolName, input: JSON.stringify(input) }, { type: 'finish', usage, finishReason: { unified: 'tool-calls' } },
];

function answer(prompt) {
  const last = prompt.at(-1);
  if (last.role === 'tool') return say(`It is ${JSON.stringify(last.content[0].output.value)}.`);
  const question = last.content.map((p) => p.text).join('');
  if (question.includes('warm')) return call('weather', { city: 'Bern' });
  if (question.includes('where')) return call('location', {});
  return say(`You have asked ${prompt.filter((m) => m.role === 'user').length} times.`);
}

const agent = new Agent({
  id: 'helper', name: 'helper', instructions: 'Help.',
  model: new MockLanguageModelV3({ doStream: async ({ prompt }) => ({ stream: ReadableStream.from([{ type: 'stream-start', warnings: [] }, ...answer(prompt)]) }) }),
  tools: {
    weather: createTool({ id: 'weather', description: 'The weather.', inputSchema: z.object({ city: z.string() }), execute: async () => ({ degrees: 7 }) }),
    location: createTool({ id: 'location', description: 'Where the user is.', inputSchema: z.object({}) }), // runs in the browser
  },
});

const server = createServer(async (req, res) => {
  if (req.method !== 'POST' || req.url !== '/api/agents/helper/stream') {
    res.writeHead(404).end();
    return;
  }
  try {
    const { messages, ...options } = JSON.parse(Buffer.concat(await Array.fromAsync(req)).toString());
    const output = await agent.stream(messages, options);
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    for await (const chunk of output.fullStream) res.write(`data: ${JSON.stringify(chunk)}\n\n`);
    res.end('data: [DONE]\n\n');
  } catch (error) {
    console.error(error);
    res.destroy();
  }
});
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/api/agents/helper/stream`));
