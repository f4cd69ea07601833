// Calls daftar with nothing but what Node.js (18 and later) and browsers bring.

// A token is renewed five minutes before its end; one that lives less than 25 minutes, after four fifths of its time.
const MARGIN_S = 300
const TIMEOUT_S = 60

const pause = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000))

// One for a whole program: calls that are made at the same time share a token.
export class Daftar {
  constructor({ url, clientId, clientSecret, clock = () => Date.now() / 1000, sleep = pause }) {
    this.url = url.replace(/\/$/, '')
    this.basic = `Basic ${btoa(`${encodeURIComponent(clientId)}:${encodeURIComponent(clientSecret)}`)}`
    Object.assign(this, { clock, sleep, kept: null, asking: null })
  }

  // One call, such as `call('GET', '/Individual?_count=5')`. Throws nothing for a refusal: look at `status`.
  async call(method, path, body, headers = {}) {
    const content = body === undefined ? undefined : JSON.stringify(body)
    const type = body === undefined ? {} : { 'content-type': 'application/json' }
    const send = (token) => this.#patiently(method, path, content, { ...type, ...headers, authorization: `Bearer ${token}` })
    const token = await this.token()
    const answer = await send(token)
    // A 401 is given before anything is done, so that even a POST may be sent again. Once: then the fault is another.
    return answer.status === 401 ? send(await this.token(token)) : answer
  }

  // A token that is still good for a while, and is not the one that was refused.
  async token(refused) {
    if (this.kept && this.kept.token !== refused && this.clock() < this.kept.renewAt) return this.kept.token
    // Whoever comes meanwhile waits for the same one.
    this.asking ??= this.#ask().finally(() => { this.asking = null })
    return (this.kept = await this.asking).token
  }

  async #ask() {
    const askedAt = this.clock()
    const headers = { authorization: this.basic, 'content-type': 'application/x-www-form-urlencoded' }
    const answer = await this.#patiently('POST', '/oauth/token', 'grant_type=client_credentials', headers)
    if (answer.status !== 200) throw new Error(`no token: ${answer.status} ${await answer.text()}`)
    const given = await answer.json()
    const margin = Math.min(MARGIN_S, given.expires_in / 5)
    return { token: given.access_token, renewAt: askedAt + given.expires_in - margin }
  }

  // Sends, and waits as long as a 429 or a 503 says.
  async #patiently(method, path, body, headers) {
    for (let sent = 1; ; sent += 1) {
      // What an answer links to begins with the address of the API already.
      const within = path.replace(this.url, '').replace(/^\/api\/v2\//, '/')
      const answer = await fetch(`${this.url}/api/v2${within}`, { method, headers, body, signal: AbortSignal.timeout(TIMEOUT_S * 1000) })
      const wait = answer.headers.get('retry-after')
      if (![429, 503].includes(answer.status) || wait === null || Number(wait) > TIMEOUT_S || sent === 5) return answer
      await answer.arrayBuffer()
      await this.sleep(Number(wait))
    }
  }
}

// An identifier as it stands in an address.
export const identifier = (system, value) => encodeURIComponent(`${system}|${value}`)
