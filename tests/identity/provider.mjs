// OAuth2 provider (npm `oidc-provider`) for tests/tests/secrets/oauth.rs. Gives every consent, counts token requests, and
// prints its address first.
import http from 'node:http'
import { createRequire } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

// The library is installed in cargo's target folder.
const require = createRequire(path.join(process.cwd(), 'package.json'))
const { Provider } = await import(pathToFileURL(require.resolve('oidc-provider')).href)

const [port, redirectUri, lifeSeconds] = process.argv.slice(2)
const server = http.createServer()
await new Promise((resolve) => server.listen(Number(port), '127.0.0.1', resolve))
const issuer = `http://127.0.0.1:${port}`

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: 'person',
      client_secret: 'person-secret-canary',
      redirect_uris: [redirectUri],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'client_secret_basic',
    },
    {
      client_id: 'public',
      redirect_uris: [`${redirectUri}?organization=acme`],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
      application_type: 'native',
    },
    {
      client_id: 'machine',
      client_secret: 'machine-secret-canary',
      redirect_uris: [],
      grant_types: ['client_credentials'],
      response_types: [],
      token_endpoint_auth_method: 'client_secret_post',
    },
  ],
  scopes: ['openid', 'offline_access', 'files.read'],
  // The daemon's public URL leads to the daemon, which has no certificate. Without the dispatcher that refuses loopback.
  fetch: (url, options) =>
    fetch(String(url).replace('https://localhost', new URL(redirectUri).origin), { ...options, dispatcher: undefined }),
  features: {
    clientIdMetadataDocument: { enabled: true, ack: 'draft-02' },
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    introspection: { enabled: true },
    revocation: { enabled: true },
  },
  pkce: { required: () => true },
  rotateRefreshToken: true,
  issueRefreshToken: async () => true,
  ttl: { AccessToken: Number(lifeSeconds), ClientCredentials: Number(lifeSeconds), RefreshToken: 3600, Grant: 3600, Session: 3600, Interaction: 600 },
  findAccount: async (ctx, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
  interactions: { url: (ctx, interaction) => `/yes/${interaction.uid}` },
  cookies: { keys: ['not a secret'] },
})

// Deleted clients.
const forgotten = new Set()
const find = provider.Client.find.bind(provider.Client)
provider.Client.find = async (id) => (forgotten.has(id) ? undefined : find(id))

const asked = { token: 0 }
const answer = provider.callback()
server.on('request', async (request, response) => {
  if (request.url === '/token') asked.token += 1
  if (request.url === '/asked') return response.end(JSON.stringify(asked))
  if (request.url.startsWith('/forget/')) return response.end(`${forgotten.add(request.url.slice(8)).size}`)
  if (!request.url.startsWith('/yes/')) return answer(request, response)
  // Gives every consent.
  const { prompt, params, grantId } = await provider.interactionDetails(request, response)
  const grant = (grantId && (await provider.Grant.find(grantId))) ||
    new provider.Grant({ accountId: 'ann', clientId: params.client_id })
  grant.addOIDCScope(params.scope)
  const result = prompt.name === 'login' ? { login: { accountId: 'ann' } } : { consent: { grantId: await grant.save() } }
  await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: true })
})
console.log(issuer)
