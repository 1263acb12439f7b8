import { TailraceError } from 'tailrace-client/ai/transport';

// The credential of the user is a session token, which the backend of the app signs: POST /token. An app without
// such a backend, for an edge without authenticators, sends none.

// SignedOut means that the user has to sign in with the app.
export class SignedOut extends TailraceError {}

type Credential = { token: string; refreshAt: number };

let current: Promise<Credential> | undefined;

// getToken returns the token of the next request. After half of its lifetime it is replaced, so that a response
// has time before the edge ends it; and at once if the edge has refused it.
export async function getToken({ refresh }: { refresh: boolean }): Promise<string> {
  if (refresh) current = undefined;
  const used = (current ??= newCredential());
  try {
    const { token, refreshAt } = await used;
    if (Date.now() < refreshAt) return token;
  } catch (error) {
    if (current === used) current = undefined;
    throw error;
  }
  if (current === used) current = undefined;
  return getToken({ refresh: false });
}

async function newCredential(): Promise<Credential> {
  const response = await fetch('/token', { method: 'POST' });
  if (response.status === 404) return { token: '', refreshAt: Infinity };
  if (response.status === 401) throw new SignedOut('Please sign in.', 401);
  if (!response.ok) throw new Error(await response.text());
  const { token, expiresIn } = await response.json();
  return { token, refreshAt: Date.now() + expiresIn * 500 };
}

export async function signIn(user: string): Promise<void> {
  const response = await fetch('/login', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ user }) });
  if (!response.ok) throw new Error(await response.text());
  current = undefined;
}

// setCookie trades the token for a cookie, for EventSource, which cannot send headers.
export async function setCookie(): Promise<void> {
  const token = await getToken({ refresh: false });
  if (!token) return;
  const response = await fetch('/v1/session-cookie', { method: 'POST', headers: { Authorization: `Bearer ${token}` } });
  if (response.status === 401) current = undefined;
  if (!response.ok) throw new Error(await response.text());
}
