// Signing keys of the providers in this folder.
import crypto from 'node:crypto'

// A new key: the members of its JWK with `kid`, `use` and `alg`, and the key itself as `privateKey`.
export function generateKey(alg, type, options) {
  // Exports a copy: Node 20 deadlocks if it collects the generating job while it exports the generated key, whose mutex both lock.
  const pem = { type: 'pkcs8', format: 'pem' }
  const generated = crypto.generateKeyPairSync(type, { ...options, privateKeyEncoding: pem })
  const privateKey = crypto.createPrivateKey(generated.privateKey)
  return { ...privateKey.export({ format: 'jwk' }), kid: crypto.randomUUID(), use: 'sig', alg, privateKey }
}
