// Compiled, not run: the types of the package in an application.
import {
  answer, emptyTree, followSession, messages, mintSessionToken, publishRun, reduceTree, sessions, snapshot, stopRun, TailraceError, textOf, type ChunkOf, type RunState, type Tree,
} from "tailrace-client";
import { useSession, useSessions } from "tailrace-client/react";
import { createResumableStreamContext } from "tailrace-client/resumable";
import { followRecords, Outline, type LogRecord } from "tailrace-client/log";

export async function text(url: string): Promise<string> {
  let tree: Tree = emptyTree("s1");
  for await (const event of followSession({ url, session: "s1", getToken: async () => "token" })) {
    tree = reduceTree(tree, event);
    if (event.type === "chunk" && event.chunk.type === "text_delta") {
      const delta: string = event.chunk.delta;
      const chunk: ChunkOf<"text_delta"> = event.chunk;
      console.log(delta, chunk.agentId);
    }
    // @ts-expect-error: there is no such type
    if (event.type === "chunk" && event.chunk.type === "no_such_type") return "";
  }
  const root = tree.agents["s1"];
  return root === undefined ? "" : textOf(root);
}

// cookie and ticket are shown in docs/guides/sign-in.md.
export async function cookie(token: string, id: string): Promise<EventSource> {
  await fetch('/v1/session-cookie', { method: 'POST', headers: { Authorization: `Bearer ${token}` } });
  const events = new EventSource(`/v1/sessions/${id}/events`);
  return events;
}

export async function ticket(edge: string, id: string, last: string, headers: HeadersInit): Promise<EventSource> {
  const response = await fetch(`${edge}/v1/tickets`, { method: 'POST', headers, body: JSON.stringify({ session: id }) });
  const events = new EventSource(`${edge}/v1/sessions/${id}/events?after=${last}&ticket=${(await response.json()).ticket}`);
  return events;
}

// one and several are shown in docs/guides/follow.md.
export function one(show: (event: unknown) => void): void {
  const events = new EventSource("/v1/sessions/s1/events");
  events.onmessage = (e) => show(JSON.parse(e.data));
}

export function several(show: (id: string, event: unknown) => void): void {
  const events = new EventSource("/v1/events?session=a&session=b");
  for (const id of ["a", "b"]) events.addEventListener(`session:${id}`, (e) => show(id, JSON.parse(e.data)));
}

export function usePage(session: string): string {
  const { tree, connection } = useSession({ url: "https://edge.test", session, scope: "tree" });
  return `${connection} ${Object.keys(tree.agents).length}`;
}

export function useList(): string {
  const { sessions, more, reload, error, loading } = useSessions({ url: "", status: "active", q: "parcel" });
  more?.();
  reload();
  return sessions.map(({ session, title }) => `${session.id} ${title ?? ""}`).join() + String(error) + String(loading);
}

export async function read(url: string): Promise<string> {
  try {
    const at = { url, session: "s1", view: "public" };
    const { streamSequence, pendingCalls } = await snapshot({ ...at, at: 7, partial: true });
    const page = await messages({ ...at, limit: 10 });
    const list = await sessions({ url, since: new Date(), before: page.before ?? "" });
    for (const { toolCallId } of pendingCalls) await answer({ ...at, answer: { toolCallId, approved: true } });
    // @ts-expect-error: an answer has a result, an error or a decision
    await answer({ ...at, answer: { toolCallId: "c" } });
    const run: string | undefined = await stopRun({ ...at, reason: "enough" });
    return `${streamSequence} ${list.sessions.length} ${run}`;
  } catch (error) {
    if (error instanceof TailraceError) return `${error.code} ${error.detail} ${error.line} ${error.nearest}`;
    throw error;
  }
}

export async function resume(id: string, stream: ReadableStream<string>): Promise<ReadableStream<string> | null | undefined> {
  const context = createResumableStreamContext({ waitUntil: null, token: "t" });
  if ((await context.hasExistingStream(id)) === "DONE") return context.resumeExistingStream(id, 5);
  return context.resumableStream(id, () => stream);
}

export async function outline(url: string): Promise<Outline> {
  const outline = new Outline(), all: LogRecord[] = [];
  for await (const event of followRecords({ url, session: "s1" })) if (event.type === "records") all.push(...event.records);
  return outline;
}

export const token: Promise<string> = mintSessionToken({
  key: { kty: "OKP", crv: "Ed25519", x: "", d: "" }, keyId: "k", issuer: "i", audience: "a", tenant: "t", subject: "s", scopes: ["read"],
});

export async function pipe(url: string, model: Response): Promise<RunState> {
  // @ts-expect-error: there is no such dialect
  await publishRun({ url, session: "s1", dialect: "morse" });
  const run = await publishRun({ url, session: "s1", dialect: "openai" });
  if (model.body !== null) return run.pipe(model.body);
  return run.pipe((async function* () { yield "{}\n"; })(), "ndjson");
}
