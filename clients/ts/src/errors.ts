/** A response of the edge that a retry does not change, such as an unknown session or a missing right. */
export class TailraceError extends Error {
  /** The HTTP status, 0 if there was no response. */
  readonly status: number;
  /** The code of the problem, such as STREAM_NOT_FOUND; "" without one. */
  readonly code: string;
  /** What is wrong; "" without one. */
  readonly detail: string;
  /** The number of the line that was refused, for a request with lines. */
  readonly line: number | undefined;
  /** The name that was probably meant, for one that does not exist. */
  readonly nearest: string | undefined;
  /** The members of the problem (RFC 9457). */
  readonly problem: Record<string, unknown>;

  constructor(message: string, status: number, problem: Record<string, unknown> = {}) {
    super(message);
    this.name = "TailraceError";
    this.status = status;
    this.problem = problem;
    const { code, detail, line, nearest } = problem;
    this.code = textOr(code, "");
    this.detail = textOr(detail, "");
    this.line = typeof line === "number" ? line : undefined;
    this.nearest = textOr(nearest, undefined);
  }
}

function textOr<T>(value: unknown, or: T): string | T {
  return typeof value === "string" ? value : or;
}

/** describe returns the text of a problem: its title, what is wrong, what was probably meant, and with lines which one, and how many are stored. */
export function describe(title: string, problem: Record<string, unknown>): string {
  const { detail, line, nearest, stored } = problem;
  const text = title + (typeof detail === "string" ? `: ${detail}` : "");
  const hint = typeof nearest === "string" && !text.includes(nearest) ? `; did you mean ${nearest}?` : "";
  return text + hint + (typeof line === "number" ? ` (line ${line}, ${Number(stored ?? 0)} stored)` : "");
}

/** problemOf reads the problem in a response with an error status. It throws what fetch throws if the response is cut: its code may say that a retry helps. */
export async function problemOf(response: Response): Promise<TailraceError> {
  let problem: Record<string, unknown> = {};
  const text = await response.text();
  try {
    const body: unknown = JSON.parse(text);
    if (typeof body === "object" && body !== null) problem = body as Record<string, unknown>;
  } catch {
    // not JSON: the status says enough
  }
  const { error, title = response.statusText } = problem;
  if (typeof error === "string" && !("title" in problem)) return new TailraceError(error, response.status, problem); // of a chat: a text for users
  return new TailraceError(describe(`${response.status} ${title}`.trim(), problem), response.status, problem);
}
