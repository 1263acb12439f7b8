// The judge: the real packages say what they make of bytes. One process per
// major version, one JSON object a line:
//
//   node judge.mjs <directory with node_modules and sdk.mjs>
//
//   {"id":1,"op":"fold","body":B64,"base":M?,"want":M?}   a response folded into a message
//   {"id":2,"op":"check","messages":[M]}                  are these messages of the SDK?
//   {"id":3,"op":"open","chat":K,...}                     a Chat, see open
//   {"id":4,"op":"act","chat":K,"do":"send",...}          what an app calls, to its end
//   {"id":5,"op":"until","chat":K,"status":S?,"text":T?}  wait for it
//   {"id":6,"op":"close","chat":K}
//
// Answers carry the id; "fault" in one is a fault of the asking, not a verdict.
import { createInterface } from 'node:readline';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const sdk = await import(pathToFileURL(join(resolve(process.argv[2]), 'sdk.mjs')));

const transport = new sdk.DefaultChatTransport();
const chats = new Map();
const ops = { fold, check, open, act, until, close };

createInterface({ input: process.stdin }).on('line', async line => {
  const { id, op, ...request } = JSON.parse(line);
  let answer;
  try {
    answer = await ops[op](request);
  } catch (err) {
    answer = { fault: `${op}: ${err.stack}` };
  }
  process.stdout.write(JSON.stringify({ id, ...answer }) + '\n');
});

// fold parses a whole body as the transport does, and builds the message in it
// onto base. difference says where that is not what is wanted.
async function fold({ body, base, want }) {
  const chunks = [];
  const errors = [];
  let message = null;
  const stream = transport.processResponseStream(bytes(body)).pipeThrough(
    new TransformStream({
      transform(chunk, controller) {
        chunks.push(chunk.type);
        controller.enqueue(chunk);
      },
    }),
  );
  const onError = err => errors.push(says(err));
  try {
    for await (const m of sdk.readUIMessageStream({ message: base, stream, onError, terminateOnError: true })) {
      message = m;
    }
  } catch (err) {
    if (errors.length === 0) errors.push(says(err));
  }
  return { chunks, errors, message, difference: want === undefined ? '' : difference(message, want) };
}

// check is the SDK's strict look at a history.
async function check({ messages }) {
  try {
    await sdk.validateUIMessages({ messages });
    return { errors: [] };
  } catch (err) {
    return { errors: [says(err)] };
  }
}

// open makes a Chat with the messages given. Its requests go to api, or get the
// answers one by one; who asks for more gets an error. With hook the transport
// is wrapped as useChat of 6.x wraps it, with auto the stock predicate posts
// what was answered.
function open({ chat: key, id = key, messages, api, answers = [], hook = false, auto, cursor = false }) {
  const log = { requests: [], finishes: [], errors: [], data: [], toolCalls: [], sequence: null };
  const direct = new sdk.DefaultChatTransport({
    api,
    fetch: (url, init) => {
      const headers = new Headers(init.headers);
      if (cursor && init.method === 'GET' && log.sequence !== null) headers.set('x-resume-from-sequence', log.sequence);
      log.requests.push({ method: init.method, url, headers: Object.fromEntries(headers), body: init.body && JSON.parse(init.body) });
      if (api === undefined) return answer(answers.shift());
      return fetch(url, { ...init, headers }).then(response => watchIDs(response, log));
    },
  });
  const wrapped = {
    sendMessages: options => direct.sendMessages(options),
    reconnectToStream: options => direct.reconnectToStream(options),
  };
  let count = 0;
  const chat = new sdk.Chat({
    id,
    messages,
    transport: hook ? wrapped : direct,
    generateId: () => `${key}-${++count}`,
    sendAutomaticallyWhen: {
      tools: sdk.lastAssistantMessageIsCompleteWithToolCalls,
      approvals: sdk.lastAssistantMessageIsCompleteWithApprovalResponses,
    }[auto],
    onError: err => log.errors.push(says(err)),
    onData: part => log.data.push(part),
    onToolCall: ({ toolCall }) => void log.toolCalls.push(toolCall.toolCallId),
    onFinish: ({ message, isAbort, isDisconnect, isError, finishReason }) =>
      log.finishes.push({ id: message.id, isAbort, isDisconnect, isError, finishReason }),
  });
  chats.set(key, { chat, log });
  return state(key);
}

// act calls one method of the Chat and waits until it and what it started, such
// as an automatic POST, are through.
async function act({ chat: key, do: what, args, wait = true }) {
  const { chat, log } = find(key);
  const methods = {
    send: 'sendMessage',
    resume: 'resumeStream',
    regenerate: 'regenerate',
    approve: 'addToolApprovalResponse',
    output: 'addToolOutput',
    stop: 'stop',
  };
  const done = chat[methods[what]](...(args ?? [])).catch(err => log.errors.push(says(err)));
  if (wait) {
    await done;
    await settled(chat);
  }
  return state(key);
}

// until waits for a status, or for a text in the last message, or for both.
async function until({ chat: key, status, text, requests = 0, seconds = 20 }) {
  const { chat, log } = find(key);
  const there = () =>
    (status === undefined || chat.status === status) &&
    (text === undefined || JSON.stringify(chat.messages.at(-1) ?? null).includes(text)) &&
    log.requests.length >= requests;
  for (const end = Date.now() + seconds * 1000; !there(); ) {
    if (Date.now() > end) {
      throw new Error(`after ${seconds} s not ${status} ${text} ${requests}: ${JSON.stringify(state(key))}`);
    }
    await new Promise(wake => setTimeout(wake, 5));
  }
  return state(key);
}

async function close({ chat: key }) {
  await find(key).chat.stop();
  chats.delete(key);
  return {};
}

function find(key) {
  const found = chats.get(key);
  if (found === undefined) throw new Error(`no chat ${key}`);
  return found;
}

function state(key) {
  const { chat, log } = find(key);
  return { status: chat.status, messages: chat.messages, error: chat.error && says(chat.error), ...log };
}

// settled waits until the Chat rests. An automatic request starts a few turns
// of the event loop after the call that caused it.
async function settled(chat) {
  for (let quiet = 0; quiet < 5; quiet++) {
    await new Promise(wake => setTimeout(wake, 0));
    if (chat.status === 'submitted' || chat.status === 'streaming') quiet = 0;
  }
}

// answer is a response of no server: {"status":200,"body":B64,"cut":bool}. One
// that is cut breaks like a lost connection.
async function answer(a) {
  if (a === undefined) throw new Error('one request too many');
  const { status = 200, body = '', cut = false } = a;
  return status === 204 ? new Response(null, { status }) : new Response(bytes(body, cut), { status });
}

function bytes(base64, cut = false) {
  const whole = Buffer.from(base64, 'base64');
  let sent = false;
  return new ReadableStream({
    async pull(controller) {
      if (!sent && whole.length > 0) {
        sent = true;
        controller.enqueue(new Uint8Array(whole));
      } else if (cut) {
        // An error overtakes what is still on its way through the streams.
        await new Promise(wake => setTimeout(wake, 20));
        controller.error(new TypeError('network error'));
      } else {
        controller.close();
      }
    },
  });
}

// watchIDs reads the id lines of a response as they go by: the fetch wrapper
// that an app needs to resume with a cursor.
function watchIDs(response, log) {
  if (response.body === null || !response.ok) return response;
  const decoder = new TextDecoder();
  let rest = '';
  const watched = response.body.pipeThrough(
    new TransformStream({
      transform(piece, controller) {
        const lines = (rest + decoder.decode(piece, { stream: true })).split('\n');
        rest = lines.pop();
        for (const line of lines) if (line.startsWith('id:')) log.sequence = line.slice(3).trim();
        controller.enqueue(piece);
      },
    }),
  );
  return new Response(watched, { status: response.status, headers: response.headers });
}

function says(err) {
  return `${err?.name ?? typeof err}: ${err?.message ?? err}`;
}

// difference is the path of the first place where two JSON values differ, "" if
// none does. A member that is undefined is not there.
function difference(got, want, path = '$') {
  if (typeof got === 'object' && got !== null && typeof want === 'object' && want !== null && Array.isArray(got) === Array.isArray(want)) {
    const names = new Set([...Object.keys(want), ...Object.keys(got)]);
    for (const name of names) {
      const place = difference(own(got, name), own(want, name), `${path}.${name}`);
      if (place !== '') return place;
    }
    return '';
  }
  return Object.is(got, want) ? '' : `${path}: ${shown(got)}, want ${shown(want)}`;
}

function own(object, name) {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

function shown(value) {
  const text = JSON.stringify(value) ?? 'nothing';
  return text.length > 200 ? text.slice(0, 200) + '…' : text;
}
