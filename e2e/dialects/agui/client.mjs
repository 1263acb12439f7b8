// Runs the client of AG-UI, @ag-ui/client, for the tests of this directory. One line of JSON on standard input is one thread: an agent with messages and a state,
// and calls of runAgent. The answer is one line: the messages and the state after them, the outcome of each call, and everything that the client logged. The
// client verifies the order and the schema of all events, and logs what it strips.
//
//	{"id":1,"url":"http://…","messages":[…],"state":{},"calls":[{"body":"data: …","cut":true,"say":"…","tools":[…],"results":[…],"resume":[…],"props":{…}}]}
//
// With "input" it is a RunAgentInput instead, which is checked with the schema of the protocol.
//
// A call with a body gets it as the response, and cut breaks the connection after it. Without a body it is a request to url.
import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(pathToFileURL(process.argv[2] + '/'));
const { RunAgentInputSchema } = await import(pathToFileURL(require.resolve('@ag-ui/core/schemas')));
const { HttpAgent } = await import(pathToFileURL(require.resolve('@ag-ui/client')));

// The client drops the events that it has received and not applied when a connection breaks: the cursor would be after them. An application that reconnects
// therefore ends the body, and calls runAgent again if neither RUN_FINISHED nor RUN_ERROR came.
//
// What follows the ids: the client ignores the id lines.
function endedWhenBroken(body, follow) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (done) controller.close();
        else {
          follow(decoder.decode(value, { stream: true }));
          controller.enqueue(value);
        }
      } catch {
        controller.close();
      }
    },
  });
}

let logged = [];
process.on('unhandledRejection', (e) => logged.push('unhandled: ' + e));

async function thread(request) {
  logged = [];
  for (const level of ['warn', 'error', 'log', 'info', 'debug']) {
    console[level] = (...args) => logged.push(args.map(String).join(' '));
  }
  if (request.input !== undefined) {
    const parsed = RunAgentInputSchema.strict().safeParse(request.input);
    return { messages: [], state: null, calls: [], logged: parsed.success ? [] : [parsed.error.message] };
  }
  let cursor = '';
  let call;
  let sent;
  let text = '';
  const follow = (piece) => {
    text += piece;
    for (const m of text.matchAll(/^id: (.*)\n(?:.+\n)*\n/gm)) cursor = m[1];
    text = text.slice(text.lastIndexOf('\n\n') + 1);
  };
  const agent = new HttpAgent({
    url: request.url ?? 'http://thread',
    threadId: request.threadId ?? 's1',
    initialMessages: request.messages ?? [],
    initialState: request.state ?? {},
    fetch: async (url, init) => {
      text = '';
      sent = { body: JSON.parse(init.body), accept: init.headers.Accept, method: init.method };
      if (call.body === undefined) {
        const response = await fetch(url, init);
        return new Response(endedWhenBroken(response.body, follow), { status: response.status, headers: response.headers });
      }
      const bytes = new TextEncoder().encode(call.body);
      const body = new ReadableStream({
        start(controller) {
          if (bytes.length > 0) controller.enqueue(bytes);
          if (!call.cut) controller.close();
        },
        pull(controller) {
          if (call.cut) controller.error(new Error('connection lost'));
        },
      });
      return new Response(endedWhenBroken(body, follow), { headers: { 'content-type': 'text/event-stream' } });
    },
  });
  const calls = [];
  for (call of request.calls) {
    let outcome = null;
    let failed = null;
    let error = null;
    let result = null;
    if (call.say !== undefined) agent.messages.push({ id: call.sayId ?? crypto.randomUUID(), role: 'user', content: call.say });
    for (const r of call.results ?? []) agent.messages.push({ id: crypto.randomUUID(), role: 'tool', ...r });
    if (call.props?.lastEventId === '$cursor') call.props.lastEventId = cursor;
    try {
      const done = await agent.runAgent(
        { tools: call.tools, resume: call.resume, forwardedProps: call.props },
        {
          onRunFinishedEvent: (e) => { outcome = { type: e.outcome, pendingToolCallIds: e.pendingToolCallIds }; },
          onRunErrorEvent: ({ event }) => { failed = event.message; },
        },
      );
      result = done.result ?? null;
    } catch (e) {
      error = String(e?.message ?? e);
    }
    calls.push({ error, outcome, failed, result, sent, interrupts: agent.pendingInterrupts });
    if (call.clear) agent.pendingInterrupts = [];
  }
  await new Promise((done) => setImmediate(done)); // rejections are reported before the answer
  return { messages: agent.messages, state: agent.state, calls, logged };
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  let answer;
  try {
    answer = await thread(request);
  } catch (e) {
    answer = { error: String(e?.stack ?? e) };
  }
  process.stdout.write(JSON.stringify({ id: request.id, ...answer }) + '\n');
}
