import { problemOf, TailraceError } from "./errors.js";

/** How to reach an edge. */
export interface ConnectionOptions {
  /** The address of the edge, such as https://edge.example. */
  url: string;
  /** A bearer token that does not change. */
  token?: string;
  /**
   * Returns a bearer token. It is called before the first request, and again after a 401 with refresh set: return another token then. An error of it is retried
   * like a failed connection, unless it is a TailraceError. An empty token is not sent.
   */
  getToken?: (request: { refresh: boolean }) => string | Promise<string>;
  /** Sends cookies, for the session cookie of an edge of the same site. Defaults to the rule of fetch. */
  credentials?: RequestCredentials;
  /** Ends everything. The reason of the signal is thrown. */
  signal?: AbortSignal;
  /** Replaces fetch, for tests and other runtimes. */
  fetch?: typeof globalThis.fetch;
  /** Called before each wait for another attempt. */
  onRetry?: (retry: { attempt: number; delay: number; error: unknown }) => void;
}

/** The longest wait between two attempts, in milliseconds. */
const maxDelay = 30_000;

/** backoff returns the wait before an attempt: exponential, with a random part, so that clients of an edge that has stopped do not come back together. */
export function backoff(first: number, attempt: number, random: () => number = Math.random, most = maxDelay): number {
  const longest = Math.min(most, first * 2 ** Math.min(attempt - 1, 16));
  return longest / 2 + random() * (longest / 2);
}

/** sleep waits, or throws the reason of the signal. */
export function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** A response that another attempt may change. */
export class RetryLater extends Error {
  /** The wait that the server asks for, in milliseconds; 0 for none. */
  readonly after: number;

  constructor(cause: TailraceError, after: number) {
    super(cause.message, { cause });
    this.after = after;
  }
}

/** Requests to one edge, with its credential. */
export class Connection {
  /** The first wait, in milliseconds: the server may ask for another one. */
  firstDelay = 1_000;
  /** The longest wait, in milliseconds. */
  longestDelay = maxDelay;

  private token: string | undefined;
  private stale = false; // the edge does not accept the token any more
  private attempts = 0;

  constructor(private readonly options: ConnectionOptions) {
    this.token = options.token;
    options.signal?.throwIfAborted();
  }

  /** succeeded ends a series of failed attempts. */
  succeeded(): void {
    this.attempts = 0;
  }

  /** renew asks for another token before the next request, and reports whether there may be one. */
  renew(): boolean {
    this.stale = this.options.getToken !== undefined;
    return this.stale;
  }

  /** wait waits before the next attempt, or throws an error that no attempt changes. */
  async wait(error: unknown): Promise<void> {
    const { signal, onRetry } = this.options;
    signal?.throwIfAborted();
    if (error instanceof TailraceError) throw error;
    this.attempts++;
    const delay = Math.max(backoff(this.firstDelay, this.attempts, Math.random, this.longestDelay), error instanceof RetryLater ? error.after : 0);
    onRetry?.({ attempt: this.attempts, delay, error });
    await sleep(delay, signal);
  }

  /** send sends a request, with a new token if the first one is refused. It throws a TailraceError, a RetryLater, or what fetch throws. */
  async send(path: string, init: RequestInit & { duplex?: "half" }, accept: readonly number[] = [200]): Promise<Response> {
    for (let refreshed = this.stale; ; refreshed = true) {
      const response = await this.sendOnce(path, init, refreshed);
      if (accept.includes(response.status)) return response;
      const problem = await problemOf(response);
      if (response.status === 401 && this.options.getToken !== undefined && !refreshed) {
        if (!(init.body instanceof ReadableStream)) continue;
        this.renew();
        throw new RetryLater(problem, 0); // the caller has the body
      }
      // A browser accepts a status line that was cut: "HTTP/1.1 20" has the status 20.
      const again = [408, 425, 429].includes(response.status) || ["SUPERSEDED", "BODY_CUT"].includes(problem.code); // a request that was given up and came late, or a proxy
      const final = response.status >= 400 && response.status < 500 && !again;
      if (!final) {
        throw new RetryLater(problem, 1000 * (Number(response.headers.get("Retry-After")) || 0));
      }
      throw problem;
    }
  }

  /** exchange sends a request and reads its whole response, which may take long as long as bytes arrive. idleTimeout is in milliseconds. */
  async exchange(path: string, init: RequestInit = {}, accept?: readonly number[], idleTimeout = defaultIdleTimeout): Promise<{ status: number; text: string }> {
    const idle = new IdleTimer(idleTimeout, this.options.signal);
    try {
      const response = await this.send(path, { ...init, signal: idle.signal }, accept);
      return { status: response.status, text: await textOf(response, idle) };
    } finally {
      idle.close();
    }
  }

  /** repeat calls f until it succeeds. It throws what no retry changes. Without a success within the time, in milliseconds, it throws the error of the last attempt. */
  async repeat<T>(f: () => Promise<T>, time = Infinity): Promise<T> {
    for (const end = Date.now() + time; ; ) {
      try {
        const result = await f();
        this.succeeded();
        return result;
      } catch (error) {
        if (Date.now() + (error instanceof RetryLater ? error.after : 0) >= end) throw error;
        await this.wait(error);
      }
    }
  }

  private async sendOnce(path: string, init: RequestInit, refresh: boolean): Promise<Response> {
    const { url, getToken, credentials, fetch = globalThis.fetch } = this.options;
    if (getToken !== undefined && (refresh || this.token === undefined)) this.token = await getToken({ refresh });
    this.stale = false;
    const headers = new Headers(init.headers);
    if (this.token) headers.set("Authorization", `Bearer ${this.token}`);
    const request: RequestInit = { cache: "no-store", ...init, headers };
    if (credentials !== undefined) request.credentials = credentials;
    return fetch(url.replace(/\/+$/, "") + path, request);
  }
}

/** The time without a byte after which a connection is taken for dead, in milliseconds. The edge writes every 15 seconds. */
export const defaultIdleTimeout = 45_000;

/** Aborts a request that gets no byte for too long, or whose caller is aborted. */
export class IdleTimer {
  private readonly controller = new AbortController();
  private readonly stop: () => void;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly timeout: number,
    private readonly caller: AbortSignal | undefined,
  ) {
    caller?.throwIfAborted(); // an aborted signal has no further event
    this.stop = () => this.controller.abort(caller?.reason);
    caller?.addEventListener("abort", this.stop, { once: true });
    this.reset();
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  /** reset begins to wait for the next byte. */
  reset(): void {
    this.pause();
    if (this.timeout > 0 && !this.signal.aborted) this.timer = setTimeout(() => this.controller.abort(new Error(`no byte for ${this.timeout} ms`)), this.timeout);
  }

  /** pause does not wait: the time in which the caller handles bytes does not count. */
  pause(): void {
    clearTimeout(this.timer);
  }

  /** close aborts the request, which closes the connection unless the response is complete. */
  close(): void {
    this.pause();
    this.caller?.removeEventListener("abort", this.stop);
    this.controller.abort();
  }
}

/** textOf reads a response whose body may take long, as long as bytes arrive. */
async function textOf(response: Response, idle: IdleTimer): Promise<string> {
  if (response.body === null) return "";
  const decoder = new TextDecoder();
  let text = "";
  for (const reader = response.body.getReader(); ; ) {
    idle.reset();
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    text += decoder.decode(value, { stream: true });
  }
}

/** query returns a query string of the members that are set. */
export function query(members: Record<string, string | number | undefined>): string {
  const list = new URLSearchParams();
  for (const [name, value] of Object.entries(members)) {
    if (value !== undefined && value !== "") list.set(name, String(value));
  }
  const text = list.toString();
  return text === "" ? "" : `?${text}`;
}
