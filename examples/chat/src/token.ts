// The credential of the user is a session token, which the backend of the app signs: POST /token. An app without
// such a backend, for an edge without authenticators, sends none.

// SignedOut means that the user has to sign in with the app.
export class SignedOut extends Error {}

type Credential = { token: string; refreshAt: number };

let current: Promise<Credential> | undefined;

// authorization returns the headers of a request to the edge. After half of its lifetime a token is replaced, so
// that a response has time before the edge ends it.
export async function authorization(): Promise<Record<string, string>> {
  const used = (current ??= newCredential());
  try {
    const { token, refreshAt } = await used;
    if (Date.now() < refreshAt) return token ? { Authorization: `Bearer ${token}` } : {};
  } catch (error) {
    forget(used);
    throw error;
  }
  forget(used);
  return authorization();
}

// forget drops the token, which the edge has refused.
export function forget(used = current) {
  if (current === used) current = undefined;
}

async function newCredential(): Promise<Credential> {
  const response = await fetch('/token', { method: 'POST' });
  if (response.status === 404) return { token: '', refreshAt: Infinity };
  if (response.status === 401) throw new SignedOut('Please sign in.');
  if (!response.ok) throw new Error(await response.text());
  const { token, expiresIn } = await response.json();
  return { token, refreshAt: Date.now() + expiresIn * 500 };
}

export async function signIn(user: string): Promise<void> {
  const response = await fetch('/login', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ user }) });
  if (!response.ok) throw new Error(await response.text());
  forget();
}

// setCookie trades the token for a cookie, for EventSource, which cannot send headers.
export async function setCookie(): Promise<void> {
  const headers = await authorization();
  if (!headers.Authorization) return;
  const response = await fetch('/v1/session-cookie', { method: 'POST', headers });
  if (response.status === 401) forget();
  if (!response.ok) throw new Error(await response.text());
}
