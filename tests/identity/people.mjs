// OpenID provider (npm `oidc-provider`) of people who sign in to the console and connect credentials, for tests/tests/console.
// Asks nobody: the person is the one that `/as/NAME` named last, and `/refuse` refuses the next consent. `/fault/KIND` makes the
// next ID token wrong, and `/member/NAME/GROUP` moves a person to a group. Its site is `localhost`, so for browsers it is another one than the daemon's. Prints its address first.
import crypto from 'node:crypto'
import http from 'node:http'
import { createRequire } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { generateKey } from './keys.mjs'

// The library is installed in cargo's target folder.
const require = createRequire(path.join(process.cwd(), 'package.json'))
const { Provider } = await import(pathToFileURL(require.resolve('oidc-provider')).href)

const [port, daemon] = process.argv.slice(2)
const server = http.createServer()
await new Promise((resolve) => server.listen(Number(port), '127.0.0.1', resolve))
const issuer = `http://localhost:${port}`

const groups = { ann: ['staff', 'toolgate-operators'], bob: ['acme-approvers'], ola: ['acme-owners'], eve: ['staff'] }

const key = () => generateKey('RS256', 'rsa', { modulusLength: 2048 })
const [known, unknown] = [key(), key()]
const { privateKey, ...jwk } = known
const client = (client_id, redirect_uri) => ({
  client_id,
  client_secret: `${client_id}-secret-canary`,
  redirect_uris: [redirect_uri],
  grant_types: ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code'],
  response_types: ['code'],
  token_endpoint_auth_method: 'client_secret_basic',
})

const provider = new Provider(issuer, {
  jwks: { keys: [jwk] },
  clients: [client('console', `${daemon}/console/sign-in/callback`), client('drive', `${daemon}/v1/oauth/callback`)],
  claims: { openid: ['sub'], groups: ['groups'] },
  // The claims are in the ID token, as providers of organizations have it.
  conformIdTokenClaims: false,
  features: { devInteractions: { enabled: false }, deviceFlow: { enabled: true } },
  pkce: { required: () => true },
  findAccount: async (ctx, id) => ({ accountId: id, claims: async () => ({ sub: id, groups: groups[id] }) }),
  interactions: { url: (ctx, interaction) => `/interaction/${interaction.uid}` },
  cookies: { keys: ['not a secret'] },
})

let person = 'ann'
let fault, nonce
let refuses = false

// An ID token that a careless client would take.
function wrongToken() {
  const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const now = Math.floor(Date.now() / 1000)
  const claims = { iss: issuer, aud: 'console', sub: 'ann', groups: groups.ann, nonce, iat: now, exp: now + 300 }
  const wrong = { nonce: { nonce: 'another' }, audience: { aud: 'drive' }, expired: { exp: now - 3600 } }[fault] ?? {}
  const signer = fault === 'key' ? unknown : known
  const alg = fault === 'unsigned' ? 'none' : 'RS256'
  const message = `${encode({ alg, typ: 'JWT', kid: known.kid })}.${encode({ ...claims, ...wrong })}`
  const signature = alg === 'none' ? '' : crypto.sign('sha256', Buffer.from(message), signer.privateKey).toString('base64url')
  return `${message}.${signature}`
}

async function answerInteraction(request, response) {
  const { prompt, params, grantId } = await provider.interactionDetails(request, response)
  if (refuses) {
    refuses = false
    return provider.interactionFinished(request, response, { error: 'access_denied' })
  }
  if (prompt.name === 'login') {
    return provider.interactionFinished(request, response, { login: { accountId: person } })
  }
  const grant = (grantId && (await provider.Grant.find(grantId))) ||
    new provider.Grant({ accountId: person, clientId: params.client_id })
  grant.addOIDCScope(params.scope)
  const result = { consent: { grantId: await grant.save() } }
  return provider.interactionFinished(request, response, result, { mergeWithLastSubmission: true })
}

const answer = provider.callback()
server.on('request', (request, response) => {
  const { pathname, searchParams } = new URL(request.url, issuer)
  const [, control, value, step] = pathname.split('/')
  if (pathname === '/auth') nonce = searchParams.get('nonce')
  if (control === 'as') return response.end((person = value))
  if (control === 'member') return response.end(`${(groups[value] = [step])}`)
  if (control === 'fault') return response.end((fault = value))
  if (control === 'refuse') return response.end(`${(refuses = true)}`)
  if (control === 'interaction') {
    // A browser comes back from a page of this site, as from one where a person types a password.
    if (!request.headers['sec-fetch-site'] || step === 'yes') return answerInteraction(request, response)
    response.setHeader('content-type', 'text/html')
    return response.end(`<!doctype html><meta http-equiv="refresh" content="0;url=${pathname}/yes"><link rel="icon" href="data:,"><title>Provider</title>`)
  }
  if (pathname === '/token' && fault) {
    const body = { access_token: crypto.randomUUID(), token_type: 'Bearer', expires_in: 300, id_token: wrongToken() }
    fault = undefined
    response.setHeader('content-type', 'application/json')
    return response.end(JSON.stringify(body))
  }
  return answer(request, response)
})
console.log(issuer)
