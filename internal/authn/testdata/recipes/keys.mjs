import { exportJWK, generateKeyPair } from "jose"
import { writeFileSync } from "node:fs"

const { publicKey, privateKey } = await generateKeyPair("EdDSA", { crv: "Ed25519", extractable: true })
writeFileSync("signing-key.json", JSON.stringify(await exportJWK(privateKey)), { mode: 0o600 })
writeFileSync("keys.json", JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), kid: "2026-11", use: "sig" }] }))
