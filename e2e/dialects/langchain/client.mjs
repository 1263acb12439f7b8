// Runs @langchain/langgraph-sdk for the tests of this directory: threads.stream of the stock client. One line of JSON on standard input is one thread, the answer
// is one line: what the client has assembled.
//
//	{"url":"http://…","thread":"t1","turns":[{"say":"Hello","id":"m1"},{"answer":{"decisions":[{"type":"approve"}]}},{"cancel":true}],"cut":3}
//
// A thread without turns is followed as far as it has a terminal event. cut breaks each of the first responses with events after that number of events. watch
// opens another client of the thread before the turns, whose events are in the answer too. {"assemble":[…]} has events, the answer the messages that the assembler of the package makes of them.
import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(pathToFileURL(process.argv[2] + '/'));
const { Client, MessageAssembler } = await import(pathToFileURL(require.resolve('@langchain/langgraph-sdk').replace('index.cjs', 'index.js')));

let logged = [];
process.on('unhandledRejection', (e) => logged.push('unhandled: ' + (e?.stack ?? e)));
for (const level of ['warn', 'error', 'log', 'info', 'debug']) console[level] = (...args) => logged.push(args.map(String).join(' '));

// cutting returns a fetch that breaks the first responses with events.
function cutting(after, bodies) {
  let cuts = after > 0 ? 2 : 0;
  return async (url, init) => {
    const response = await fetch(url, init);
    if (!String(url).endsWith('/stream/events')) return response;
    bodies.push(JSON.parse(init.body));
    if (cuts-- <= 0) return response;
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    const encoder = new TextEncoder();
    let text = '';
    let seen = 0;
    const body = new ReadableStream({
      async pull(controller) {
        const { done, value } = await reader.read();
        if (done) return controller.close();
        text += decoder.decode(value, { stream: true });
        for (let end; (end = text.indexOf('\n\n') + 2) > 1; ) {
          const event = text.slice(0, end);
          text = text.slice(end);
          controller.enqueue(encoder.encode(event));
          if (event.includes('data:') && ++seen === after) {
            reader.cancel().catch(() => {});
            return controller.error(new TypeError('terminated'));
          }
        }
      },
      cancel: (reason) => reader.cancel(reason),
    });
    return new Response(body, { status: response.status, headers: response.headers });
  };
}

// follow returns a stream of a thread, and what it gets.
function follow(client, request, cut) {
  const got = { events: [], messages: [], calls: [], graphs: [], values: [], bodies: [] };
  const stream = client.threads.stream(request.thread, {
    assistantId: request.assistant ?? 'demo', fetch: cutting(cut, got.bodies), reconnectDelayMs: () => 1,
  });
  const waiting = new Set();
  stream.onEvent((e) => {
    got.events.push(plain(e)); // the client changes the messages of values
    for (const check of [...waiting]) check();
  });
  stream.onError((e) => {
    got.error = String(e);
    for (const check of [...waiting]) check();
  });
  // event resolves with the first event, after those that were there before, of which is is true.
  got.event = (from, is) =>
    inTime(new Promise((resolve, reject) => {
      const check = () => {
        const event = got.events.slice(from).find(is);
        if (!event && !got.error) return;
        waiting.delete(check);
        if (got.error) reject(new Error(got.error));
        else resolve(event);
      };
      waiting.add(check);
      check();
    }), () => 'no event after ' + JSON.stringify(got.events.slice(-3)));
  // until resolves when an event of the root graph ends a run.
  got.until = async (run, from) => {
    got.last = await got.event(from, (e) => e.method === 'lifecycle' && e.params.namespace.length === 0 && e.params.data.event !== 'running' && (!run || e.event_id.startsWith(`synth:${run}:`)));
    return got.last.params.data.event;
  };
  // complete resolves when all lists of the client have the events up to the end of the run. The client opens a response with all events for a list that begins late, such as that of a
  // sub-graph: that of one more subscription has them for all that were there before.
  got.complete = () =>
    inTime((async () => {
      for await (const e of await stream.subscribe({ channels: ['lifecycle'] })) if (e.event_id === got.last.event_id) break;
    })(), () => 'the lists have no end');
  got.stream = stream;
  return got;
}

const plain = (v) => JSON.parse(JSON.stringify(v ?? null));
const inTime = (p, problem) => Promise.race([p, new Promise((_, reject) => setTimeout(() => reject(new Error(problem())), 60_000).unref())]);

async function thread(request) {
  logged = [];
  const client = new Client({ apiUrl: request.url + '/api/langgraph', apiKey: null, callerOptions: { maxRetries: 0 }, defaultHeaders: request.headers });
  const watch = request.watch && follow(client, request, 0);
  const watching = watch && watch.stream.subscribe({ channels: ['lifecycle', 'messages', 'tools', 'input', 'custom'] });
  const got = follow(client, request, request.cut ?? 0);
  const { stream } = got;
  let close;
  const closed = new Promise((resolve) => (close = resolve));
  const within = (p) => Promise.race([p, closed]); // undefined for what the client has no end of
  const pending = [];
  const collect = async (list, items, each) => {
    for await (const item of items) {
      const entry = {};
      list.push(entry);
      pending.push(each(item, entry));
    }
  };
  const answer = { turns: [] };
  collect(got.graphs, stream.subgraphs, async (g, entry) => Object.assign(entry, { namespace: g.namespace, name: g.name, graph: g.graphName, cause: g.cause, tool: g.toolStartedEvent?.params.data.tool_call_id, output: plain(await within(g.output)) }));
  collect(got.messages, stream.messages, async (m, entry) => {
    Object.assign(entry, { id: m.id, namespace: m.namespace });
    await within(m.text);
    Object.assign(entry, { blocks: plain(m.blocks), usage: plain(m.assembled.usage), error: m.assembled.error });
  });
  collect(got.calls, stream.toolCalls, async (c, entry) => {
    Object.assign(entry, { id: c.callId, name: c.name, input: plain(c.input), namespace: c.namespace });
    try {
      entry.output = plain(await within(c.output));
    } catch (e) {
      entry.error = e.message;
    }
  });
  collect(got.values, stream.values, async (v, entry) => Object.assign(entry, { values: plain(v) }));
  try {
    if (!request.turns) answer.turns.push({ ends: await got.until(undefined, 0) });
    for (const turn of request.turns ?? []) {
      const from = got.events.length;
      const asked = [...stream.interrupts];
      const done = { asked: plain(asked) };
      answer.turns.push(done);
      if (turn.say !== undefined) {
        const input = { messages: [{ type: 'human', content: turn.say, id: turn.id }] };
        const { run_id } = await stream.run.start({ input, multitaskStrategy: turn.strategy });
        done.run = run_id;
        if (turn.cancel) {
          await got.event(from, (e) => JSON.stringify(e.params.data).includes(turn.cancel));
          await client.runs.cancel(request.thread, run_id);
        }
        done.ends = await got.until(run_id, 0);
        // A run that was interrupted and continues by itself.
        if (done.ends === 'interrupted' && !turn.cancel && stream.interrupts.length === 0) done.ends = await got.until(undefined, got.events.findLastIndex((e) => e.method === 'lifecycle' && e.params.data.event === 'interrupted') + 1);
      } else {
        const responses = asked.map((i) => ({ namespace: i.namespace, interrupt_id: i.interruptId, response: turn.answer }));
        await stream.input.respond(responses.length === 1 ? responses[0] : { responses });
        done.ends = await got.until(undefined, from);
      }
    }
    answer.interrupts = plain(stream.interrupts);
    if (watch) await watch.until(undefined, 0);
    answer.state = await client.threads.getState(request.thread);
    answer.history = await client.threads.getHistory(request.thread);
    answer.tree = (await stream.agent.getTree()).tree;
    answer.get = await stream.state.get({ namespace: [] });
    answer.checkpoints = (await stream.state.listCheckpoints({})).checkpoints;
    await got.complete();
  } catch (e) {
    answer.failed = e.message;
    answer.status = e.status;
  }
  const lasts = got.stream.ordering;
  await stream.close();
  await watching?.then((s) => s.unsubscribe());
  await watch?.stream.close();
  await new Promise(setImmediate); // the lists get what they have from the closed client, in promise jobs
  close();
  await Promise.all(pending);
  const { events, messages, calls, graphs, values, bodies, error } = got;
  return { ...answer, events, messages, calls, graphs, values: values.map((v) => v.values), bodies, error, ordering: lasts, watched: watch?.events, logged };
}

function assemble(events) {
  const assembler = new MessageAssembler();
  const messages = [];
  for (const event of events) {
    if (event.method !== 'messages') continue;
    const update = assembler.consume(event);
    if (update?.kind === 'message-start') messages.push(update.message);
  }
  return { messages };
}

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    const request = JSON.parse(line);
    answer = request.assemble ? assemble(request.assemble) : await thread(request);
  } catch (e) {
    answer = { fault: e.stack };
  }
  process.stdout.write(JSON.stringify(answer) + '\n');
}
