// A daftar client that uses only the APIs of Node.js (18 and later) and browsers.
// For a private certificate authority: NODE_EXTRA_CA_CERTS=ca.pem in the environment of Node.js.

// A token is renewed five minutes before its end; one valid for less than 25 minutes, after four fifths of its lifetime.
const MARGIN_S = 300
const TIMEOUT_S = 60

const pause = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000))

// Create one per program: concurrent calls share a token.
export class Daftar {
  constructor({ url, clientId, clientSecret, clock = () => Date.now() / 1000, sleep = pause }) {
    this.url = url.replace(/\/$/, '')
    this.basic = `Basic ${btoa(`${encodeURIComponent(clientId)}:${encodeURIComponent(clientSecret)}`)}`
    Object.assign(this, { clock, sleep, cached: null, pending: null })
  }

  // One call, such as `call('GET', '/Individual?_count=5')`. Does not throw on an error response: check `status`.
  async call(method, path, body, headers = {}) {
    const content = body === undefined ? undefined : JSON.stringify(body)
    const type = body === undefined ? {} : { 'content-type': 'application/json' }
    const send = (token) => this.#sendWithRetries(method, path, content, { ...type, ...headers, authorization: `Bearer ${token}` })
    const token = await this.token()
    const response = await send(token)
    // A 401 is returned before any processing, so even a POST can be retried. Once: a second 401 has another cause.
    return response.status === 401 ? send(await this.token(token)) : response
  }

  // Returns a token that stays valid for a while and is not the rejected one.
  async token(refused) {
    if (this.cached && this.cached.token !== refused && this.clock() < this.cached.renewAt) return this.cached.token
    // Concurrent callers wait for the same request.
    this.pending ??= this.#request().finally(() => { this.pending = null })
    return (this.cached = await this.pending).token
  }

  async #request() {
    const requestedAt = this.clock()
    const headers = { authorization: this.basic, 'content-type': 'application/x-www-form-urlencoded' }
    const response = await this.#sendWithRetries('POST', '/oauth/token', 'grant_type=client_credentials', headers)
    if (response.status !== 200) throw new Error(`no token: ${response.status} ${await response.text()}`)
    const given = await response.json()
    const margin = Math.min(MARGIN_S, given.expires_in / 5)
    return { token: given.access_token, renewAt: requestedAt + given.expires_in - margin }
  }

  // Sends a request, and waits as long as a 429 or a 503 requires.
  async #sendWithRetries(method, path, body, headers) {
    for (let sent = 1; ; sent += 1) {
      // Links in responses already contain the base URL of the API.
      const within = path.replace(this.url, '').replace(/^\/api\/v2\//, '/')
      const response = await fetch(`${this.url}/api/v2${within}`, { method, headers, body, signal: AbortSignal.timeout(TIMEOUT_S * 1000) })
      const wait = response.headers.get('retry-after')
      if (![429, 503].includes(response.status) || wait === null || Number(wait) > TIMEOUT_S || sent === 5) return response
      await response.arrayBuffer()
      await this.sleep(Number(wait))
    }
  }
}

// An identifier, encoded for a URL path.
export const identifier = (system, value) => encodeURIComponent(`${system}|${value}`)
