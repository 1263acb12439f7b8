import assert from "node:assert/strict";
import { test } from "node:test";
import { createElement, StrictMode } from "react";
import { act, create } from "react-test-renderer";
import { textOf } from "../dist/index.js";
import { useSession, useSessions } from "../dist/react.js";
import { events, fakeEdge, snapshot } from "./fake_edge.mjs";

globalThis.IS_REACT_ACT_ENVIRONMENT = true;

function Page(options) {
  const { tree, connection } = useSession(options);
  const agent = tree.agents[options.session];
  return `${options.session} ${connection}: ${agent === undefined ? "" : textOf(agent)}`;
}

// shows waits, within act, until the page shows a text.
async function shows(renderer, want) {
  for (let i = 0; i < 6000 && renderer.toJSON() !== want; i++) await act(() => new Promise((resolve) => setTimeout(resolve, 5)));
  assert.equal(renderer.toJSON(), want);
}

// unmounts closes the connections after a test that failed, too: they would keep the process alive.
const unmounts = (t, renderer) => t.after(() => act(() => renderer().unmount()));

test("a component shows a session, then another one, and closes its connections", async (t) => {
  const streams = () => [{ json: snapshot(0) }, { body: [events(1, 2), events(3)], end: "open" }];
  const edge = fakeEdge([...streams(), ...streams()]);
  const page = (session) => createElement(Page, { url: "https://edge.test", session, fetch: edge.fetch });
  let renderer;
  unmounts(t, () => renderer);
  act(() => { renderer = create(page("s1")); }); // without await, so that no response can arrive
  assert.equal(renderer.toJSON(), "s1 loading: ");
  await shows(renderer, "s1 open: 123");
  await act(() => renderer.update(page("s2"))); // its chunks are of the agent s1
  await shows(renderer, "s2 open: ");
  assert.deepEqual(edge.requests.map((request) => request.path), ["/v1/sessions/s1/snapshot", "/v1/sessions/s1/events?after=0", "/v1/sessions/s2/snapshot", "/v1/sessions/s2/events?after=0"]);
  assert.equal(edge.requests[1].signal.aborted, true);
  await act(() => renderer.unmount());
  assert.equal(edge.requests[3].signal.aborted, true);
});

test("a failure is shown, and an effect that runs twice leaves one connection", async (t) => {
  const edge = fakeEdge([{ json: snapshot(0) }, { json: snapshot(0) }, { body: [events(1)], end: "open" }, { body: [events(1)], end: "open" }]);
  let renderer;
  unmounts(t, () => renderer);
  await act(() => { renderer = create(createElement(StrictMode, null, createElement(Page, { url: "https://edge.test", session: "s1", fetch: edge.fetch }))); });
  await shows(renderer, "s1 open: 1");
  const open = edge.requests.filter((request) => request.path.includes("/events") && !request.signal.aborted);
  assert.equal(open.length, 1);
  await act(() => renderer.unmount());
  const refused = fakeEdge([{ status: 404, json: { code: "STREAM_NOT_FOUND" } }]);
  await act(() => { renderer = create(createElement(Page, { url: "https://edge.test", session: "s1", fetch: refused.fetch })); });
  await shows(renderer, "s1 failed: ");
});

function List(options) {
  const { sessions, loading, error, more, reload } = useSessions(options);
  Object.assign(options.control, { more, reload });
  return `${sessions.map(({ session }) => session.id)} ${loading ? "loading" : more ? "more" : "all"} ${error?.status ?? ""}`;
}

test("a list of sessions is loaded page by page, again on request, and with other options", async (t) => {
  const rows = (before, ...ids) => ({ json: { sessions: ids.map((id) => ({ session: { id } })), before } });
  const edge = fakeEdge([rows("b", "s3", "s2"), rows(null, "s1"), rows(null, "s4"), { status: 403, json: { code: "FORBIDDEN" } }, rows(null, "s9")]);
  const control = {};
  const page = (status) => createElement(List, { url: "https://edge.test", status, fetch: edge.fetch, control });
  let renderer;
  unmounts(t, () => renderer);
  act(() => { renderer = create(page("active")); });
  assert.equal(renderer.toJSON(), " loading ");
  await shows(renderer, "s3,s2 more ");
  await act(() => control.more());
  await shows(renderer, "s3,s2,s1 all ");
  await act(() => control.reload());
  await shows(renderer, "s4 all ");
  await act(() => control.reload());
  await shows(renderer, "s4 all 403");
  await act(() => renderer.update(page("failed")));
  await shows(renderer, "s9 all ");
  assert.deepEqual(edge.requests.map(({ path }) => path), [
    "/v1/sessions?status=active", "/v1/sessions?status=active&before=b", "/v1/sessions?status=active", "/v1/sessions?status=active", "/v1/sessions?status=failed",
  ]);
});
