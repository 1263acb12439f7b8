import type { Chunk } from "./chunks.js";
import { TailraceError } from "./errors.js";
import { Connection, defaultIdleTimeout, IdleTimer, query, type ConnectionOptions } from "./http.js";
import type { Snapshot } from "./snapshot.js";
import { EventParser } from "./sse.js";

/** What to follow. */
export interface FollowOptions extends ConnectionOptions {
  /** The id of the session. */
  session: string;
  /** The root of the tree, if the session is a sub-agent's. */
  root?: string;
  /**
   * Where to start: "snapshot", the default, loads the state and continues after it; "start" reads the log from its first record; any other text is the id of the
   * last event that was handled.
   */
  cursor?: "snapshot" | "start" | (string & {});
  /** With or without the chunks of sub-agents. Defaults to "tree". */
  scope?: "tree" | "session";
  /** The audience view. */
  view?: string;
  /** Only chunks of these types. */
  types?: string[];
  /** All chunks except those of these types. */
  exclude?: string[];
  /** Waits for a session that does not exist yet, instead of an error with the status 404. */
  waitForSession?: boolean;
  /** The time without a byte, in milliseconds, after which a connection is taken for dead. Defaults to 45,000: the edge writes every 15 seconds. 0 waits forever. */
  idleTimeout?: number;
}

/** An event of a session. Every event but a snapshot without a cursor has its id: pass it as cursor to continue after it. */
export type SessionEvent =
  /** The state: forget what you have, and apply the events after it. It is the first event, and follows a truncated one. */
  | { type: "snapshot"; snapshot: Snapshot; id: string }
  | { type: "chunk"; chunk: Chunk; sequence: number; id: string }
  | { type: "end"; finalOutput?: unknown; id: string }
  | { type: "fail"; error: string; id: string }
  | { type: "status"; status: "paused" | "active"; id: string }
  /** Events that you may have shown were removed, or those after your cursor are gone. A snapshot follows. */
  | { type: "truncated"; reason?: string; truncatedAtStep?: number; atSequence?: number; resumeFrom?: number; agentId?: string; id: string };

/**
 * followSession yields the state of a session and every event after it, each once and in order, across cut connections. It ends when the run is complete. It throws a
 * TailraceError for what no retry changes, and the reason of the signal.
 */
export async function* followSession(options: FollowOptions): AsyncGenerator<SessionEvent, void, void> {
  const follower = new Follower(options);
  for (;;) {
    try {
      if (follower.cursor === undefined) yield await follower.load();
      for await (const event of follower.read()) {
        yield event;
        if (event.type === "truncated" && follower.mustReload(event)) {
          await follower.reset(event.resumeFrom);
          break;
        }
      }
      if (follower.complete) return;
    } catch (error) {
      if (follower.cannotServe(error)) {
        yield { type: "truncated", reason: "expired", id: follower.cursor ?? "0" };
        await follower.reset(undefined);
        continue;
      }
      await follower.retry(error);
    }
  }
}

/** The state between connections. */
class Follower {
  /** The id of the last event, undefined if the snapshot must be loaded. */
  cursor: string | undefined;
  /** Nothing follows. */
  complete = false;

  private readonly connection: Connection;
  private ended = false; // the last event ended the run
  private moved = true; // an event has moved the cursor since the last reset
  private resumeFrom = 0; // where the edge continues after a lost cursor
  private reloads = new Map<number, number>(); // by the sequence of a cleanup
  private readonly stepsAfter = new Map<string, number>(); // the highest step of each agent since the last snapshot

  constructor(private readonly options: FollowOptions) {
    this.connection = new Connection(options);
    if (options.cursor === "start") this.cursor = "0";
    else if (options.cursor !== undefined && options.cursor !== "snapshot") this.cursor = options.cursor;
  }

  private path(name: string): string {
    return `/v1/sessions/${encodeURIComponent(this.options.session)}/${name}`;
  }

  /**
   * load loads the snapshot, at a position of at least that at which the edge continues: if the log has no longer the whole answer in flight, the snapshot has its
   * beginning.
   */
  async load(): Promise<SessionEvent> {
    let snapshot = await this.loadOnce("");
    if (snapshot.streamSequence < this.resumeFrom) snapshot = await this.loadOnce("1");
    this.connection.succeeded();
    this.cursor = String(snapshot.streamSequence);
    this.ended = false;
    this.stepsAfter.clear();
    return { type: "snapshot", snapshot, id: this.cursor };
  }

  private async loadOnce(partial: string): Promise<Snapshot> {
    const { root, view } = this.options;
    const { text } = await this.connection.exchange(this.path("snapshot") + query({ root, view, partial }), {}, [200], this.options.idleTimeout);
    return JSON.parse(text) as Snapshot;
  }

  /** reset makes the next round load the snapshot. Without an event since the last one it waits, so that a broken server is not asked without a pause. */
  async reset(resumeFrom: number | undefined): Promise<void> {
    this.cursor = undefined;
    this.resumeFrom = resumeFrom ?? 0;
    if (!this.moved) await this.connection.wait(new Error("the cursor cannot be served"));
    this.moved = false;
  }

  /** read yields the events of one connection. */
  async *read(): AsyncGenerator<SessionEvent, void, void> {
    const { root, view, scope, types, exclude } = this.options;
    const idle = new IdleTimer(this.options.idleTimeout ?? defaultIdleTimeout, this.options.signal);
    try {
      const after = this.cursor;
      const path = this.path("events") + query({ after, root, view, scope, types: types?.join(","), exclude: exclude?.join(",") });
      const response = await this.connection.send(path, { headers: { Accept: "text/event-stream" }, signal: idle.signal }, [200, 204]);
      if (response.status === 204) {
        this.complete = true;
        return;
      }
      if (response.body === null) throw new Error("the response has no body");
      const parser = new EventParser();
      const reader = response.body.getReader();
      for (;;) {
        idle.reset();
        const { done, value } = await reader.read();
        if (done) break;
        idle.pause();
        const events = parser.push(value);
        if (parser.retry !== undefined) this.connection.firstDelay = Math.max(parser.retry, 1);
        for (const event of events) {
          const read = this.accept(event.id, event.data);
          if (read !== undefined) yield read;
        }
      }
      // The edge ends a response cleanly only behind the end of a run. A proxy may end it earlier: then the next request tells, by 204 or by more events.
      if (this.ended) this.complete = true;
      else throw new Error("the stream ended early");
    } finally {
      idle.close();
    }
  }

  /** accept moves the cursor to an event, and returns it unless it was received already. */
  private accept(id: string | undefined, data: string | undefined): SessionEvent | undefined {
    const event = data === undefined ? undefined : (JSON.parse(data) as SessionEvent);
    const rewinds = event?.type === "truncated" && event.reason !== undefined;
    if (id !== undefined) {
      if (!rewinds && sequenceOf(id) <= sequenceOf(this.cursor ?? "0")) return undefined;
      this.cursor = id;
      if (event?.type !== "truncated") {
        this.moved = true;
        this.connection.succeeded();
      }
    }
    if (event === undefined) return undefined;
    if (event.type === "chunk") {
      this.ended = false;
      const { agentId, step } = event.chunk;
      this.stepsAfter.set(agentId, Math.max(step ?? 0, this.stepsAfter.get(agentId) ?? 0));
    } else if (event.type === "end" || event.type === "fail") {
      this.ended = true;
    } else if (event.type === "status") {
      this.ended = false;
    }
    return { ...event, id: this.cursor ?? "0" };
  }

  /**
   * mustReload reports whether the snapshot must be loaded because of a truncated event. The snapshot may be of a position before a cleanup, because it ends before the
   * answer in flight; then the events after it have the cleanup again. They have removed chunks only until these are deleted, which takes milliseconds.
   */
  mustReload(event: SessionEvent & { type: "truncated" }): boolean {
    if (event.reason !== undefined) return true;
    const at = sequenceOf(event.id);
    const times = this.reloads.get(at) ?? 0;
    const removed = (this.stepsAfter.get(event.agentId ?? this.options.session) ?? 0) > (event.truncatedAtStep ?? 0);
    if (times > 0 && (!removed || times >= maxReloads)) return false;
    this.reloads.set(at, times + 1);
    return true;
  }

  /** cannotServe reports whether an error says that the cursor cannot be served. */
  cannotServe(error: unknown): boolean {
    return error instanceof TailraceError && error.status === 410 && this.cursor !== undefined;
  }

  /** retry waits, unless the error is final. */
  async retry(error: unknown): Promise<void> {
    if (error instanceof TailraceError && error.status === 404 && this.options.waitForSession === true) {
      this.connection.succeeded(); // it may exist soon: the wait does not grow
      await this.connection.wait(new Error("the session does not exist yet", { cause: error }));
      return;
    }
    await this.connection.wait(error);
  }
}

/** How often a snapshot is loaded for one cleanup. */
const maxReloads = 5;

/** sequenceOf returns the number in an id. */
function sequenceOf(id: string): number {
  return Number.parseInt(id, 10) || 0;
}
