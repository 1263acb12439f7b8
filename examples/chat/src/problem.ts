// Problem is why the edge refused: a code for programs, a sentence for people.
type Problem = { error: string; code: string };

// explain is what to tell people of an error. The AI SDK makes the body of a
// refusal the text of an error.
export function explain(error: Error): string {
  return problemOf(error)?.error ?? (error.message || 'Something went wrong.');
}

// isStale reports whether a refusal means that the page does not show the chat as
// it is: somebody was faster, in another tab.
export function isStale(error: Error): boolean {
  const code = problemOf(error)?.code;
  return code === 'ALREADY_ANSWERED' || code === 'CALL_EXPIRED' || code === 'EXECUTION_ERROR';
}

// isTemporary reports whether the same request may succeed a moment later. What is
// no refusal of the edge comes from the way to it.
export function isTemporary(error: Error): boolean {
  const code = problemOf(error)?.code;
  if (code === undefined || code.startsWith('TOO_MANY_')) return true;
  return ['UNAVAILABLE', 'DRAINING', 'BODY_TIMEOUT', 'STREAM_CREATION_ERROR'].includes(code);
}

function problemOf(error: Error): Problem | undefined {
  try {
    const body = JSON.parse(error.message);
    return typeof body?.error === 'string' ? body : undefined;
  } catch {
    return undefined; // no refusal of the edge
  }
}
