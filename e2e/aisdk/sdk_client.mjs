// Runs the AI SDK packages on bytes and requests of the tests. One process per major
// version, one JSON object per line:
//
//   node sdk_client.mjs <directory with node_modules and sdk.mjs>
//
//   {"id":1,"op":"fold","body":B64,"want":M?,...}         fold a response into a message
//   {"id":2,"op":"check","messages":[M]}                  validate messages with the SDK
//   {"id":3,"op":"open","chat":K,...}                     create a Chat, see open
//   {"id":4,"op":"act","chat":K,"do":"send",...}          call a method as an app does,
//   and wait
//   {"id":5,"op":"until","chat":K,"status":S?,"text":T?}  wait for a state
//   {"id":6,"op":"compare","chat":K,"messages":[M],...}   compare with the messages of the
//   Chat
//   {"id":7,"op":"close","chat":K}
//
// Responses carry the id; "fault" reports an invalid request, not a result of the SDK.
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

// fold parses a complete body as the transport does, and builds its message.
// earlier are the previous responses of a continued message, each with the
// user's answers to it. difference is the first difference from the wanted
// message.
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
  const onError = err => errors.push(errorText(err));
  try {
    for await (const m of sdk.readUIMessageStream({ message: base, stream, onError, terminateOnError: true })) {
      message = m;
    }
  } catch (err) {
    if (errors.length === 0) errors.push(errorText(err));
  }
  return { chunks, errors, message };
}

// apply applies an answer of the user to a message, as the Chat does.
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

// check runs the SDK's strict validation of a history.
async function check({ messages }) {
  try {
    await sdk.validateUIMessages({ messages });
    return { errors: [] };
  } catch (err) {
    return { errors: [errorText(err).split('\nError message')[0].split(': Value')[0]] };
  }
}

// open creates a Chat with the given messages. Its requests are sent to api, or
// get the answers one by one; further requests fail. With hook the transport is
// wrapped as useChat of 6.x wraps it; with auto the stock predicates post the
// user's answers. With a cursor a resume sends the id of the last event, or the
// cursor itself before the first event. breaks are texts after which a response
// is cut, the first text in the first response and so on.
function open({ chat: key, chatId = key, messages, api, answers = [], hook = false, auto = false, cursor, breaks = [] }) {
  const log = { requests: [], finishes: [], errors: [], data: [], toolCalls: [], sequence: cursor, api };
  const news = new EventTarget();
  const direct = new sdk.DefaultChatTransport({
    api,
    fetch: (url, init) => {
      const headers = new Headers(init.headers);
      if (cursor !== undefined && init.method === 'GET') headers.set('x-resume-from-sequence', log.sequence);
      log.requests.push({ method: init.method, url, headers: Object.fromEntries(headers), body: init.body && JSON.parse(init.body) });
      notify(news);
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
    onError: err => log.errors.push(errorText(err)),
    onData: part => {
      log.data.push(part);
      notify(news);
    },
    onToolCall: ({ toolCall }) => void log.toolCalls.push(toolCall.toolCallId),
    onFinish: ({ message, isAbort, isDisconnect, isError, finishReason }) =>
      log.finishes.push({ id: message.id, isAbort, isDisconnect, isError, finishReason }),
  });
  // The callbacks that useChat registers.
  chat['~registerMessagesCallback'](() => notify(news));
  chat['~registerStatusCallback'](() => notify(news));
  chats.set(key, { chat, log, news });
  return state(key);
}

function notify(news) {
  news.dispatchEvent(new Event('news'));
}

// when waits until a condition of a Chat is true, for a number of seconds or
// indefinitely, and returns whether it is. It checks after each event of the
// Chat, between two tasks: by then the Chat has done its own reaction to the
// event, such as an automatic POST when it becomes ready.
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

// act calls one method of the Chat and waits until it and the requests it
// started, such as an automatic POST, have completed.
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
  if (what === 'move') log.api = args[0]; // to another edge
  const done = methods[what] === undefined ? Promise.resolve() : chat[methods[what]](...(args ?? [])).catch(err => log.errors.push(errorText(err)));
  if (what === 'look') return state(key);
  if (wait) {
    // The Chat does not wait for the POST that an answer causes: when the call
    // returns, the POST is in flight or will not be sent.
    let returned = false;
    done.finally(() => {
      returned = true;
      notify(news);
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
  return { status: chat.status, messages: chat.messages, error: chat.error && errorText(chat.error), ...log };
}

// enough is the number of requests of one Chat that counts as an endless loop.
const enough = 25;

// answer returns a response without a server:
// {"status":200,"body":B64,"cut":bool}. With cut it fails like a lost
// connection.
async function answer(a) {
  if (a === undefined) throw new Error('unexpected request');
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
        await drained();
        controller.error(new TypeError('network error'));
      } else {
        controller.close();
      }
    },
  });
}

// drained waits until the written data has passed the streams of the SDK,
// because an error would discard it. They are chains of promises, so that the
// data has passed one task later. No package reports this.
function drained() {
  return new Promise(setImmediate);
}

// watched reads the id lines of a response as they arrive, like the fetch wrapper
// that an app needs to resume with a cursor. After a text it breaks the
// connection. A broken connection fails as in a browser; Node has another error
// message.
function watched(response, log, text) {
  if (response.body === null || !response.ok) return response;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  let all = '';
  const body = new ReadableStream({
    async pull(controller) {
      if (text && all.includes(text)) {
        await drained();
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

// compare returns the first difference between the messages of a Chat and the
// wanted ones. User messages have ids of the page until it is reloaded.
function compare({ chat: key, messages, portable }) {
  const own = m => (m.role === 'user' ? m.parts.map(({ type, text, url }) => ({ type, text, url })) : comparable(m, portable));
  return { difference: difference(find(key).chat.messages.map(own), messages.map(own)) };
}

function errorText(err) {
  return `${err?.name ?? typeof err}: ${err?.message ?? err}`;
}

// comparable removes from a message what the stream cannot express or the
// snapshot does not keep, where it has no effect:
//   - the name of a file: the chunk has no field for it,
//   - the id of a block of reasoning, which only the builder uses,
//   - the input of a call that is still streaming: the builder guesses it from
//     the text so far, the snapshot has the text,
//   - in the portable dialect, which has no chunk for it, a decision about an
//     approval made elsewhere: until there is an outcome the call is still
//     requested, or, in a replay, is not,
//   - the approval request of a call that has an outcome without a decision,
//   - the start of an empty step.
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

// difference returns the path of the first difference between two JSON values,
// or "". An undefined member counts as absent.
function difference(got, want, path = '$') {
  if (typeof got === 'object' && got !== null && typeof want === 'object' && want !== null && Array.isArray(got) === Array.isArray(want)) {
    const names = new Set([...Object.keys(want), ...Object.keys(got)]);
    for (const name of names) {
      // The stream marks every call of the server as provider-executed; the
      // snapshot marks those that ended on the server and those that await an
      // approval.
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
