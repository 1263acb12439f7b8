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
}

export interface SessionList {
  sessions: ListedSession[];
  before: string | null;
}

/** getJSON requests JSON of the edge with the credential of the browser, a cookie. It throws a Problem, or what fetch throws. */
export async function getJSON<T>(path: string, signal?: AbortSignal): Promise<T> {
  return JSON.parse(await getText(path, signal)) as T;
}

/** getText is getJSON for a caller that reads the text. */
export async function getText(path: string, signal?: AbortSignal): Promise<string> {
  const response = await fetch(path, { headers: { Accept: "application/json" }, ...(signal && { signal }) });
  if (!response.ok) throw await problemOf(response);
  return response.text();
}

/** postJSON sends JSON, and returns the response without its body, which may be a stream. */
export async function postJSON(path: string, body: unknown): Promise<Response> {
  const response = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  if (!response.ok) throw await problemOf(response);
  await response.body?.cancel();
  return response;
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
