// simple-oauth2: tokens in all three forms; the calls are made by hand, for which the library leaves it to others.

import { ClientCredentials } from 'simple-oauth2'
import { agent, fetchFrom, given, scope, walk } from './walk.mjs'

const FORMS = {
  basic: { authorizationMethod: 'header', bodyFormat: 'form' },
  form: { authorizationMethod: 'body', bodyFormat: 'form' },
  json: { authorizationMethod: 'body', bodyFormat: 'json' },
}

const client = new ClientCredentials({
  client: { id: given.client_id, secret: given.client_secret },
  auth: { tokenHost: given.url, tokenPath: '/api/v2/oauth/token' },
  http: { agent },
  options: FORMS[given.form],
})

await walk({
  async fetchToken() {
    const fetched = await client.getToken({ scope })
    if (fetched.expired()) throw new Error('a new token has expired already')
    return fetched.token
  },
  send(token, method, url, headers, body) {
    return fetchFrom(url, { method, headers: { ...headers, authorization: `Bearer ${token}` }, body })
  },
  refusal(error) {
    if (!error.isBoom || !error.data?.payload) throw error
    return { code: error.data.payload.error, headers: error.data.headers }
  },
})
