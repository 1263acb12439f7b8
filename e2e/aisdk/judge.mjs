// The judge: the real packages say what they make of bytes. One process per
// major version, one JSON object a line:
//
//   node judge.mjs <directory with node_modules and sdk.mjs>
//
//   {"id":1,"op":"fold","body":B64,"want":M?,...}         a response folded into a message
//   {"id":2,"op":"check","messages":[M]}                  are these messages of the SDK?
//   {"id":3,"op":"open","chat":K,...}                     a Chat, see open
//   {"id":4,"op":"act","chat":K,"do":"send",...}          what an app calls, to its end
//   {"id":5,"op":"until","chat":K,"status":S?,"text":T?}  wait for it
//   {"id":6,"op":"compare","chat":K,"messages":[M],...}   are those the Chat's own?
//   {"id":7,"op":"close","chat":K}
//
// Answers carry the id; "fault" in one is a fault of the asking, not a verdict.
import { createInterface } from 'node:readline';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const sdk = await import(pathToFileURL(join(resolve(process.argv[2]), 'sdk.mjs')));

const transport = new sdk.DefaultChatTransport();
const chats = new Map();
const ops = { fold, check, open, act, until, compare, close };

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

// fold parses a whole body as the transport does, and builds the message in it.
// In a message that was continued earlier are the responses before, each with
// what people answered then. difference says where the message is not the one
// that is wanted.
async function fold({ earlier, body, want, portable }) {
  let message;
  for (const response of earlier ?? []) {
    message = (await build(response.body, message)).message;
    for (const answer of response.answers ?? []) apply(answer, message);
  }
  const built = await build(body, message);
  return { ...built, difference: want === undefined ? '' : difference(comparable(built.message, portable), comparable(want, portable)) };
}

async function build(body, base) {
  const chunks = [];
  const errors = [];
  let message = base ?? null;
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
  return { chunks, errors, message };
}

// apply writes down in a message what a person answered, as the Chat does.
function apply({ toolCallId, approved, reason, output, errorText }, message) {
  const part = message.parts.find(p => p.toolCallId === toolCallId);
  if (approved !== undefined) {
    Object.assign(part, { state: 'approval-responded', approval: { ...part.approval, approved, reason } });
  } else if (errorText !== undefined) {
    Object.assign(part, { state: 'output-error', errorText });
  } else {
    Object.assign(part, { state: 'output-available', output });
  }
}

// check is the SDK's strict look at a history.
async function check({ messages }) {
  try {
    await sdk.validateUIMessages({ messages });
    return { errors: [] };
  } catch (err) {
    return { errors: [says(err).split('\nError message')[0].split(': Value')[0]] };
  }
}

// open makes a Chat with the messages given. Its requests go to api, or get the
// answers one by one; who asks for more gets an error. With hook the transport
// is wrapped as useChat of 6.x wraps it, with auto the stock predicates post what
// was answered. With a cursor a resume says which event was the last to come, the
// cursor itself before any. breaks are texts behind which a response is cut, the
// first in the first and so on.
function open({ chat: key, chatId = key, messages, api, answers = [], hook = false, auto = false, cursor, breaks = [] }) {
  const log = { requests: [], finishes: [], errors: [], data: [], toolCalls: [], sequence: cursor, api };
  const news = new EventTarget();
  const direct = new sdk.DefaultChatTransport({
    api,
    fetch: (url, init) => {
      const headers = new Headers(init.headers);
      if (cursor !== undefined && init.method === 'GET') headers.set('x-resume-from-sequence', log.sequence);
      log.requests.push({ method: init.method, url, headers: Object.fromEntries(headers), body: init.body && JSON.parse(init.body) });
      tell(news);
      if (api === undefined) return answer(answers.shift());
      return fetch(url.replace(api, log.api), { ...init, headers }).then(response => watched(response, log, breaks.shift()));
    },
  });
  const wrapped = {
    sendMessages: options => direct.sendMessages(options),
    reconnectToStream: options => direct.reconnectToStream(options),
  };
  let count = 0;
  const chat = new sdk.Chat({
    id: chatId,
    messages,
    transport: hook ? wrapped : direct,
    generateId: () => `${key}-${++count}`,
    sendAutomaticallyWhen: auto
      ? state => sdk.lastAssistantMessageIsCompleteWithToolCalls(state) || sdk.lastAssistantMessageIsCompleteWithApprovalResponses(state)
      : undefined,
    onError: err => log.errors.push(says(err)),
    onData: part => {
      log.data.push(part);
      tell(news);
    },
    onToolCall: ({ toolCall }) => void log.toolCalls.push(toolCall.toolCallId),
    onFinish: ({ message, isAbort, isDisconnect, isError, finishReason }) =>
      log.finishes.push({ id: message.id, isAbort, isDisconnect, isError, finishReason }),
  });
  // What useChat listens to.
  chat['~registerMessagesCallback'](() => tell(news));
  chat['~registerStatusCallback'](() => tell(news));
  chats.set(key, { chat, log, news });
  return state(key);
}

function tell(news) {
  news.dispatchEvent(new Event('news'));
}

// when waits until something is true of a Chat, for so many seconds or for ever,
// and says whether it is. It looks at each of the Chat's news, between two tasks:
// by then the Chat has done what it does by itself at such news, as to send an
// automatic POST as soon as it is ready.
async function when(news, there, seconds) {
  const { promise, resolve } = Promise.withResolvers();
  let due;
  const look = () => {
    due ??= setImmediate(() => {
      due = undefined;
      if (there()) resolve(true);
    });
  };
  const timer = seconds && setTimeout(resolve, seconds * 1000, false);
  news.addEventListener('news', look);
  look();
  try {
    return await promise;
  } finally {
    news.removeEventListener('news', look);
    clearImmediate(due);
    clearTimeout(timer);
  }
}

// act calls one method of the Chat and waits until it and what it started, such
// as an automatic POST, are through.
async function act({ chat: key, do: what, args, wait = true }) {
  const { chat, log, news } = find(key);
  const methods = {
    send: 'sendMessage',
    resume: 'resumeStream',
    regenerate: 'regenerate',
    approve: 'addToolApprovalResponse',
    output: 'addToolOutput',
    stop: 'stop',
  };
  if (what === 'move') log.api = args[0]; // from one edge to another
  const done = methods[what] === undefined ? Promise.resolve() : chat[methods[what]](...(args ?? [])).catch(err => log.errors.push(says(err)));
  if (what === 'look') return state(key);
  if (wait) {
    // The Chat does not wait for a POST that an answer has caused: it is under way,
    // or never will be, when the call is done.
    let returned = false;
    done.finally(() => {
      returned = true;
      tell(news);
    });
    const rests = () => returned && chat.status !== 'submitted' && chat.status !== 'streaming';
    await when(news, () => rests() || log.requests.length >= enough);
  }
  return state(key);
}

// until waits for all of: a status, a text in the last message, data of a type, a
// number of requests.
async function until({ chat: key, status, text, data, requests = 0, seconds = 20 }) {
  const { chat, log, news } = find(key);
  const there = () =>
    (status === undefined || chat.status === status) &&
    (text === undefined || JSON.stringify(chat.messages.at(-1) ?? null).includes(text)) &&
    (data === undefined || log.data.some(d => d.type === data)) &&
    log.requests.length >= requests;
  if (!(await when(news, there, seconds))) {
    throw new Error(`after ${seconds} s not ${status} ${text} ${data} ${requests}: ${JSON.stringify(state(key))}`);
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

// enough requests of one Chat are a loop that never ends.
const enough = 25;

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
        await passed();
        controller.error(new TypeError('network error'));
      } else {
        controller.close();
      }
    },
  });
}

// passed waits until what was said is through the streams of the SDK: an error
// would overtake it. They go from promise to promise, so that one task later
// nothing is on its way. No stock package tells.
function passed() {
  return new Promise(setImmediate);
}

// watched reads the id lines of a response as they go by: the fetch wrapper that
// an app needs to resume with a cursor. Behind a text it breaks the connection. A
// broken one fails as in a browser; Node has another word for it.
function watched(response, log, text) {
  if (response.body === null || !response.ok) return response;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  let all = '';
  const body = new ReadableStream({
    async pull(controller) {
      if (text && all.includes(text)) {
        await passed();
        await reader.cancel();
        controller.error(new TypeError('network error'));
        return;
      }
      const { done, value } = await reader.read().catch(err => {
        throw err.name === 'AbortError' ? err : new TypeError('network error', { cause: err });
      });
      if (done) {
        controller.close();
        return;
      }
      const more = decoder.decode(value, { stream: true });
      const lines = (rest + more).split('\n');
      rest = lines.pop();
      for (const line of lines) if (line.startsWith('id:')) log.sequence = line.slice(3).trim();
      all += more;
      controller.enqueue(value);
    },
    cancel: reason => reader.cancel(reason),
  });
  return new Response(body, { status: response.status, headers: response.headers });
}

// compare says where the messages of a Chat are not those that are wanted. What a
// person said has an id of the page until that is loaded anew.
function compare({ chat: key, messages, portable }) {
  const own = m => (m.role === 'user' ? m.parts.map(({ type, text, url }) => ({ type, text, url })) : comparable(m, portable));
  return { difference: difference(find(key).chat.messages.map(own), messages.map(own)) };
}

function says(err) {
  return `${err?.name ?? typeof err}: ${err?.message ?? err}`;
}

// comparable leaves out of a message what the stream cannot say or what the
// snapshot does not keep, and what is of no consequence while it is so:
//   - the name of a file: there is no field for it in the chunk,
//   - the id of a block of reasoning, which is of use to nobody but the builder,
//   - the input of a call that still streams: the builder guesses it from the
//     text so far, the snapshot has the text,
//   - in the portable dialect, which has no chunk for it, what was decided
//     elsewhere about an approval: until there is an outcome the call still asks,
//     or, in a replay, does not,
//   - the question about a call that has an outcome although nobody decided,
//   - the beginning of a step in which nothing is said.
function comparable(message, portable) {
  if (!message) return message;
  const parts = message.parts.at(-1)?.type === 'step-start' ? message.parts.slice(0, -1) : message.parts;
  return {
    ...message,
    parts: parts.map(part => ({
      ...part,
      ...(part.type === 'file' && { filename: undefined }),
      ...(part.type === 'reasoning' && { id: undefined }),
      ...(part.approval && part.approval.approved === undefined && part.state.startsWith('output-') && { approval: undefined }),
      ...(portable && { approval: undefined, state: part.state === 'approval-responded' ? undecided : part.state }),
      ...(part.state === 'input-streaming' && { input: undefined, rawInput: part.rawInput || undefined }),
    })),
  };
}

const undecided = 'approval-responded, or not yet';

// difference is the path of the first place where two JSON values differ, "" if
// none does. A member that is undefined is not there.
function difference(got, want, path = '$') {
  if (typeof got === 'object' && got !== null && typeof want === 'object' && want !== null && Array.isArray(got) === Array.isArray(want)) {
    const names = new Set([...Object.keys(want), ...Object.keys(got)]);
    for (const name of names) {
      // The stream says of every call of ours that it is ours; the snapshot of
      // those that ended in ours, and of those that people are asked about.
      if (name === 'providerExecuted' && want[name] === undefined) continue;
      const place = difference(own(got, name), own(want, name), `${path}.${name}`);
      if (place !== '') return place;
    }
    return '';
  }
  if (want === undecided && ['input-available', 'approval-requested', undecided].includes(got)) return '';
  return Object.is(got, want) ? '' : `${path}: ${shown(got)}, want ${shown(want)}`;
}

function own(object, name) {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

function shown(value) {
  const text = JSON.stringify(value) ?? 'nothing';
  return text.length > 200 ? text.slice(0, 200) + '…' : text;
}
