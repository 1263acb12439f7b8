import { Connection, defaultIdleTimeout, IdleTimer, query, type ConnectionOptions } from "./http.js";
import type { LogRecord } from "./outline.js";
import { EventParser } from "./sse.js";

/** What to read. */
export interface RecordOptions extends ConnectionOptions {
  /** The id of the session. */
  session: string;
  /** The root of the tree, if the session is a sub-agent's. */
  root?: string;
  /** The audience view. */
  view?: string;
  /** The time without a byte, in milliseconds, after which a connection is taken for dead. Defaults to 45,000. */
  idleTimeout?: number;
  /** Called when a connection is open, before its first record. */
  onOpen?: () => void;
}

/** What followRecords yields. */
export type RecordEvent =
  /** The next records of the session and its sub-agents, in the order of their sequences. */
  | { type: "records"; records: LogRecord[] }
  /** Forget all records: they are read again from the first one. */
  | { type: "reset" }
  /** The log no longer has the records up to this sequence, which have expired. */
  | { type: "expired"; through: number };

/**
 * followRecords yields the records of a session and of its sub-agents from the first one, and those that follow, each once, across cut connections. It ends when the run
 * is complete; with the last sequence as after it continues later. It throws a TailraceError for what no retry changes, and the reason of the signal.
 */
export async function* followRecords(options: RecordOptions, after = "0"): AsyncGenerator<RecordEvent, void, void> {
  const connection = new Connection(options);
  const path = `/v1/sessions/${encodeURIComponent(options.session)}/events`;
  let cursor = after;
  for (;;) {
    const idle = new IdleTimer(options.idleTimeout ?? defaultIdleTimeout, options.signal);
    try {
      const members = { after: cursor, root: options.root, view: options.view, dialect: "records" };
      const response = await connection.send(path + query(members), { headers: { Accept: "text/event-stream" }, signal: idle.signal }, [200, 204]);
      if (response.status === 204) return;
      if (response.body === null) throw new Error("the response has no body");
      options.onOpen?.();
      const parser = new EventParser();
      let restart = false;
      for (const reader = response.body.getReader(); ; ) {
        idle.reset();
        const { done, value } = await reader.read();
        if (done) break;
        idle.pause();
        const records: LogRecord[] = [];
        for (const { id, data } of parser.push(value)) {
          if (id !== undefined) cursor = id;
          if (data === undefined) continue;
          if (data.startsWith('{"sequence":')) {
            records.push(recordOf(data));
            continue;
          }
          const moved = JSON.parse(data) as { reason?: string; resumeFrom?: number };
          if (records.length > 0) yield { type: "records", records: records.splice(0) };
          yield { type: "reset" };
          if (moved.reason === "expired") yield { type: "expired", through: moved.resumeFrom ?? 0 };
          else restart = true;
        }
        if (parser.retry !== undefined) connection.firstDelay = Math.max(parser.retry, 1);
        if (records.length > 0) {
          connection.succeeded();
          yield { type: "records", records };
        }
        if (restart) break;
      }
      if (restart) cursor = "0";
      else await connection.wait(new Error("the stream ended")); // the next request says whether the run is complete
    } catch (error) {
      await connection.wait(error);
    } finally {
      idle.close();
    }
  }
}

/** recordOf reads an event. Its last member is the chunk, which keeps the bytes that are stored. */
function recordOf(event: string): LogRecord {
  const start = event.indexOf(',"data":');
  const envelope = JSON.parse(`${event.slice(0, start)}}`) as Omit<LogRecord, "data">;
  return { ...envelope, data: event.slice(start + ',"data":'.length, -1) };
}
