/** What a session token allows, and the key that signs it. */
export interface SessionTokenOptions {
  /**
   * The private key: a CryptoKey or a JWK for Ed25519, which needs keyId too, or the bytes of a shared secret for HS256, at least 32.
   */
  key: CryptoKey | JsonWebKey | Uint8Array;
  /** The id under which the edge has the public key. */
  keyId?: string;
  /** The names of the application and of the deployment, as the edge has them. */
  issuer: string;
  audience: string;
  tenant: string;
  /** The user. */
  subject: string;
  /** Rights, such as ["read", "chat"]. */
  scopes: string[];
  /** A session, up to 16 of them, "*" for all of the tenant, or "p*" for those with a prefix. Without it: sessions that the user has started. */
  sessions?: string | string[];
  /** A view, or several. Without it: the default view of the edge. */
  view?: string | string[];
  /** The lifetime in seconds. Defaults to 900. */
  lifetime?: number;
  /** The present time in Unix seconds, for tests. */
  now?: number;
}

/** mintSessionToken signs a session token. Run it in the backend of an application: the holder of the key can act as any user. */
export async function mintSessionToken(options: SessionTokenOptions): Promise<string> {
  const { keyId, issuer, audience, tenant, subject, scopes, sessions, view, lifetime = 900 } = options;
  const now = options.now ?? Math.trunc(Date.now() / 1000);
  const secret = options.key instanceof Uint8Array;
  if (options.key instanceof Uint8Array && options.key.byteLength < 32) throw new TypeError("the secret is too short, want at least 32 bytes");
  if (!secret && keyId === undefined) throw new TypeError("keyId is missing");
  const header = { alg: secret ? "HS256" : "EdDSA", typ: "at+jwt", ...(keyId === undefined ? {} : { kid: keyId }) };
  const claims = {
    iss: issuer,
    aud: audience,
    sub: subject,
    tid: tenant,
    scope: scopes.join(" "),
    ...(sessions === undefined ? {} : { sid: sessions }),
    ...(view === undefined ? {} : { view }),
    iat: now,
    exp: now + lifetime,
    jti: crypto.randomUUID(),
  };
  const signed = `${encode(JSON.stringify(header))}.${encode(JSON.stringify(claims))}`;
  const key = await signingKey(options.key);
  const signature = await crypto.subtle.sign(key.algorithm.name, key, new TextEncoder().encode(signed));
  return `${signed}.${base64url(new Uint8Array(signature))}`;
}

async function signingKey(key: CryptoKey | JsonWebKey | Uint8Array): Promise<CryptoKey> {
  if (key instanceof CryptoKey) return key;
  if (key instanceof Uint8Array) {
    return crypto.subtle.importKey("raw", new Uint8Array(key), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  }
  // Members such as "alg" and "use" of other tools are not those that WebCrypto expects.
  const { kty, crv, x, d } = key;
  return crypto.subtle.importKey("jwk", { kty, crv, x, d } as JsonWebKey, { name: "Ed25519" }, false, ["sign"]);
}

function encode(text: string): string {
  return base64url(new TextEncoder().encode(text));
}

function base64url(bytes: Uint8Array): string {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
