import type { Chunk, ChunkBase, ErrorDetail, InputMessage, Parent } from "./chunks.js";
import { describe, TailraceError } from "./errors.js";
import { Connection, defaultIdleTimeout, IdleTimer, query, RetryLater, type ConnectionOptions } from "./http.js";
import { bytesOf, check, upload, type PieceSource } from "./pieces.js";

type WithoutBase<T> = T extends Chunk ? Omit<T, keyof ChunkBase> & Partial<ChunkBase> : never;

/** A chunk to write. What it leaves out of agentId, agentType, timestamp and step is what the session says. */
export type PublishChunk = WithoutBase<Chunk>;

/** The dialect of an agent whose responses are written as they are. */
export type Dialect = "aisdk" | "agui" | "anthropic" | "kortyx" | "langgraph" | "mastra" | "openai";

/** Which run to write. */
export interface PublishOptions extends ConnectionOptions {
  /** The id of the session. */
  session: string;
  /** The root of the tree, if the session is a sub-agent's. */
  root?: string;
  /** The id of the run, 1 to 64 letters, digits, - and _. Defaults to a new one. With the id of an open run, which may be of another process, it is continued. */
  runId?: string;
  /** The name of the agent's definition. */
  agentType?: string;
  mode?: string;
  /** The dialect of the responses that pipe writes. Without it, the run consists of the chunks that write writes. */
  dialect?: Dialect;
  /** What the run answers. */
  input?: InputMessage[];
  /** The caller, if the session is a sub-agent's. */
  parent?: Parent;
  /** Replaces a run that is open in the session; its writer is fenced. */
  takeOver?: boolean;
  /** The name of the model and its provider, for steps that name none. */
  model?: string;
  provider?: string;
  /** How many characters of chunks may wait to be stored before write waits. Defaults to 1 Mi. */
  maxPending?: number;
  /** The time without a byte, in milliseconds, after which a connection is taken for dead. Defaults to 45,000. 0 waits forever. */
  idleTimeout?: number;
  /** Is called with each warning about a chunk that is stored. Defaults to console.warn. */
  onWarning?: (text: string, warning: PublishWarning) => void;
}

/** A chunk that is stored and probably mistaken: its member has no meaning, or names a call that has not begun. */
export interface PublishWarning {
  line: number;
  member: string;
  /** The member or call that was probably meant. */
  nearest?: string;
}

/** What is stored of a run. */
export interface RunState {
  runId: string;
  epoch: number;
  /** The number of chunks that are stored. */
  stored: number;
  /** The number of the next line: after a translated response it is not that of stored. */
  next: number;
  /** A cursor of the session's events. */
  position: string;
  status: "active" | "paused" | "ended" | "failed";
  [member: string]: unknown;
}

/**
 * publishRun opens a run, or continues the one with the same runId. Every chunk is stored once, however often a connection is cut. The error is a TailraceError for
 * what no retry changes: RUN_OPEN if another run is open, and later FENCED if another writer has replaced this one.
 */
export async function publishRun(options: PublishOptions): Promise<PublishedRun> {
  const connection = new Connection(options);
  connection.firstDelay = 100; // clients of streams reconnect together, writers do not
  const runId = options.runId ?? crypto.randomUUID();
  const { agentType, mode, input, parent, takeOver, model, provider } = options;
  const path = `/v1/sessions/${encodeURIComponent(options.session)}/runs`;
  const request = (name: string, body: unknown, epoch: number | undefined, accept: readonly number[]) =>
    connection.repeat(async () => {
      const init: RequestInit = body === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
      const { status, text } = await connection.exchange(path + name + query({ root: options.root, epoch }), init, accept, options.idleTimeout);
      return { status, state: JSON.parse(text) as RunState };
    });
  const opened = await request("", { runId, agentType, mode, input, parent, takeOver, model, provider }, undefined, [200, 201]);
  const { epoch } = opened.state;
  const run = `/${encodeURIComponent(runId)}`;
  // The run existed: by the first of two requests of this process, or by another process.
  const state = async (name: string, body?: unknown) => (await request(run + name, body, epoch, [200])).state;
  const before = opened.status === 200 ? await state("") : undefined;
  return new PublishedRun(options, connection, path + run + "/chunks", runId, epoch, before, state);
}

/** lastLine returns the number of the last line that is stored. */
function lastLine(state: RunState): number {
  return state.next - 1;
}

/** A line of a response. */
interface Report {
  stored?: number;
  next?: number;
  position?: string;
  done?: boolean;
  error?: string;
  code?: string;
  status?: number;
  warnings?: PublishWarning[];
}

/** The longest body of a request, in characters. */
const maxBody = 256 << 10;

/** A run that is being written. */
export class PublishedRun {
  /** How many chunks were stored when the run was opened: another process wrote them. */
  readonly storedBefore: number;

  private stored: number;
  private position: string;
  private readonly lines: string[] = []; // not known to be stored
  private size = 0; // of the lines, in characters
  private sending = false;
  private piping = false;
  private unsure = false; // a request was cut: it may have stored more than its response says
  private failure: { error: unknown } | undefined;
  private waiting: Array<() => void> = [];

  /** @internal */
  constructor(
    private readonly options: PublishOptions,
    private readonly connection: Connection,
    private readonly path: string,
    readonly runId: string,
    /** The fencing token. */
    readonly epoch: number,
    before: RunState | undefined,
    private readonly state: (name: string, body?: unknown) => Promise<RunState>,
  ) {
    this.storedBefore = before?.stored ?? 0;
    this.stored = before === undefined ? 0 : lastLine(before);
    this.position = before?.position ?? "0";
  }

  /** write queues a chunk. It waits while too much is queued, and throws if an earlier chunk could not be stored. */
  async write(chunk: PublishChunk): Promise<void> {
    if (this.options.dialect !== undefined) throw new Error("the run has a dialect: use pipe");
    this.check();
    const line = JSON.stringify(chunk) + "\n";
    this.lines.push(line);
    this.size += line.length;
    if (!this.sending) void this.send();
    await this.until(() => this.size <= (this.options.maxPending ?? 1 << 20));
  }

  /**
   * pipe writes a whole response of the agent in the dialect of the run, as it arrives, and returns the state of the run after it: it has ended, has failed or waits.
   * The pieces may be cut anywhere. They are kept until the response is stored, because the edge needs all of them again after a cut. A process that continues the run
   * of another one sends the response from its first piece. In a browser the response is sent when it is complete. An error of the source is thrown, and the run
   * stays open.
   */
  async pipe(source: PieceSource, format: "sse" | "ndjson" = "sse"): Promise<RunState> {
    const { dialect } = this.options;
    if (dialect === undefined || this.piping) throw new Error(dialect === undefined ? "the run has no dialect: use write" : "another response is being written");
    this.check();
    this.piping = true;
    let all = bytesOf(source);
    const firstLine = this.stored + 1;
    try {
      for (let next: number | undefined; next === undefined; ) {
        const [body, again] = all.tee();
        all = again; // from its first piece
        try {
          next = await this.post({ dialect, firstLine }, format === "sse" ? "text/event-stream" : "application/x-ndjson", (idle) => upload(body, () => idle.reset()));
          this.stored = next - 1;
        } catch (error) {
          await check(all);
          await this.connection.wait(error);
        }
      }
      return await this.state("");
    } finally {
      this.piping = false;
      all.cancel().catch(() => undefined); // the caller has an error already
    }
  }

  /** flush waits until all chunks are stored, and returns the position: a cursor of the session's events. */
  async flush(): Promise<string> {
    await this.until(() => this.lines.length === 0);
    return this.position;
  }

  /** end completes the run, after all chunks. */
  async end(finalOutput?: unknown): Promise<RunState> {
    await this.flush();
    return this.state("/end", finalOutput === undefined ? {} : { finalOutput });
  }

  /** fail ends the run with an error, after all chunks that can be stored. */
  async fail(error: string, errorDetail?: ErrorDetail): Promise<RunState> {
    await this.flush().catch((failure: unknown) => {
      if (failure instanceof TailraceError && failure.code === "FENCED") throw failure;
    });
    return this.state("/fail", errorDetail === undefined ? { error } : { error, errorDetail });
  }

  /** pause waits for a user or for sub-agents. A chunk of the type stream_active continues the run. */
  async pause(reason?: string): Promise<RunState> {
    await this.flush();
    return this.state("/pause", reason === undefined ? {} : { reason });
  }

  private check(): void {
    if (this.failure !== undefined) throw this.failure.error;
  }

  private async until(condition: () => boolean): Promise<void> {
    for (;;) {
      this.check();
      if (condition()) return;
      await new Promise<void>((resolve) => this.waiting.push(resolve));
    }
  }

  private wake(): void {
    const waiting = this.waiting;
    this.waiting = [];
    for (const resolve of waiting) resolve();
  }

  /** send sends the queued lines. The first one is sent at once; those that are written meanwhile are the next request. */
  private async send(): Promise<void> {
    this.sending = true;
    try {
      while (this.lines.length > 0) {
        try {
          await this.append();
        } catch (error) {
          await this.connection.wait(error);
        }
      }
    } catch (error) {
      this.failure = { error };
    }
    this.sending = false;
    this.wake();
  }

  private async append(): Promise<void> {
    if (this.unsure) {
      // Otherwise a long body that is cut each time would restart from its first line each time.
      const state = await this.state("");
      this.advance(lastLine(state), state.position);
      this.unsure = false;
    }
    if (this.lines.length === 0) return;
    this.unsure = true;
    let body = "";
    for (const line of this.lines) {
      if (body !== "" && body.length + line.length > maxBody) break;
      body += line;
    }
    await this.post({ firstLine: this.stored + 1 }, "application/x-ndjson", () => body);
    this.unsure = false;
  }

  /** post sends lines, and returns the number of the line after them. */
  private async post(members: { dialect?: string; firstLine: number }, media: string, bodyOf: (idle: IdleTimer) => BodyInit | Promise<BodyInit>): Promise<number> {
    const idle = new IdleTimer(this.options.idleTimeout ?? defaultIdleTimeout, this.options.signal);
    try {
      const path = this.path + query({ root: this.options.root, epoch: this.epoch, ...members });
      const response = await this.connection.send(path, { method: "POST", headers: { "Content-Type": media }, body: await bodyOf(idle), duplex: "half", signal: idle.signal });
      if (response.body === null) throw new Error("the response has no body");
      const reader = response.body.getReader();
      const decoder = new TextDecoder();
      let rest = "";
      for (let next: number | undefined; ; ) {
        idle.reset();
        const { done, value } = await reader.read();
        if (done) {
          if (next === undefined) throw new Error("the response was cut");
          return next;
        }
        const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) next = this.report(line) ?? next;
      }
    } finally {
      idle.close();
    }
  }

  /** report handles a line of a response. The last one has the number of the next line. */
  private report(line: string): number | undefined {
    if (line === "") return undefined;
    const { stored, next, position, done, error, code, status, ...more } = JSON.parse(line) as Report;
    if (stored !== undefined) this.advance(stored, position);
    for (const warning of more.warnings ?? []) {
      const { line, member, nearest } = warning;
      const text = `line ${line} is stored, but its member ${member} is probably mistaken` + (nearest === undefined ? "" : `; did you mean ${nearest}?`);
      (this.options.onWarning ?? console.warn)(text, warning);
    }
    if (error === undefined) return done === true ? (next ?? (stored ?? 0) + 1) : undefined;
    const members = { title: error, code, stored, ...more };
    const problem = new TailraceError(describe(error, members), 200, members);
    const again = (status ?? 0) >= 500 || code === "BODY_CUT" || code === "SUPERSEDED" || (code === "CREDENTIAL_EXPIRED" && this.connection.renew());
    throw again ? new RetryLater(problem, 0) : problem;
  }

  private advance(stored: number, position: string | undefined): void {
    if (position !== undefined) this.position = position;
    if (this.piping) return this.connection.succeeded();
    const done = this.lines.splice(0, Math.max(0, stored - this.stored));
    for (const line of done) this.size -= line.length;
    if (done.length === 0) return;
    this.stored += done.length;
    this.connection.succeeded();
    this.wake();
  }
}
