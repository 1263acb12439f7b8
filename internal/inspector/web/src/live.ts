import { TailraceError } from "../../../../clients/ts/src/errors.js";
import { RetryLater } from "../../../../clients/ts/src/http.js";
import { Outline, outlineOf, withoutRemoved, type LogRecord } from "../../../../clients/ts/src/outline.js";
import { followRecords } from "../../../../clients/ts/src/records.js";
import { explain, Problem } from "./api.js";
import { bearer } from "./credential.js";

/** The connection of a session that is shown. */
export type Connection =
  | { state: "loading" }
  | { state: "live" }
  /** The run is complete. The page asks again for a later one. */
  | { state: "complete" }
  /** refused: there was a response, which asks for a later attempt. next is the time of that attempt. */
  | { state: "lost"; since: number; next: number; reason: string; refused: boolean }
  /** The session does not exist, or the client has no right to read it. since is the time at which a session that was shown disappeared, 0 for one that was not. */
  | { state: "unknown"; since: number }
  /** The records are in a file. */
  | { state: "file" }
  | { state: "refused"; problem: Problem };

/** The first and the longest wait before a complete session is asked for a later run, in milliseconds. */
const [askSoon, askLate] = [2_000, 15_000];

/** The listeners are called after this time if the browser draws no frame, in milliseconds. */
const hiddenFrame = 200;

/** How many records the page shows in a millisecond, about: the listeners wait for so long after a call, and most of the time is there for reading. */
const shownInMillisecond = 250;

/** The most records in the memory of a page. When there are more, the first half is forgotten, so that which ones stay depends on their number alone. */
export const mostRecords = 200_000;

/** A session that is shown: one that is followed, or one in a file. */
export type Shown = Pick<LiveSession, "id" | "view" | "readOnly" | "outline" | "records" | "connection" | "again" | "expired" | "forgotten">;

/** What the tabs show: a session at its end, or at an earlier record. */
export type View = Pick<Shown, "id" | "view" | "readOnly" | "outline" | "records" | "connection" | "forgotten">;

/** How a session is read. */
export interface Reading {
  /** The audience view, "" for that of the client. */
  view?: string;
  /** The session may not exist yet, because its first message was just sent. */
  waits?: boolean;
  /** The page offers nothing that changes the session. */
  readOnly?: boolean;
}

/** A session that is read from its first record and followed. What it shows is the outline of its records and nothing else. */
export class LiveSession {
  outline = new Outline();
  records: readonly LogRecord[] = [];
  connection: Connection = { state: "loading" };
  /** again reads the session again, after a refusal. */
  again: () => void = () => undefined;
  /** The records up to this sequence have expired, 0 if the log has all. */
  expired = 0;
  /** The records up to this sequence are not in the page, which has the latest ones, 0 if it has all. */
  forgotten = 0;

  private readonly listeners = new Set<() => void>();
  private readonly stop = new AbortController();
  private planned = false; // the listeners are about to be called
  private called = 0; // when they were called last

  readonly view: string;
  readonly readOnly: boolean;
  private waits: boolean;

  constructor(
    readonly id: string,
    { view = "", waits = false, readOnly = false }: Reading = {},
  ) {
    this.view = view;
    this.waits = waits;
    this.readOnly = readOnly;
    void this.run();
  }

  /** subscribe calls the listener after each later change. */
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
          this.set(missing ? { state: "unknown", since: this.records.length === 0 ? 0 : Date.now() } : { state: "refused", problem: asProblem(error) });
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
    const onRetry = ({ error, delay }: { error: unknown; delay: number }) => {
      const { connection } = this;
      const since = connection.state === "lost" ? connection.since : Date.now();
      if (error instanceof Error && error.message === "the stream ended") return;
      this.set({ state: "lost", since, next: Date.now() + delay, reason: explain(error), refused: error instanceof RetryLater });
    };
    const onOpen = () => {
      if (this.connection.state === "lost") this.set({ state: "live" });
    };
    const token = bearer();
    const options = { url: location.origin, session: this.id, signal, onRetry, onOpen, ...(this.view !== "" && { view: this.view }), ...(token !== "" && { token }) };
    for await (const event of followRecords(options, String(after))) {
      switch (event.type) {
        case "records":
          this.add(event.records);
          break;
        case "reset":
          this.expired = this.forgotten = 0;
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
    const before = this.forgotten;
    while (this.records.length > mostRecords) {
      this.forgotten = this.records[mostRecords / 2 - 1]?.sequence ?? 0;
      this.records = this.records.slice(mostRecords / 2);
    }
    if (!cleanup && this.forgotten === before) return;
    const left = withoutRemoved(this.records);
    if (left.length === this.records.length && this.forgotten === before) return; // the log had removed them already
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
      this.called = performance.now();
      for (const listener of this.listeners) listener();
    };
    const pause = this.called + this.records.length / shownInMillisecond - performance.now();
    const frame = pause > 0 ? 0 : requestAnimationFrame(notify);
    const timer = setTimeout(notify, pause > 0 ? pause : hiddenFrame); // a tab in the background has no frames
  }
}

function asProblem(error: unknown): Problem {
  if (error instanceof TailraceError) return new Problem(error.status, error.code, error.message, 0);
  return new Problem(0, "", explain(error), 0);
}
