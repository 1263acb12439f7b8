// Signs session tokens with WebCrypto and writes one a line. The argument is JSON: the options; a key in base64 is a secret of HS256, another one a JWK, which is
// used as a CryptoKey too.
import { mintSessionToken } from "tailrace-client";

const { secret, ...options } = JSON.parse(process.argv[2]);
const write = async (key) => process.stdout.write(JSON.stringify({ type: "token", id: await mintSessionToken({ ...options, key }) }) + "\n");
if (secret !== undefined) {
  await write(Uint8Array.from(atob(secret), (c) => c.charCodeAt(0)));
} else {
  await write(options.key);
  const { kty, crv, x, d } = options.key;
  await write(await crypto.subtle.importKey("jwk", { kty, crv, x, d }, { name: "Ed25519" }, false, ["sign"]));
}
