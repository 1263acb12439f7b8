// Runs the client of AG-UI, @ag-ui/client, for the tests of this directory. One line of JSON on standard input is one thread: an agent with messages and a state,
// and calls of runAgent. The answer is one line: the messages and the state after them, the outcome of each call, and everything that the client logged. The
// client verifies the order and the schema of all events, and logs what it strips.
//
//	{"url":"http://…","messages":[…],"state":{},"calls":[{"body":"data: …","cut":true,"say":"…","tools":[…],"results":[…],"resume":[…],"props":{…}}]}
//
// With "input" it is a RunAgentInput instead, which is checked with the schema of the protocol.
//
// A call with a body gets it as the response, and cut breaks the connection after it. Without a body it is a request to url: cutAfter breaks the connection after
// a number of ids, reconnect sends the last id as Last-Event-ID, abortAt aborts the request at an event, and stopAt stops the run at one.
import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(pathToFileURL(process.argv[2] + '/'));
const { RunAgentInputSchema } = await import(pathToFileURL(require.resolve('@ag-ui/core/schemas')));
const { HttpAgent } = await import(pathToFileURL(require.resolve('@ag-ui/client')));

// The client drops the events that it has received and not applied when a connection breaks, and reads an event that is cut: the cursor would not be that of what
// it has. An application that reconnects therefore passes whole events on and ends the body, and calls runAgent again if neither RUN_FINISHED nor RUN_ERROR came.
//
// onID gets the ids, which the client ignores. It returns true to cut the connection there.
function endedWhenBroken(body, onID) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const encoder = new TextEncoder();
  let text = '';
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (done) return controller.close();
        text += decoder.decode(value, { stream: true });
        for (let end; (end = text.indexOf('\n\n') + 2) > 1; ) {
          const event = text.slice(0, end);
          text = text.slice(end);
          controller.enqueue(encoder.encode(event));
          const id = /^id: (.*)$/m.exec(event);
          if (id && onID(id[1])) {
            controller.close();
            return reader.cancel();
          }
        }
      } catch (e) {
        if (e.name === 'AbortError') controller.error(e);
        else controller.close();
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
  let cursor = request.cursor ?? '';
  let call;
  let sent;
  let ids = 0;
  const onID = (id) => {
    cursor = id;
    return ++ids === call.cutAfter;
  };
  const agent = new HttpAgent({
    url: request.url ?? 'http://thread',
    threadId: request.threadId ?? 's1',
    initialMessages: request.messages ?? [],
    initialState: request.state ?? {},
    fetch: async (url, init) => {
      ids = 0;
      sent = { body: JSON.parse(init.body), accept: init.headers.Accept, method: init.method };
      if (call.body === undefined) {
        const response = await fetch(url, init);
        return new Response(endedWhenBroken(response.body, onID), { status: response.status, headers: response.headers });
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
      return new Response(endedWhenBroken(body, onID), { headers: { 'content-type': 'text/event-stream' } });
    },
  });
  const calls = [];
  for (call of request.calls) {
    const reconnects = call.reconnect || call.props?.lastEventId !== undefined;
    if (reconnects && (calls.at(-1)?.outcome || calls.at(-1)?.failed)) break; // the run is over
    let outcome = null;
    let failed = null;
    let error = null;
    let result = null;
    if (call.say !== undefined) agent.messages.push({ id: call.sayId ?? crypto.randomUUID(), role: 'user', content: call.say });
    for (const r of call.results ?? []) agent.messages.push({ id: crypto.randomUUID(), role: 'tool', ...r });
    for (const r of call.resume ?? []) if (r.interruptId === '$pending') r.interruptId = agent.pendingInterrupts[0].id;
    if (call.props?.lastEventId === '$cursor') call.props.lastEventId = cursor;
    agent.headers = call.reconnect ? { 'Last-Event-ID': cursor } : {};
    let stopped = null;
    try {
      const done = await agent.runAgent(
        { tools: call.tools, resume: call.resume, forwardedProps: call.props },
        {
          onRunFinishedEvent: (e) => { outcome = { type: e.outcome, pendingToolCallIds: e.pendingToolCallIds }; },
          onRunErrorEvent: ({ event }) => { failed = event.message; },
          onEvent: ({ event }) => {
            if (event.type === call.abortAt) agent.abortRun();
            if (event.type === call.stopAt) stopped ??= fetch(new URL(`/api/chat/${agent.threadId}/stop`, request.url), { method: 'POST' });
          },
        },
      );
      result = done.result ?? null;
    } catch (e) {
      error = String(e?.message ?? e);
    }
    if (stopped && (await stopped).status !== 202) error = `stop: ${(await stopped).status}`;
    calls.push({ error, outcome, failed, result, sent, interrupts: agent.pendingInterrupts });
    if (call.clear) agent.pendingInterrupts = [];
  }
  await new Promise((done) => setImmediate(done)); // rejections are reported before the answer
  return { messages: agent.messages, state: agent.state, cursor, calls, logged };
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  let answer;
  try {
    answer = await thread(request);
  } catch (e) {
    answer = { error: String(e?.stack ?? e) };
  }
  process.stdout.write(JSON.stringify(answer) + '\n');
}
