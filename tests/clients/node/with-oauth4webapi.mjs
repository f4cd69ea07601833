// oauth4webapi: finds the token endpoint by RFC 8414, and takes nothing that the specifications do not allow.

import * as oauth from 'oauth4webapi'
import { fetchFrom, given, scope, walk } from './walk.mjs'

const METHODS = { basic: oauth.ClientSecretBasic, form: oauth.ClientSecretPost }
const NAMES = { basic: 'client_secret_basic', form: 'client_secret_post' }

// The server listens on loopback without TLS, which the library refuses otherwise.
const options = { [oauth.customFetch]: fetchFrom, [oauth.allowInsecureRequests]: true }
const issuer = new URL(given.url)
const discovered = await oauth.discoveryRequest(issuer, { ...options, algorithm: 'oauth2' })
const server = await oauth.processDiscoveryResponse(issuer, discovered)
for (const [list, needed] of [
  [server.grant_types_supported, 'client_credentials'],
  [server.token_endpoint_auth_methods_supported, NAMES[given.form]],
  [server.scopes_supported, 'individual:read'],
]) {
  if (!list.includes(needed)) throw new Error(`the server does not say that it knows ${needed}`)
}

const client = { client_id: given.client_id }
const method = METHODS[given.form](given.client_secret)

await walk({
  async fetchToken() {
    const parameters = new URLSearchParams({ scope })
    const answer = await oauth.clientCredentialsGrantRequest(server, client, method, parameters, options)
    return oauth.processClientCredentialsResponse(server, client, answer)
  },
  async send(token, verb, url, headers, body) {
    try {
      return await oauth.protectedResourceRequest(token, verb, url, new Headers(headers), body, options)
    } catch (error) {
      // A challenge that the library could read.
      if (error instanceof oauth.WWWAuthenticateChallengeError) return error.response
      throw error
    }
  },
  async refusal(error) {
    if (error instanceof oauth.ResponseBodyError) return { code: error.error, headers: error.response.headers }
    if (error instanceof oauth.WWWAuthenticateChallengeError) {
      return { code: (await error.response.json()).error, headers: error.response.headers }
    }
    throw error
  },
})
