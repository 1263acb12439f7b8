// An agent of @mastra/core, behind the routes that @mastra/server has for it: node mastra.mjs
import { createServer } from 'node:http';
import { Agent } from '@mastra/core/agent';
import { Mastra } from '@mastra/core/mastra';
import { RequestContext } from '@mastra/core/request-context';
import { InMemoryStore } from '@mastra/core/storage';
import { createTool } from '@mastra/core/tools';
import { APPROVE_TOOL_CALL_ROUTE, DECLINE_TOOL_CALL_ROUTE, RESUME_STREAM_ROUTE, STREAM_GENERATE_ROUTE } from '@mastra/server/handlers/agents';
import { MockLanguageModelV3 } from 'ai/test';
import { z } from 'zod';

const usage = { inputTokens: { total: 20, noCache: 20 }, outputTokens: { total: 10, text: 10 } };
const say = (text, unified = 'stop') => [
  { type: 'text-start', id: 't' }, { type: 'text-delta', id: 't', delta: text }, { type: 'text-end', id: 't' }, { type: 'finish', usage, finishReason: { unified } },
];
const call = (toolName, input) => [
  { type: 'tool-call', toolCallId: `call-${toolName}`, toolName, input: JSON.stringify(input) }, { type: 'finish', usage, finishReason: { unified: 'tool-calls' } },
];

let deletions = 0;

function answer(prompt) {
  const last = prompt.at(-1);
  if (last.role === 'tool') return say(`It is ${JSON.stringify(last.content[0].output.value)}.`);
  const question = last.content.map((p) => p.text).join('');
  if (question.includes('warm')) return call('weather', { city: 'Bern' });
  if (question.includes('where')) return call('location', {});
  if (question.includes('delete')) return call('remove', { files: 3 });
  if (question.includes('colour')) return call('ask', {});
  if (question.includes('count')) return say(`Deleted ${deletions} times.`);
  return say(`You have asked ${prompt.filter((m) => m.role === 'user').length} times.`);
}

const agent = new Agent({
  id: 'helper', name: 'helper', instructions: 'Help.',
  model: new MockLanguageModelV3({ doStream: async ({ prompt }) => ({ stream: ReadableStream.from([{ type: 'stream-start', warnings: [] }, ...answer(prompt)]) }) }),
  tools: {
    weather: createTool({ id: 'weather', description: 'The weather.', inputSchema: z.object({ city: z.string() }), execute: async () => ({ degrees: 7 }) }),
    location: createTool({ id: 'location', description: 'Where the user is.', inputSchema: z.object({}) }), // runs in the browser
    remove: createTool({
      id: 'remove', description: 'Deletes files.', inputSchema: z.object({ files: z.number() }), requireApproval: true,
      execute: async () => ({ deletions: ++deletions }),
    }),
    ask: createTool({ // waits for an answer
      id: 'ask', description: 'Asks.', inputSchema: z.object({}), suspendSchema: z.any(), resumeSchema: z.any(),
      execute: async (_, context) => {
        const { resumeData, suspend } = context.agent ?? context;
        return resumeData === undefined ? suspend({ question: 'Which colour?' }) : { colour: resumeData };
      },
    }),
  },
});
const mastra = new Mastra({ agents: { helper: agent }, storage: new InMemoryStore(), logger: false });
const routes = {
  '/api/agents/helper/stream': STREAM_GENERATE_ROUTE,
  '/api/agents/helper/approve-tool-call': APPROVE_TOOL_CALL_ROUTE,
  '/api/agents/helper/decline-tool-call': DECLINE_TOOL_CALL_ROUTE,
  '/api/agents/helper/resume-stream': RESUME_STREAM_ROUTE,
};

const server = createServer(async (req, res) => {
  const route = routes[req.url];
  if (req.method !== 'POST' || route === undefined) {
    res.writeHead(404).end();
    return;
  }
  try {
    const body = route.bodySchema.parse(JSON.parse(Buffer.concat(await Array.fromAsync(req)).toString()));
    const stream = await route.handler({ mastra, agentId: 'helper', requestContext: new RequestContext(), abortSignal: new AbortController().signal, ...body });
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    for await (const chunk of stream) res.write(`data: ${JSON.stringify(chunk)}\n\n`);
    res.end('data: [DONE]\n\n');
  } catch (error) {
    console.error(error);
    res.destroy();
  }
});
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/api/agents/helper/stream`));
