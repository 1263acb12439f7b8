import { TailraceError } from "./errors.js";
import { Connection, defaultIdleTimeout, IdleTimer, RetryLater, type ConnectionOptions } from "./http.js";
import { EventParser } from "./sse.js";

/** live: requests succeed; reconnecting: an answer has lost its connection; offline: the edge does not respond, or cannot, and is asked again. */
export type ConnectionState = "live" | "reconnecting" | "offline";

/**
 * The last event of a chat that the page has: "<sequence>-<anchor>", or a sequence alone. The cursor of a snapshot counts while an answer is in progress, which it
 * precedes, and after the page has sent a message. Otherwise it follows a message that the page has from the snapshot: if that one continues before the next request,
 * the page needs all of it, because the AI SDK starts the message again.
 */
export interface Cursor {
  id: string;
  counts: boolean;
}

/** A request whose response is an answer. */
export interface AnswerRequest {
  options: ConnectionOptions & { onConnection?: ((state: ConnectionState) => void) | undefined };
  cursor: Cursor;
  /** The path of the stream of the chat, where an answer continues. */
  stream: string;
  /** The message to post; undefined to read the answer in progress. */
  post?: {
    path: string;
    headers: HeadersInit;
    body: string;
    /** The edge knows the message by its id: sent again, it is the same message. */
    repeats: boolean;
    /** The message waits if another answer is in progress. */
    waits: boolean;
  };
  signal: AbortSignal;
  /** Called when the response has ended, for whatever reason. */
  onEnd: () => void;
}

/** A response that is read. */
interface Open {
  response: Response;
  idle: IdleTimer;
}

/** firstWait and longestWait bound the wait before another connection, in milliseconds. */
export const firstWait = 100;
export const longestWait = 10_000;

/**
 * openAnswer returns one response that outlives its connections: whole records of the log, each once and in order, until the end of the answer. It is 204 if there is
 * nothing to read. It throws a TailraceError for what no other request changes, and the reason of the signal.
 */
export async function openAnswer(request: AnswerRequest): Promise<Response> {
  const answer = new Answer(request);
  try {
    const open = request.post ? await answer.post() : await answer.reopen();
    if (open === undefined && !request.post) {
      answer.close();
      return new Response(null, { status: 204 });
    }
    return new Response(bodyOf(answer.records(open), answer), { headers: { "Content-Type": "text/event-stream" } });
  } catch (error) {
    answer.close();
    throw error;
  }
}

class Answer {
  private readonly ended = new AbortController();
  private readonly waits: Connection;
  private readonly abort = () => this.ended.abort(this.request.signal.reason);
  private passed = false; // records of this answer
  private complete = false; // its last event was passed
  private lost = false; // the connection

  constructor(private readonly request: AnswerRequest) {
    request.signal.throwIfAborted();
    request.signal.addEventListener("abort", this.abort, { once: true });
    this.waits = new Connection({ ...request.options, signal: this.ended.signal });
    this.waits.firstDelay = firstWait;
    this.waits.longestDelay = longestWait;
  }

  /** close closes the connection. */
  close(): void {
    this.request.signal.removeEventListener("abort", this.abort);
    this.ended.abort();
    if (this.lost) this.state("offline"); // until the next request
    this.request.onEnd();
  }

  /** post sends the message. Without a response it may be stored all the same: the snapshot tells. The stream does not, it may have the answer to another message. */
  async post(): Promise<Open | undefined> {
    for (;;) {
      try {
        return await this.sendPost();
      } catch (error) {
        this.ended.signal.throwIfAborted();
        const refusal = error instanceof RetryLater ? error.cause : error;
        if (refusal instanceof TailraceError && refusal.status < 500) throw refusal;
        if (this.request.post!.repeats && error instanceof RetryLater && error.after > 0) {
          await this.waits.wait(error);
          continue;
        }
        if (refusal instanceof TailraceError && refusal.code === "STREAM_CREATION_ERROR") return this.reopen(error);
        if (refusal instanceof TailraceError) throw refusal;
        throw new TailraceError("The message was not delivered: there is no connection.", 0, { code: "UNREACHABLE" });
      }
    }
  }

  /** reopen reads the answer, after a wait if a connection was lost, until the edge responds. It returns undefined if there is nothing to read. */
  async reopen(lost?: unknown): Promise<Open | undefined> {
    for (;;) {
      if (lost !== undefined) await this.waits.wait(lost);
      try {
        const { post, cursor } = this.request;
        // The answer has not begun. Without a cursor, or while the message waits behind another answer, only the message itself names it.
        if (post?.repeats && !this.passed && (post.waits || !cursor.counts)) return await this.sendPost();
        return await this.read();
      } catch (error) {
        this.ended.signal.throwIfAborted();
        lost = error;
        if (lost instanceof TailraceError) throw lost;
      }
    }
  }

  /** records yields the events of whole records. Only the last event of a record has its id: a page that used the others and lost the rest would get them twice. */
  async *records(open: Open | undefined): AsyncGenerator<string, void, void> {
    for (let resumed = false; open !== undefined; resumed = true) {
      let lost: unknown = new Error("the response ended early");
      let held = "";
      let last = false; // the held events end the answer
      try {
        const parser = new EventParser();
        for (const reader = open.response.body!.getReader(); ; ) {
          open.idle.reset();
          const { done, value } = await reader.read();
          if (done) break;
          open.idle.pause();
          for (const { id, data } of parser.push(value)) {
            if (data === "[DONE]") {
              if (held !== "") yield held;
              return;
            }
            const type = typeOf(data);
            if (type === "start" && resumed && this.passed) throw new TailraceError("The answer has changed. Load the chat again.", 0, { code: "ANSWER_REPLACED" });
            const alone = held === "" && type === "data-run-waiting"; // of no record
            if (data !== undefined) held += `data: ${data}\n\n`;
            last ||= type === "finish" || type === "error" || type === "abort";
            if (id !== undefined) {
              Object.assign(this.request.cursor, { id, counts: true });
              this.passed = true;
              this.complete = last;
              this.waits.succeeded();
            } else if (!alone) continue;
            if (held !== "") yield held;
            held = "";
          }
        }
      } catch (error) {
        if (error instanceof TailraceError) throw error;
        lost = error;
      } finally {
        open.idle.close();
      }
      this.ended.signal.throwIfAborted();
      if (this.complete) return;
      this.state("reconnecting");
      open = await this.reopen(lost);
    }
  }

  private async sendPost(): Promise<Open | undefined> {
    const { path, headers, body } = this.request.post!;
    // The message, and with it the answer, follows what the page has.
    this.request.cursor.counts = this.request.cursor.id !== "";
    return this.send(path, { method: "POST", headers, body }, [200]);
  }

  /** read asks for the events after the cursor. */
  private read(): Promise<Open | undefined> {
    const { stream, cursor } = this.request;
    return this.send(stream, cursor.counts ? { headers: { "X-Resume-From-Sequence": cursor.id } } : {}, [200, 204]);
  }

  private async send(path: string, init: RequestInit, accept: number[]): Promise<Open | undefined> {
    const idle = new IdleTimer(defaultIdleTimeout, this.ended.signal);
    try {
      // Each request asks for a token: that of the one before may have expired, which has ended its response.
      const response = await new Connection(this.request.options).send(path, { ...init, signal: idle.signal }, accept);
      this.state("live");
      if (response.status === 200) return { response, idle };
    } catch (error) {
      idle.close();
      if (!this.ended.signal.aborted) this.state(error instanceof TailraceError ? "live" : "offline");
      throw error;
    }
    idle.close();
    return undefined;
  }

  private state(state: ConnectionState): void {
    this.lost = state === "reconnecting";
    this.request.options.onConnection?.(state);
  }
}

/** bodyOf is the body of a response with these records. */
function bodyOf(records: AsyncGenerator<string, void, void>, answer: Answer): ReadableStream<Uint8Array<ArrayBuffer>> {
  const encoder = new TextEncoder();
  return new ReadableStream(
    {
      async pull(controller) {
        try {
          const { done, value } = await records.next();
          if (!done) return controller.enqueue(encoder.encode(value));
          answer.close();
          controller.close();
        } catch (error) {
          answer.close();
          // An error discards what is queued in a chain of streams, which is empty one task later.
          await new Promise((resolve) => setTimeout(resolve));
          throw error;
        }
      },
      cancel: () => answer.close(),
    },
    { highWaterMark: 0 },
  );
}

function typeOf(data: string | undefined): string | undefined {
  try {
    return data === undefined || data === "" ? undefined : (JSON.parse(data) as { type?: string }).type;
  } catch {
    return undefined; // the AI SDK reports it
  }
}
