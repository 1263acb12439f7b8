import { TailraceError } from "../../../../clients/ts/src/errors.js";
import { Outline, outlineOf, withoutRemoved, type LogRecord } from "../../../../clients/ts/src/outline.js";
import { followRecords } from "../../../../clients/ts/src/records.js";
import { explain, Problem } from "./api.js";

/** The connection of a session that is shown. */
export type Connection =
  | { state: "loading" }
  | { state: "live" }
  /** The run is complete. The page asks again for a later one. */
  | { state: "complete" }
  | { state: "lost"; since: number; reason: string }
  /** The session does not exist, or the client has no right to read it. */
  | { state: "unknown" }
  | { state: "refused"; problem: Problem };

/** The first and the longest wait before a complete session is asked for a later run, in milliseconds. */
const [askSoon, askLate] = [2_000, 15_000];

/** The listeners are called after this time if the browser draws no frame, in milliseconds. */
const hiddenFrame = 200;

/** What the tabs show: a session at its end, or at an earlier record. */
export type View = Pick<LiveSession, "id" | "outline" | "records" | "connection">;

/** A session that is read from its first record and followed. What it shows is the outline of its records and nothing else. */
export class LiveSession {
  outline = new Outline();
  records: readonly LogRecord[] = [];
  connection: Connection = { state: "loading" };
  /** again reads the session again, after a refusal. */
  again: () => void = () => undefined;
  /** The records up to this sequence have expired, 0 if the log has all. */
  expired = 0;

  private readonly listeners = new Set<() => void>();
  private readonly stop = new AbortController();
  private planned = false; // the listeners are about to be called

  /** waits: the session may not exist yet, because its first message was just sent. */
  constructor(
    readonly id: string,
    private waits = false,
  ) {
    void this.run();
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  close(): void {
    this.stop.abort();
  }

  /** expectRun makes the next attempt at once: a message was sent. */
  expectRun(): void {
    this.waits = true;
    this.wake?.();
  }

  private wake: (() => void) | undefined;

  private async run(): Promise<void> {
    const { signal } = this.stop;
    for (let wait = askSoon; ; wait = Math.min(wait * 1.5, askLate)) {
      const before = this.outline.position;
      try {
        await this.follow(signal);
        this.set({ state: "complete" });
      } catch (error) {
        if (signal.aborted) return;
        const missing = error instanceof TailraceError && error.status === 404;
        if (!missing || !this.waits) {
          this.set(missing ? { state: "unknown" } : { state: "refused", problem: asProblem(error) });
          return;
        }
      }
      if (this.waits || this.outline.position > before) wait = askSoon;
      await new Promise<void>((resolve) => {
        this.wake = resolve;
        setTimeout(resolve, wait);
      });
      if (signal.aborted) return;
    }
  }

  private async follow(signal: AbortSignal): Promise<void> {
    const after = this.records.at(-1)?.sequence ?? this.expired;
    const onRetry = ({ error }: { error: unknown }) => {
      const { connection } = this;
      const since = connection.state === "lost" ? connection.since : Date.now();
      if (error instanceof Error && error.message === "the stream ended") return;
      this.set({ state: "lost", since, reason: explain(error) });
    };
    for await (const event of followRecords({ url: location.origin, session: this.id, signal, onRetry }, String(after))) {
      switch (event.type) {
        case "records":
          this.add(event.records);
          break;
        case "reset":
          this.expired = 0;
          this.records = [];
          this.outline = new Outline();
          break;
        case "expired":
          this.expired = event.through;
      }
      this.waits = false;
      this.set({ state: "live" });
    }
  }

  private add(records: readonly LogRecord[]): void {
    this.records = this.records.concat(records);
    let cleanup = false;
    for (const record of records) cleanup = !this.outline.apply(record) || cleanup;
    if (!cleanup) return;
    const left = withoutRemoved(this.records);
    if (left.length === this.records.length) return; // the log had removed them already
    this.records = left;
    this.outline = outlineOf(left);
  }

  private set(connection: Connection): void {
    this.connection = connection;
    if (this.planned) return;
    this.planned = true;
    const notify = () => {
      cancelAnimationFrame(frame);
      clearTimeout(timer);
      this.planned = false;
      for (const listener of this.listeners) listener();
    };
    const frame = requestAnimationFrame(notify);
    const timer = setTimeout(notify, hiddenFrame); // a tab in the background has no frames
  }
}

function asProblem(error: unknown): Problem {
  if (error instanceof TailraceError) return new Problem(error.status, error.code, error.message, 0);
  return new Problem(0, "", explain(error), 0);
}
