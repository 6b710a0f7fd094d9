// Authorization server (npm `oidc-provider`) of MCP clients, for tests/tests/mcp/oauth.rs. Issues JWT access tokens for the
// resource of its first argument, whose claim `toolgate_agent` is by client, and prints its address first.
import crypto from 'node:crypto'
import http from 'node:http'
import { createRequire } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { generateKey } from './keys.mjs'

// The library is installed in cargo's target folder.
const require = createRequire(path.join(process.cwd(), 'package.json'))
const { Provider } = await import(pathToFileURL(require.resolve('oidc-provider')).href)

const [resource] = process.argv.slice(2)
const server = http.createServer()
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
const issuer = `http://127.0.0.1:${server.address().port}`

const agents = { bot: 'acme/bot', rsa: 'acme/bot', other: 'acme/other', stray: 'acme/none' }

let keys, provider

// New keys, without the old ones.
function rotate() {
  keys = [generateKey('ES256', 'ec', { namedCurve: 'P-256' }), generateKey('RS256', 'rsa', { modulusLength: 2048 })]
  provider = new Provider(issuer, {
    jwks: { keys: keys.map(({ privateKey, ...jwk }) => jwk) },
    clients: Object.keys(agents).map((client_id) => ({
      client_id,
      client_secret: 'secret',
      redirect_uris: [],
      grant_types: ['client_credentials'],
      response_types: [],
      token_endpoint_auth_method: 'client_secret_basic',
    })),
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (ctx, indicator, client) => ({
          scope: 'tools',
          audience: indicator,
          accessTokenFormat: 'jwt',
          jwt: { sign: { alg: client.clientId === 'rsa' ? 'RS256' : 'ES256' } },
        }),
      },
    },
    extraTokenClaims: (ctx, token) => ({ toolgate_agent: agents[token.clientId] }),
    cookies: { keys: ['not a secret'] },
  })
}

// A token with the claims in the query, such as one that is about to expire.
function sign(claims) {
  const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const { kid, privateKey } = keys[0]
  const common = { iss: issuer, aud: resource, scope: 'tools' }
  const message = `${encode({ alg: 'ES256', typ: 'at+jwt', kid })}.${encode({ ...common, ...claims })}`
  const signature = crypto.sign('sha256', Buffer.from(message), { key: privateKey, dsaEncoding: 'ieee-p1363' })
  return `${message}.${signature.toString('base64url')}`
}

rotate()
server.on('request', (request, response) => {
  const { pathname, searchParams } = new URL(request.url, issuer)
  if (pathname === '/rotate') return response.end(`${rotate()}`)
  if (pathname === '/sign') return response.end(sign(JSON.parse(searchParams.get('claims'))))
  return provider.callback()(request, response)
})
console.log(issuer)
