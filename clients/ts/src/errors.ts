/** A response of the edge that a retry does not change, such as an unknown session or a missing right. */
export class TailraceError extends Error {
  /** The HTTP status, 0 if there was no response. */
  readonly status: number;
  /** The code of the problem, such as STREAM_NOT_FOUND; "" without one. */
  readonly code: string;
  /** The members of the problem (RFC 9457). */
  readonly problem: Record<string, unknown>;

  constructor(message: string, status: number, problem: Record<string, unknown> = {}) {
    super(message);
    this.name = "TailraceError";
    this.status = status;
    this.problem = problem;
    this.code = typeof problem["code"] === "string" ? problem["code"] : "";
  }
}

/** describe returns the text of a problem: its title, what is wrong, and with lines which one, and how many are stored. */
export function describe(title: string, problem: Record<string, unknown>): string {
  const { detail, line, stored } = problem;
  return title + (typeof detail === "string" ? `: ${detail}` : "") + (typeof line === "number" ? ` (line ${line}, ${Number(stored ?? 0)} stored)` : "");
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
  if (typeof problem["error"] === "string") return new TailraceError(problem["error"], response.status, problem); // of a chat: a text for users
  const title = typeof problem["title"] === "string" ? problem["title"] : response.statusText;
  return new TailraceError(describe(`${response.status} ${title}`.trim(), problem), response.status, problem);
}
