import { authorized } from "./credential.js";

/** A response that is not the requested one. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    /** The wait that the server asks for, in milliseconds. */
    readonly after: number,
  ) {
    super(message);
  }
}

/** The members of a row of GET /v1/sessions. */
export interface ListedSession {
  session: { id: string; agentType?: string; owner?: string };
  status: string;
  streamSequence: number;
  created: number;
  began: number | null;
  timestamp: number;
  title?: string;
  runs?: number;
  messages?: number;
  usage?: ModelUsage[];
  cost?: string;
  currency?: string;
  costAtLeast?: boolean;
  failedCalls?: number;
  error?: { code?: string; text: string; tool?: string; group: string; time?: number } | null;
  waits?: { approvals: number; clientTools: number };
  /** What a fork continues. */
  origin?: { session: string };
}

export interface ModelUsage {
  model?: string;
  input: number;
  output: number;
}

export interface SessionList {
  sessions: ListedSession[];
  before: string | null;
  scanned: number;
  /** The time to which the page goes back if there are earlier sessions. */
  through?: number;
}

/** The members of GET /v1/sessions/summary. A view leaves out what it hides. */
export interface Summary {
  sessions: number;
  complete: boolean;
  through?: number;
  byStatus: Record<string, number>;
  waiting?: number;
  usage?: ModelUsage[];
  cost?: string;
  currency?: string;
  costAtLeast?: boolean;
  errors?: ErrorGroup[];
}

export interface ErrorGroup {
  group: string;
  code?: string;
  tool?: string;
  text: string;
  count: number;
  first?: number;
  last?: number;
}

/** request sends a request with the credential of the page: the cookie of the browser, or the token of a shared session. It throws what fetch throws. */
export function request(path: string, init: RequestInit = {}): Promise<Response> {
  return fetch(path, authorized(init));
}

/** getJSON requests JSON of the edge. It throws a Problem, or what fetch throws. */
export async function getJSON<T>(path: string, signal?: AbortSignal): Promise<T> {
  return JSON.parse(await getText(path, signal)) as T;
}

/** getText is getJSON for a caller that reads the text. */
export async function getText(path: string, signal?: AbortSignal): Promise<string> {
  const response = await request(path, { headers: { Accept: "application/json" }, ...(signal && { signal }) });
  if (!response.ok) throw await problemOf(response);
  return response.text();
}

/** postJSON sends JSON, and returns the response without its body, which may be a stream. */
export async function postJSON(path: string, body: unknown): Promise<Response> {
  const response = await post(path, JSON.stringify(body));
  await response.body?.cancel();
  return response;
}

/** postForJSON sends the text of JSON, and returns the JSON of the response. */
export async function postForJSON<T>(path: string, body: string): Promise<T> {
  return (await (await post(path, body)).json()) as T;
}

async function post(path: string, body: string): Promise<Response> {
  const response = await request(path, { method: "POST", headers: { "Content-Type": "application/json" }, body });
  if (!response.ok) throw await problemOf(response);
  return response;
}

/** remove deletes what has a path, and returns the headers of the response. */
export async function remove(path: string): Promise<Headers> {
  const response = await request(path, { method: "DELETE" });
  if (!response.ok) throw await problemOf(response);
  return response.headers;
}

/** signIn trades a token for the cookie of the browser. */
export async function signIn(token: string): Promise<void> {
  const response = await fetch("/v1/session-cookie", { method: "POST", headers: { Authorization: `Bearer ${token}` } });
  if (!response.ok) throw await problemOf(response);
}

async function problemOf(response: Response): Promise<Problem> {
  const after = 1000 * (Number(response.headers.get("Retry-After")) || 0);
  try {
    const { code, title, detail, error } = (await response.json()) as Record<string, string | undefined>;
    const text = [title ?? error, detail].filter(Boolean).join(": ");
    return new Problem(response.status, code ?? "", text || response.statusText, after);
  } catch {
    return new Problem(response.status, "", `HTTP ${response.status}`, after);
  }
}

/** explain is a sentence for users. */
export function explain(error: unknown): string {
  if (error instanceof Problem) return error.message;
  if (error instanceof TypeError) return "The server cannot be reached.";
  return error instanceof Error ? error.message : String(error);
}
