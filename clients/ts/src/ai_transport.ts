import { DefaultChatTransport, type ChatTransport, type UIMessage, type UIMessageChunk } from "ai";
import { firstWait, longestWait, openAnswer, type AnswerRequest, type ConnectionState, type Cursor } from "./ai_answer.js";
import { TailraceError } from "./errors.js";
import { Connection, query, type ConnectionOptions } from "./http.js";

export { TailraceError };

/** The state of a chat without the answer in progress, which the stream has from its beginning. */
export interface ChatSnapshot<M extends UIMessage = UIMessage> {
  messages: M[];
  /** The position of the snapshot in the log. */
  streamSequence: number;
  status: "active" | "paused" | "ended" | "failed";
  /** Of a failed answer. */
  error?: { message: string };
  /** Other answers and versions of messages: by the first message of a turn, those of all turns in its place. */
  branches?: Record<string, string[]>;
}

/** How to reach the chats. */
export interface TransportOptions extends Omit<ConnectionOptions, "url" | "signal" | "onRetry"> {
  /** The address of the edge. Defaults to that of the page. */
  url?: string;
  /** The agent of new chats. */
  agentType?: string;
  /** The audience view. */
  view?: string;
  /** Aborting sendMessages, as stop() of the AI SDK does, stops the run. Otherwise it only closes the connection. Defaults to true. */
  stopOnAbort?: boolean;
  /** Called when the state of the connection changes. */
  onConnection?: (state: ConnectionState) => void;
}

type SendOptions<M extends UIMessage> = Parameters<ChatTransport<M>["sendMessages"]>[0];
type ReconnectOptions<M extends UIMessage> = Parameters<ChatTransport<M>["reconnectToStream"]>[0];

/**
 * A transport for Chat and useChat of the AI SDK whose streams outlive their connections: after a lost one they continue after the last record that arrived. Errors are
 * TailraceErrors with a text for users.
 */
export class TailraceChatTransport<M extends UIMessage = UIMessage> implements ChatTransport<M> {
  private readonly cursors = new Map<string, Cursor>();
  private readonly reconnects = new Map<string, AbortController>();
  private readonly connection: ConnectionOptions & { onConnection?: (state: ConnectionState) => void };

  constructor(private readonly options: TransportOptions = {}) {
    this.connection = { ...options, url: options.url ?? "" };
  }

  async sendMessages(request: SendOptions<M>): Promise<ReadableStream<UIMessageChunk>> {
    const { chatId, trigger, messageId, abortSignal: signal } = request;
    this.reconnects.get(chatId)?.abort();
    const stop = () => void this.stop(chatId).catch(() => {}); // then the run continues
    if (this.options.stopOnAbort ?? true) signal?.addEventListener("abort", stop, { once: true });
    const messages = lastTurn(request.messages);
    const body = { ...(this.options.agentType && { agentType: this.options.agentType }), ...request.body };
    const post = {
      path: `/api/chat${this.query()}`,
      waits: "mode" in body,
      repeats: trigger === "submit-message" && (messageId === undefined || messages.at(-1)?.role === "assistant"),
    };
    return this.stock(chatId, signal, () => signal?.removeEventListener("abort", stop), post).sendMessages({ ...request, messages, body });
  }

  async reconnectToStream(request: ReconnectOptions<M>): Promise<ReadableStream<UIMessageChunk> | null> {
    const { chatId, abortSignal } = request;
    const given = new AbortController(); // aborted by a message that is sent before the edge responds
    this.reconnects.set(chatId, given);
    const abort = () => given.abort(abortSignal?.reason);
    abortSignal?.throwIfAborted();
    abortSignal?.addEventListener("abort", abort, { once: true });
    try {
      return await this.stock(chatId, given.signal, () => abortSignal?.removeEventListener("abort", abort)).reconnectToStream(request);
    } catch (error) {
      if (given.signal.aborted && !abortSignal?.aborted) return null;
      throw error;
    } finally {
      if (this.reconnects.get(chatId) === given) this.reconnects.delete(chatId);
    }
  }

  /** stop asks for a stop of the run, which ends the answer. It returns false if no answer is in progress. */
  async stop(chatId: string): Promise<boolean> {
    const path = `${this.path(chatId)}/stop${this.query()}`;
    const response = await this.reported(() => new Connection(this.connection).send(path, { method: "POST" }, [202, 204])).catch((error) => {
      throw error instanceof TailraceError ? error : new TailraceError("The answer was not stopped: there is no connection.", 0, { code: "UNREACHABLE" });
    });
    return response.status === 202;
  }

  /** snapshot returns the state of a chat, or of one of its branches: the latest one that has the message. A chat that does not exist is empty. */
  snapshot(chatId: string, { branch, signal }: { branch?: string | undefined; signal?: AbortSignal } = {}): Promise<ChatSnapshot<M>> {
    const path = `${this.path(chatId)}/snapshot${this.query({ branch })}`;
    return this.reported(async () => {
      const response = await new Connection(this.connection).send(path, signal ? { signal } : {}, [200, 404]);
      return response.status === 404 ? { messages: [], streamSequence: 0, status: "ended" } : ((await response.json()) as ChatSnapshot<M>);
    }, signal);
  }

  /** reach returns the snapshot of a chat. While the edge does not respond it waits, and asks again. */
  async reach(chatId: string, signal?: AbortSignal): Promise<ChatSnapshot<M>> {
    const waits = new Connection({ url: "", ...(signal && { signal }) });
    waits.firstDelay = firstWait;
    waits.longestDelay = longestWait;
    for (;;) {
      try {
        return await this.snapshot(chatId, signal && { signal });
      } catch (error) {
        await waits.wait(error);
      }
    }
  }

  /** load reaches the snapshot with which a page begins. What reconnectToStream returns follows it. */
  async load(chatId: string, signal?: AbortSignal): Promise<ChatSnapshot<M>> {
    const snapshot = await this.reach(chatId, signal);
    signal?.throwIfAborted();
    this.cursors.set(chatId, { id: String(snapshot.streamSequence), counts: snapshot.status === "active" });
    return snapshot;
  }

  /** position returns the sequence of the last record that has arrived. */
  position(chatId: string): number {
    return Number.parseInt(this.cursor(chatId).id, 10);
  }

  /** stock returns the transport of the AI SDK, which parses the stream, for one request. */
  private stock(chatId: string, signal: AbortSignal | undefined, onEnd: () => void, post?: Omit<NonNullable<AnswerRequest["post"]>, "headers" | "body">): DefaultChatTransport<M> {
    return new DefaultChatTransport<M>({
      prepareReconnectToStreamRequest: () => ({ api: "/" }), // not used: ids such as ".." are ids
      fetch: (_, init) =>
        openAnswer({
          options: this.connection,
          cursor: this.cursor(chatId),
          stream: `${this.path(chatId)}/stream${this.query()}`,
          signal: signal ?? new AbortController().signal,
          onEnd,
          ...(post && { post: { ...post, headers: init?.headers ?? {}, body: String(init?.body) } }),
        }),
    });
  }

  /** reported reports whether the edge responds. */
  private async reported<T>(request: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const { onConnection } = this.options;
    try {
      const result = await request();
      onConnection?.("live");
      return result;
    } catch (error) {
      if (!signal?.aborted) onConnection?.(error instanceof TailraceError ? "live" : "offline");
      throw error;
    }
  }

  private cursor(chatId: string): Cursor {
    let cursor = this.cursors.get(chatId);
    if (cursor === undefined) this.cursors.set(chatId, (cursor = { id: "", counts: false }));
    return cursor;
  }

  private path(chatId: string): string {
    return `/api/chat/${encodeURIComponent(chatId)}`;
  }

  private query(members: Record<string, string | undefined> = {}): string {
    return query({ view: this.options.view, ...members });
  }
}

/** lastTurn returns the last message of the assistant, which may have answers to calls, and what follows it: the edge has the rest. */
function lastTurn<M extends UIMessage>(messages: M[]): M[] {
  return messages.slice(Math.max(0, messages.findLastIndex((message) => message.role === "assistant")));
}

const stale = ["ALREADY_ANSWERED", "CALL_EXPIRED", "INPUT_MISMATCH", "EXECUTION_ERROR", "CONTENT_TOO_LARGE", "ANSWER_REPLACED", "RESUME_REJECTED"];

/**
 * isStale reports whether an error means that the page shows what the chat does not have, and is to load it again: after a message or an answer of another tab, after a
 * message that is too large, or for a user who is not signed in any more.
 */
export function isStale(error: unknown): boolean {
  return error instanceof TailraceError && (error.status === 401 || stale.includes(error.code));
}
