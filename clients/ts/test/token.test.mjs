import assert from "node:assert/strict";
import { test } from "node:test";
import { mintSessionToken } from "../dist/index.js";

const options = { issuer: "i", audience: "a", tenant: "t", subject: "s", scopes: ["read", "chat"], sessions: "s1", now: 1_700_000_000 };
const part = (token, n) => JSON.parse(Buffer.from(token.split(".")[n], "base64url").toString());

test("the claims are those of docs/reference/auth.md", async () => {
  const token = await mintSessionToken({ ...options, key: new Uint8Array(32).fill(1), view: ["public"], lifetime: 60 });
  assert.deepEqual(part(token, 0), { alg: "HS256", typ: "at+jwt" });
  const { jti, ...claims } = part(token, 1);
  assert.match(jti, /^[0-9a-f-]{36}$/);
  assert.deepEqual(claims, { iss: "i", aud: "a", sub: "s", tid: "t", scope: "read chat", sid: "s1", view: ["public"], iat: 1_700_000_000, exp: 1_700_000_060 });
});

test("a short secret and a missing key id are refused", async () => {
  await assert.rejects(mintSessionToken({ ...options, key: new Uint8Array(31) }), /32 bytes/);
  await assert.rejects(mintSessionToken({ ...options, key: { kty: "OKP", crv: "Ed25519", x: "", d: "" } }), /keyId/);
});
