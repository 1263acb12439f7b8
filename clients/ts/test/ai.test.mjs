// The stock Chat and useChat of the AI SDK with the transport and the hook. The responses are those of an edge; e2e/chat has the same with edges.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Chat } from "@ai-sdk/react";
import { createElement, StrictMode } from "react";
import { act, create } from "react-test-renderer";
import { TailraceChatTransport, useTailraceChat } from "../dist/ai.js";
import { fakeEdge, wait } from "./fake_edge.mjs";

globalThis.IS_REACT_ACT_ENVIRONMENT = true;
process.on("warning", (warning) => assert.fail(warning)); // such as a leak of listeners

const url = "https://edge.test";
const event = (chunk, id) => `${id === undefined ? "" : `id: ${id}\n`}data: ${JSON.stringify(chunk)}\n\n`;
const begin = event({ type: "start", messageId: "msg-1" }) + event({ type: "start-step" }) + event({ type: "text-start", id: "t3" });
const delta = (text, id) => event({ type: "text-delta", id: "t3", delta: text }, id);
const finish = event({ type: "text-end", id: "t3" }) + event({ type: "finish-step" }, "8-a") + event({ type: "finish", finishReason: "stop" }, "9-a") + "data: [DONE]\n\n";
const cut = (...body) => ({ body, end: "error" });
const whole = (...body) => ({ body, end: "clean" });
const user = (id, text) => ({ id, role: "user", parts: [{ type: "text", text }] });
const refusal = (status, code, headers = {}) => ({ status, headers, json: { error: `text of ${code}`, code } });
const snapshot = (messages = [], members = {}) => ({ json: { messages, streamSequence: 2, status: "ended", ...members } });

// open returns a Chat, its edge, and the states of the connection and errors that it reports.
function open(responses, options = {}, messages = []) {
  const edge = fakeEdge(responses);
  const states = [];
  const errors = [];
  const transport = new TailraceChatTransport({ url, fetch: edge.fetch, onConnection: (state) => states.push(state), ...options });
  const chat = new Chat({ id: "a/b", messages, transport, onError: (error) => errors.push(error) });
  return { chat, edge, states, errors, transport };
}

const said = (chat) => chat.messages.at(-1).parts.map((part) => part.text ?? "").join("");
const requests = (edge) => edge.requests.map(({ path, headers, body }) => `${body ? "POST" : "GET"} ${path} ${headers.get("X-Resume-From-Sequence") ?? ""}`.trim());

test("an answer whose connections are lost is one stream, without what was not a whole record", async () => {
  const { chat, edge, states, errors } = open([
    cut(": stream-open\n\n" + begin + delta("It ", "3-a"), event({ type: "source-url", sourceId: "s", url: "https://x.test" }), delta("is").slice(0, 9)),
    { throws: new TypeError("fetch failed") },
    refusal(503, "UNAVAILABLE"),
    whole(event({ type: "source-url", sourceId: "s", url: "https://x.test" }) + delta("is ", "4-a")), // a proxy ended it
    whole(delta("here.", "5-a") + finish),
  ]);
  await chat.sendMessage(user("m1", "Where?"));
  assert.deepEqual(errors, []);
  assert.equal(chat.status, "ready");
  assert.equal(said(chat), "It is here.");
  assert.equal(chat.lastMessage.parts.filter((part) => part.type === "source-url").length, 1);
  assert.deepEqual(requests(edge), ["POST /api/chat", ...["3-a", "3-a", "3-a", "4-a"].map((id) => `GET /api/chat/a%2Fb/stream ${id}`)]);
  assert.deepEqual(states, ["live", "reconnecting", "offline", "offline", "live", "reconnecting", "live"]);
});

test("an answer ends where nothing follows, and after its last event no connection is needed", async () => {
  const nothing = open([cut(begin + delta("Half", "3-a")), { status: 204 }]);
  await nothing.chat.sendMessage(user("m1", "?"));
  assert.equal(nothing.chat.status, "ready");
  const last = open([cut(begin + delta("All", "3-a") + finish.replace("data: [DONE]\n\n", ""))]);
  await last.chat.sendMessage(user("m1", "?"));
  assert.deepEqual([last.chat.status, said(last.chat), last.edge.requests.length], ["ready", "All", 1]);
});

test("before the first record a message is sent again if only it names its answer", async () => {
  const first = open([cut(begin), whole(begin + delta("Hi", "3-a") + finish)]);
  await first.chat.sendMessage(user("m1", "?"));
  assert.deepEqual(requests(first.edge), ["POST /api/chat", "POST /api/chat"]); // the page has no cursor
  const later = open([snapshot(), cut(begin), whole(begin + delta("Hi", "3-a") + finish)]);
  await later.transport.load("a/b");
  await later.chat.sendMessage(user("m1", "?"));
  assert.deepEqual(requests(later.edge).slice(1), ["POST /api/chat", "GET /api/chat/a%2Fb/stream 2"]);
  const queued = open([snapshot(), cut(""), whole(begin + delta("Hi", "3-a") + finish)]);
  await queued.transport.load("a/b");
  await queued.chat.sendMessage(user("m1", "?"), { body: { mode: "queue" } }); // the stream may have the answer before it
  assert.deepEqual(requests(queued.edge).slice(1), ["POST /api/chat", "POST /api/chat"]);
});

test("only the end of the messages is posted", async () => {
  const past = [user("m1", "1"), { id: "msg-1", role: "assistant", parts: [] }, user("m2", "2"), { id: "msg-3", role: "assistant", parts: [] }];
  const { chat, edge } = open([whole(begin + finish)], { agentType: "support", view: "users" }, past);
  await chat.sendMessage(user("m3", "3"));
  const { messages, ...rest } = JSON.parse(edge.requests[0].body);
  assert.deepEqual(messages.map((message) => message.id), ["msg-3", "m3"]);
  assert.deepEqual(rest, { id: "a/b", trigger: "submit-message", agentType: "support" });
  assert.equal(edge.requests[0].path, "/api/chat?view=users");
});

test("a refusal is a TailraceError with the text for users", async () => {
  for (const [status, code] of [[409, "EXECUTION_ERROR"], [413, "CONTENT_TOO_LARGE"], [429, "TOO_MANY_REQUESTS_OF_TENANT"]]) {
    const { chat, errors } = open([refusal(status, code)]);
    await chat.sendMessage(user("m1", "?"));
    assert.deepEqual(errors.map((error) => [error.name, error.status, error.code, error.message]), [["TailraceError", status, code, `text of ${code}`]]);
  }
  const { chat, errors } = open([cut(begin + delta("Hi", "3-a")), refusal(403, "FORBIDDEN")]);
  await chat.sendMessage(user("m1", "?"));
  assert.deepEqual([chat.status, errors[0].message, said(chat)], ["error", "text of FORBIDDEN", "Hi"]);
});

test("a message without a response is an error, and is sent again when the edge asks for that", async () => {
  const lost = open([{ throws: new TypeError("fetch failed") }]);
  await lost.chat.sendMessage(user("m1", "?"));
  assert.deepEqual([lost.chat.status, lost.errors[0].code, lost.states], ["error", "UNREACHABLE", ["offline"]]);
  const later = open([refusal(503, "UNAVAILABLE", { "Retry-After": "1" }), whole(begin + delta("Hi", "3-a") + finish)]);
  await later.chat.sendMessage(user("m1", "?"));
  assert.deepEqual([later.chat.status, ...requests(later.edge)], ["ready", "POST /api/chat", "POST /api/chat"]);
  const again = open([refusal(503, "UNAVAILABLE", { "Retry-After": "1" })], {}, [user("m1", "?")]);
  await again.chat.regenerate(); // each request would be another answer
  assert.deepEqual([again.errors[0].code, ...requests(again.edge)], ["UNAVAILABLE", "POST /api/chat"]);
});

test("an answer that starts again is an error: the page has what the log does not have any more", async () => {
  const { chat, errors } = open([cut(begin + delta("Old", "3-a")), whole(begin + delta("New", "3-b") + finish)]);
  await chat.sendMessage(user("m1", "?"));
  assert.deepEqual([errors[0].code, said(chat)], ["ANSWER_REPLACED", "Old"]);
});

test("an aborted message stops its run, unless the page does not want that; an aborted read stops nothing", async () => {
  const stops = (edge) => edge.requests.filter(({ path }) => path === "/api/chat/a%2Fb/stop").length;
  for (const stopOnAbort of [true, false]) {
    const { chat, edge } = open([{ body: [begin + delta("Hi", "3-a")], end: "open" }, { status: 202 }], { stopOnAbort });
    const sent = chat.sendMessage(user("m1", "?"));
    await wait(() => chat.status === "streaming");
    await chat.stop();
    await sent;
    assert.deepEqual([chat.status, stops(edge), edge.requests[0].signal.aborted], ["ready", stopOnAbort ? 1 : 0, true]);
  }
  const { chat, edge } = open([{ body: [begin + delta("Hi", "3-a")], end: "open" }]);
  const read = chat.resumeStream();
  await wait(() => chat.status === "streaming");
  await chat.stop();
  await read;
  assert.equal(stops(edge), 0);
});

test("a page that waits for the edge gives up for a message, and when it is closed", async () => {
  const { chat, edge } = open([{ throws: new TypeError("fetch failed") }, whole(begin + delta("Hi", "3-a") + finish)]);
  const read = chat.resumeStream();
  await wait(() => edge.requests.length === 1);
  await chat.sendMessage(user("m1", "?"));
  await read;
  assert.deepEqual([chat.status, said(chat), chat.messages.length], ["ready", "Hi", 2]);
});

test("each request has a token, and a refused one is replaced once", async () => {
  const given = [];
  const getToken = ({ refresh }) => `${given.push(refresh)}`;
  const { chat, edge } = open([refusal(401, "UNAUTHENTICATED"), cut(begin + delta("Hi", "3-a")), whole(finish)], { getToken });
  await chat.sendMessage(user("m1", "?"));
  assert.equal(chat.status, "ready");
  assert.deepEqual(given, [false, true, false]);
  assert.deepEqual(edge.requests.map(({ headers }) => headers.get("Authorization")), ["Bearer 1", "Bearer 2", "Bearer 3"]);
});

// show renders the hook, and returns what it returned last. With ended nothing is in progress: the request for it may be sent late, or be given up.
async function show(t, responses, { ended, ...options } = {}) {
  const edge = fakeEdge(responses);
  const page = { edge };
  const fetch = async (address, init) => (ended && address.endsWith("/stream") ? new Response(null, { status: 204 }) : edge.fetch(address, init));
  const Page = () => {
    page.chat = useTailraceChat({ id: "c", url, fetch, ...options });
    return null;
  };
  let renderer;
  t.after(() => act(() => renderer.unmount()));
  act(() => { renderer = create(createElement(StrictMode, null, createElement(Page))); }); // without await, so that no response can arrive
  page.unmount = () => act(() => renderer.unmount());
  return page;
}

// until waits, within act, until a condition holds.
async function until(condition) {
  for (let i = 0; i < 6000 && !condition(); i++) await act(() => new Promise((resolve) => setTimeout(resolve, 5)));
  assert.ok(condition(), String(condition));
}

// twice is for the two effects of StrictMode.
const twice = (response) => [response(), response()];

test("the hook loads the chat and the answer in progress, and closes its connection", async (t) => {
  const page = await show(t, [...twice(() => snapshot([user("msg-0", "Hi")], { status: "active" })), { body: [begin + delta("It ", "3-a")], end: "open" }]);
  assert.equal(page.chat.loading, true);
  await until(() => page.chat.status === "streaming");
  assert.deepEqual([page.chat.loading, page.chat.messages.length, page.chat.connection], [false, 2, "live"]);
  assert.deepEqual(requests(page.edge).slice(2), ["GET /api/chat/c/stream 2"]);
  await page.unmount();
  await wait(() => page.edge.requests[2].signal.aborted);
  assert.equal(page.edge.requests.length, 3); // and no stop
});

test("what is sent while the chat is loaded waits for it", async (t) => {
  const page = await show(t, [...twice(() => snapshot([user("msg-0", "Hi")])), whole(begin + delta("Yes", "3-a") + finish)], { ended: true });
  assert.equal(page.chat.loading, true);
  act(() => void page.chat.sendMessage(user("m1", "?")));
  await until(() => page.chat.messages.length === 3 && page.chat.status === "ready");
  assert.deepEqual(page.chat.messages.map(({ id }) => id), ["msg-0", "m1", "msg-1"]);
});

test("a call that was pending at page load runs in the page, and its answer is sent once", async (t) => {
  const call = { type: "dynamic-tool", toolName: "zone", toolCallId: "call_1", state: "input-available", input: { of: 1 } };
  const inputs = [];
  const page = await show(t, [
    ...twice(() => snapshot([user("msg-0", "Hi"), { id: "msg-1", role: "assistant", parts: [{ type: "step-start" }, call] }], { status: "paused" })),
    { status: 204 },
    whole(event({ type: "start", messageId: "msg-1" }) + event({ type: "finish" }, "9-a") + "data: [DONE]\n\n"), // stopped before it resumed
  ], { tools: { zone: (input) => (inputs.push(input), "Oslo") } });
  await until(() => page.edge.requests.length === 4 && page.chat.status === "ready");
  const [part] = JSON.parse(page.edge.requests[3].body).messages.at(-1).parts.slice(1);
  assert.deepEqual([part.state, part.output, inputs], ["output-available", "Oslo", [{ of: 1 }]]);
});

test("a stale page is loaded again, with the reason; stop() stops the run and leaves the stream", async (t) => {
  const reasons = [];
  const page = await show(t, [
    ...twice(() => snapshot()),
    { status: 204 },
    refusal(409, "EXECUTION_ERROR"),
    snapshot([user("msg-0", "of another tab")], { status: "active" }),
    { body: [begin + delta("It ", "3-a"), event({ type: "data-truncated", data: {}, transient: true }, "4-a")], end: "open" },
    snapshot([user("msg-0", "of another tab")], { status: "active" }),
    { body: [begin + delta("is ", "5-a")], end: "open" },
    { status: 202 },
  ], { onReload: (why) => reasons.push(why?.message) });
  await until(() => !page.chat.loading && page.edge.requests.length === 3); // the request for an answer in progress is sent
  await act(() => page.chat.sendMessage(user("m1", "?")));
  await until(() => page.chat.status === "streaming" && page.chat.messages.at(-1).parts.at(-1)?.text === "is ");
  assert.deepEqual(page.chat.messages.map(({ id }) => id), ["msg-0", "msg-1"]);
  assert.deepEqual(reasons, ["text of EXECUTION_ERROR", undefined]);
  await act(() => page.chat.stop());
  assert.deepEqual([page.edge.requests.at(-1).path, page.chat.status], ["/api/chat/c/stop", "streaming"]);
});

test("the hook reports a connection that is lost, and an error that no other request changes", async (t) => {
  const page = await show(t, [...twice(() => ({ throws: new TypeError("fetch failed") })), snapshot(), { status: 204 }]);
  await until(() => page.chat.connection === "offline");
  await until(() => page.chat.connection === "live" && !page.chat.loading);
  const refused = await show(t, twice(() => refusal(403, "FORBIDDEN")));
  await until(() => refused.chat.error !== undefined);
  assert.deepEqual([refused.chat.loading, refused.chat.error.message], [false, "text of FORBIDDEN"]);
});

test("a message whose response was lost is shown when the edge responds again", async (t) => {
  const gone = () => ({ throws: new TypeError("fetch failed") });
  const stored = () => snapshot([user("msg-0", "?"), { id: "msg-1", role: "assistant", parts: [{ type: "text", text: "Yes" }] }], { streamSequence: 9 });
  const page = await show(t, [...twice(() => snapshot()), { status: 204 }, gone(), gone(), gone(), stored(), stored(), { status: 204 }]);
  await until(() => page.edge.requests.length === 3);
  act(() => void page.chat.sendMessage(user("m1", "?")));
  await until(() => page.chat.status === "error" && page.chat.connection === "offline");
  await until(() => page.chat.messages.length === 2 && page.edge.requests.length === 9);
  assert.deepEqual([page.chat.status, page.chat.connection, page.chat.error], ["ready", "live", undefined]);
});

test("a tool whose result is refused as too large is not run again", async (t) => {
  const call = { type: "dynamic-tool", toolName: "dump", toolCallId: "call_1", state: "input-available", input: {} };
  const paused = () => snapshot([{ id: "msg-1", role: "assistant", parts: [{ type: "step-start" }, call] }], { status: "paused" });
  let runs = 0;
  const page = await show(t, [...twice(paused), { status: 204 }, refusal(413, "CONTENT_TOO_LARGE"), paused(), { status: 204 }], { tools: { dump: () => ++runs } });
  await until(() => page.edge.requests.length === 6 && page.chat.status === "ready");
  await act(() => new Promise((resolve) => setImmediate(resolve)));
  assert.deepEqual([runs, page.chat.messages[0].parts[1].state], [1, "input-available"]);
});
