import { SignedOut } from './token';

// Problem is an error response of the edge: a code for programs, a text for users.
type Problem = { error: string; code: string };

// explain returns the text for users. The AI SDK uses the body of an error response as the text of an error.
export function explain(error: Error): string {
  return problemOf(error)?.error ?? (error.message || 'Something went wrong.');
}

// isStale reports whether an error means that the page shows what the chat does not have: after a message from
// another tab, or a message of its own that is too large and would be sent again with the next one. A page without
// a user is reloaded too, and asks who it is.
export function isStale(error: Error): boolean {
  if (error instanceof SignedOut) return true;
  const code = problemOf(error)?.code;
  return code === 'ALREADY_ANSWERED' || code === 'CALL_EXPIRED' || code === 'EXECUTION_ERROR' || code === 'CONTENT_TOO_LARGE';
}

// isTemporary reports whether a retry may succeed. An error without a Problem comes from the network.
export function isTemporary(error: Error): boolean {
  if (error instanceof SignedOut) return false;
  const code = problemOf(error)?.code;
  if (code === undefined || code.startsWith('TOO_MANY_')) return true;
  return ['UNAUTHENTICATED', 'AUTHENTICATION_UNAVAILABLE', 'UNAVAILABLE', 'DRAINING', 'BODY_TIMEOUT', 'STREAM_CREATION_ERROR'].includes(code);
}

function problemOf(error: Error): Problem | undefined {
  try {
    const body = JSON.parse(error.message);
    return typeof body?.error === 'string' ? body : undefined;
  } catch {
    return undefined; // not an error response of the edge
  }
}
