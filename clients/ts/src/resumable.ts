import { TailraceError } from "./errors.js";
import { Connection, defaultIdleTimeout, IdleTimer, RetryLater, type ConnectionOptions } from "./http.js";
import { check } from "./pieces.js";
import { post, request } from "./sessions.js";

export { TailraceError };

/** How to reach the edge, and how to keep the process alive. */
export interface ResumableStreamOptions extends Omit<ConnectionOptions, "url" | "signal"> {
  /** Keeps the process alive until a promise has a result, such as after of Next.js; null for a server that is not suspended. */
  waitUntil: ((promise: Promise<unknown>) => void) | null;
  /** The address of the edge. Defaults to the variable TAILRACE_URL of the environment, then to http://127.0.0.1:4480. */
  url?: string;
}

/** Streams of the AI SDK that continue after a lost connection. The id of a stream is that of a session, which has one answer. */
export interface ResumableStreamContext {
  /** Creates the stream, or returns it from its beginning if it exists; null if it is complete. */
  resumableStream(streamId: string, makeStream: () => ReadableStream<string>, skipCharacters?: number): Promise<ReadableStream<string> | null>;
  /** Returns a stream that exists; null if it is complete, undefined if it does not exist. */
  resumeExistingStream(streamId: string, skipCharacters?: number): Promise<ReadableStream<string> | null | undefined>;
  /** Creates the stream. It returns null if another request has created it. */
  createNewResumableStream(streamId: string, makeStream: () => ReadableStream<string>, skipCharacters?: number): Promise<ReadableStream<string> | null>;
  /** Reports whether a stream is in progress (true) or complete ("DONE"); null if it does not exist. */
  hasExistingStream(streamId: string): Promise<null | true | "DONE">;
}

/**
 * createResumableStreamContext stores UI message streams of the AI SDK in Tailrace, with the calls of the npm package resumable-stream, so that one import changes. The
 * strings of a stream are its server-sent events. All readers of a stream, also the first one, read the log: skipCharacters counts the characters of what they get, which
 * are the same for each. What makeStream returns is read to its end, also without a reader. Errors are those of publishRun.
 */
export function createResumableStreamContext({ waitUntil, ...options }: ResumableStreamOptions): ResumableStreamContext {
  const { env } = (globalThis as { process?: { env: Record<string, string | undefined> } }).process ?? { env: {} };
  const connection: ConnectionOptions = { ...options, url: options.url ?? env["TAILRACE_URL"] ?? "http://127.0.0.1:4480" };

  const context: ResumableStreamContext = {
    async hasExistingStream(session) {
      try {
        const { text } = await request(connection, `${pathOf(session)}/snapshot?messages=1`);
        return (JSON.parse(text) as { status: string }).status === "active" || "DONE";
      } catch (error) {
        if (error instanceof TailraceError && error.status === 404) return null;
        throw error;
      }
    },
    async resumeExistingStream(session, skip = 0) {
      const exists = await context.hasExistingStream(session);
      if (exists === null) return undefined;
      return exists === true ? read(connection, session, skip) : null;
    },
    async createNewResumableStream(session, makeStream, skip = 0) {
      const runId = crypto.randomUUID();
      const path = `${pathOf(session)}/runs`;
      try {
        const { text } = await request(connection, path, post({ runId }), [200, 201]);
        const written = write(connection, `${path}/${runId}`, (JSON.parse(text) as { epoch: number }).epoch, makeStream());
        waitUntil?.(written);
        written.catch(() => undefined); // the readers get it
      } catch (error) {
        if (error instanceof TailraceError && error.code === "RUN_OPEN") return null;
        throw error;
      }
      return read(connection, session, skip);
    },
    async resumableStream(session, makeStream, skip) {
      const existing = await context.resumeExistingStream(session, skip);
      if (existing !== undefined) return existing;
      return (await context.createNewResumableStream(session, makeStream, skip)) ?? (await context.resumeExistingStream(session, skip)) ?? null;
    },
  };
  return context;
}

function pathOf(session: string): string {
  return `/v1/sessions/${encodeURIComponent(session)}`;
}

/** connect returns a connection with short waits: a user watches the answer. */
function connect(options: ConnectionOptions): Connection {
  return Object.assign(new Connection(options), { firstDelay: 100, longestDelay: 5_000 });
}

/** write stores a stream. After a cut the edge gets it again from its beginning, and skips what is stored. */
async function write(options: ConnectionOptions, run: string, epoch: number, source: ReadableStream<string>): Promise<void> {
  const connection = connect(options);
  let all: ReadableStream = source.pipeThrough(new TextEncoderStream());
  const end = (name: string, body: unknown) => request(options, `${run}/${name}?epoch=${epoch}`, post(body));
  try {
    for (let done: boolean | undefined = false; !done; ) {
      const [body, again] = all.tee();
      all = again; // from its first piece
      try {
        const init = { method: "POST", headers: { "Content-Type": "text/event-stream" }, body, duplex: "half" } as RequestInit;
        const { text } = await connection.exchange(`${run}/chunks?epoch=${epoch}&dialect=aisdk&firstLine=1`, init);
        const last = JSON.parse(text.trimEnd().split("\n").pop()!) as { done?: boolean; error?: string; code: string; status: number };
        if (last.error !== undefined) {
          const problem = new TailraceError(last.error, 200, last);
          throw last.status < 500 && !["BODY_CUT", "SUPERSEDED", "CREDENTIAL_EXPIRED"].includes(last.code) ? problem : new RetryLater(problem, 0);
        }
        done = last.done;
      } catch (error) {
        await check(all);
        await connection.wait(error);
      }
    }
    await end("end", {}); // has no effect on a run that the stream has ended
  } catch (error) {
    await end("fail", { error: String(error) }).catch(() => undefined); // fenced, or not reachable
    throw error;
  } finally {
    all.cancel().catch(() => undefined); // the caller has an error already
  }
}

/** read returns the events of the answer without the first characters. */
function read(options: ConnectionOptions, session: string, skip: number): ReadableStream<string> {
  const stopped = new AbortController();
  const events = eventsOf({ ...options, signal: stopped.signal }, session, skip);
  return new ReadableStream<string>(
    {
      async pull(controller) {
        const { done, value } = await events.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: () => stopped.abort(),
    },
    { highWaterMark: 0 },
  );
}

/** eventsOf yields the events of the answer from its beginning. After a cut it reads them again, and skips what it has yielded: every edge writes the same ones. */
async function* eventsOf(options: ConnectionOptions, session: string, skip: number): AsyncGenerator<string, void, void> {
  const connection = connect(options);
  for (;;) {
    const idle = new IdleTimer(defaultIdleTimeout, options.signal);
    try {
      const response = await connection.send(`${pathOf(session)}/events?dialect=aisdk`, { signal: idle.signal }, [200, 204]);
      if (response.status === 204) return;
      let rest = ""; // of an event that is incomplete
      let at = 0;
      for (const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader(); ; ) {
        idle.reset();
        const { done, value } = await reader.read();
        if (done) break;
        idle.pause();
        const events = (rest + value).split("\n\n");
        rest = events.pop() ?? "";
        for (const event of events) {
          const data = /^data: .*/m.exec(event)?.[0];
          if (data === undefined) continue; // a comment, or the number of the record alone
          const text = data + "\n\n";
          const unread = text.slice(Math.max(0, skip - at));
          at += text.length;
          if (at > skip) {
            skip = at;
            connection.succeeded();
            yield unread;
          }
          if (data === "data: [DONE]") return;
        }
      }
      throw new Error("the response ended early");
    } catch (error) {
      await connection.wait(error);
    } finally {
      idle.close();
    }
  }
}
