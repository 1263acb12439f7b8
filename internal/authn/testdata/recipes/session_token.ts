import { importJWK, SignJWT } from "jose"

const key = await importJWK(JSON.parse(process.env.SIGNING_KEY!), "EdDSA")

export function sessionToken(user: string, session: string) {
  return new SignJWT({ tid: "acme", sid: session, scope: "read chat" })
    .setProtectedHeader({ alg: "EdDSA", kid: "2026-11", typ: "at+jwt" })
    .setIssuer("https://app.example")
    .setAudience("tailrace")
    .setSubject(user)
    .setJti(crypto.randomUUID())
    .setIssuedAt()
    .setExpirationTime("15m")
    .sign(key)
}
