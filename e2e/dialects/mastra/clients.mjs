// Runs the clients of Mastra, @mastra/client-js and @mastra/ai-sdk with ai, for the tests of this directory. One line of JSON on standard input is one request,
// one line on standard output its answer:
//
//   {"op":"stream","bodies":[B64],"tools":["page_where"]}  agent.stream: the chunks that the application gets, the runs of client tools, the requests
//   {"op":"message","body":B64}                            the message that the client assembles from a response
//   {"op":"ui","responses":[[chunk]],"from":"agent"}       the message of the AI SDK after the responses. It continues the last of the messages of a thread, "page"
//   {"op":"workflow","body":B64}                           run.stream: the chunks that the application gets
//   {"op":"stored","body":B64,"page":[M]}                  thread.listMessages: the messages of the AI SDK made of them (messages), and those that Mastra
//                                                          itself stores of the messages of a page (wanted)
//
// "fault" reports an invalid request, "logged" what the packages log as an error.
import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(pathToFileURL(process.argv[2] + '/'));
const load = name => import(pathToFileURL(require.resolve(name)));
const [{ MastraClient }, { toAISdkStream }, { readUIMessageStream }, { toAISdkMessages }, { MessageList }] = await Promise.all(
  ['@mastra/client-js', '@mastra/ai-sdk', 'ai', '@mastra/ai-sdk/ui', '@mastra/core/agent/message-list'].map(load),
);

let logged = [];
console.error = console.warn = (...args) => logged.push(args.map(String).join(' '));

function response(body) {
  return new Response(Buffer.from(body, 'base64'), { headers: { 'content-type': 'text/event-stream' } });
}

// client is a client whose requests get the bodies one by one.
function client(bodies, requests = []) {
  return new MastraClient({
    baseUrl: 'http://mastra.test',
    retries: 0,
    fetch: async (url, init) => {
      requests.push({ url: String(url), body: init.body && JSON.parse(init.body) });
      if (bodies.length === 0) throw new Error('one request too many');
      return response(bodies.shift());
    },
  });
}

async function stream({ bodies, tools = [] }) {
  const requests = [];
  const executed = [];
  const clientTools = Object.fromEntries(
    tools.map(name => [
      name,
      {
        id: name,
        description: name,
        inputSchema: { type: 'object', properties: {} },
        execute: async input => {
          executed.push({ name, input });
          return 'here';
        },
      },
    ]),
  );
  const answer = await client([...bodies], requests).getAgent('a').stream([{ role: 'user', content: 'Hi' }], { clientTools });
  const chunks = [];
  await answer.processDataStream({ onChunk: async chunk => void chunks.push(chunk) });
  return { chunks, executed, requests };
}

async function message({ body }) {
  let message;
  let finish;
  await client([]).getAgent('a').processChatResponse_vNext({
    stream: response(body).body,
    update: u => (message = u.message),
    onFinish: ({ finishReason }) => (finish = finishReason),
  });
  return { message, finish };
}

async function ui({ page, responses, from = 'agent' }) {
  let message = page && toAISdkMessages(page, { version: 'v6' }).at(-1);
  const errors = [];
  for (const chunks of responses) {
    const source = new ReadableStream({
      start(controller) {
        for (const chunk of chunks) controller.enqueue(chunk);
        controller.close();
      },
    });
    const events = toAISdkStream(source, { from, version: 'v6', sendReasoning: true, sendSources: true, includeSubAgentMetadata: true });
    try {
      for await (const m of readUIMessageStream({ message, stream: events, onError: e => errors.push(String(e)), terminateOnError: false })) message = m;
    } catch (e) {
      errors.push(String(e));
    }
  }
  return { message, errors };
}

async function workflow({ body }) {
  const run = await client([Buffer.from('{"runId":"r1"}').toString('base64'), body]).getWorkflow('w').createRun();
  const chunks = [];
  for await (const chunk of await run.stream({ inputData: {} })) chunks.push(chunk);
  return { chunks };
}

async function stored({ body, page }) {
  const { messages } = await client([body]).getMemoryThread({ threadId: 's1', agentId: 'a' }).listMessages();
  const wanted = new MessageList().add(page, 'memory').get.all.db();
  return { stored: messages, wanted, messages: toAISdkMessages(messages, { version: 'v6' }) };
}

const ops = { stream, message, ui, workflow, stored };

for await (const line of createInterface({ input: process.stdin })) {
  const { op, ...request } = JSON.parse(line);
  logged = [];
  let answer;
  try {
    answer = await ops[op](request);
  } catch (e) {
    answer = { fault: `${op}: ${e.stack}` };
  }
  process.stdout.write(JSON.stringify({ logged, ...answer }) + '\n');
}
