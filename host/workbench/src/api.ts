// The public API, with the token of the signed-in user.
//
// The token is stored in this object only: not in browser storage, a URL or a cookie.
//
// A request waits while the rate limit is exceeded, the server cannot be reached or its engine is being compiled, and is
// then sent again: callers see a slow response, not an error.

import { type EngineState, EngineWait } from './engine-wait'
import { t } from './i18n'
import { pause } from './pause'
import { type Problem, problemText } from './server/translate'

/** An error response of the server. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly diagnostics: Diagnostic[] = [],
    readonly retryAfterS?: number,
    /** The stable name of the reason. */
    readonly code?: string,
  ) {
    super(message)
    this.name = 'Refusal'
  }
}

export interface Diagnostic {
  severity: 'error' | 'warning'
  code: string
  message: string
  /** The stable name of the message, and its parts that come from the rule. */
  reason?: string
  parameters?: string[]
  line: number
  column: number
  length: number
  suggestion?: string
  /** The name of a suggested code. */
  name?: string
}

/** The remaining requests of the client and the limit, in the window that ends first. */
export interface Budget {
  limit: number
  remaining: number
}

interface Events {
  /** Called with true when the server cannot be reached, and with false when it responds again. */
  unreachable: boolean
  /** Called when the token is rejected. */
  expired: void
  /** Called when the rate limit is exceeded, with the seconds to wait. */
  limited: number
  /** Called when requests wait for the eligibility engine, and when they do not any more. */
  engine: EngineState
  budget: Budget
}

interface Kept {
  tag: string
  body: unknown
  askedAt: number
}

/** The time for which responses about codes are reused without revalidation, in milliseconds. */
const FRESH_MS = 60_000
/** The most cached responses. */
const KEPT_MAX = 500
/** The longest uninterrupted reading of response lines before the page may render, in milliseconds. */
const TURN_MS = 12
/** The pause before a request to an unreachable server is repeated, in milliseconds. */
const RETRY_MS = 2_000
/** The statuses of a proxy whose server cannot be reached. */
const OF_PROXY = [502, 504]
/** The code of a response without an engine. */
const ENGINE_COMPILING = 'engine_compiling'
/** How often a request is repeated because the server is busy. */
const BUSY_MAX = 3

/** A response that ended before it was complete. */
export class Interrupted extends Error {}

/** A change without a response: the server may have executed it. */
export class Unconfirmed extends Error {}

export class Api {
  #token: string | undefined
  #kept = new Map<string, Kept>()
  #listeners: { [K in keyof Events]?: ((value: Events[K]) => void)[] } = {}
  #waitsUntil = 0
  #isUnreachable = false
  #signedOut = new AbortController()
  /** The requests that wait for an engine that is being compiled. */
  readonly engine = new EngineWait((state) => this.#tell('engine', state))
  /** The remaining requests, once a response has reported them. */
  budget: Budget | undefined
  scopes: string[] = []
  clientId = ''
  language = 'en'

  /** `base` is the base URL of the API, with a trailing slash. */
  constructor(readonly base: URL) {}

  on<K extends keyof Events>(event: K, listener: (value: Events[K]) => void): void {
    const listeners = (this.#listeners[event] ??= []) as ((value: Events[K]) => void)[]
    listeners.push(listener)
  }

  /** The milliseconds until the next request is allowed; 0 if it is now. */
  get waitMs(): number {
    return Math.max(0, this.#waitsUntil - Date.now())
  }

  /** Returns true if one of those scopes, or all of a resource, was granted. */
  may(scope: string): boolean {
    return this.scopes.includes(scope) || this.scopes.includes(`${scope.split(':')[0]}:all`)
  }

  async signIn(clientId: string, secret: string): Promise<void> {
    const response = await this.#reach(new URL('oauth/token', this.base), {
      method: 'POST',
      headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ grant_type: 'client_credentials', client_id: clientId, client_secret: secret }),
      credentials: 'omit',
      signal: this.#signedOut.signal,
    })
    const body = await response.json().catch(() => ({}))
    if (!response.ok) {
      throw new Refusal(response.status, problemText(body, response.status, response.statusText), [], retryAfter(response))
    }
    this.#token = body.access_token
    this.scopes = String(body.scope ?? '').split(' ').filter(Boolean)
    this.clientId = clientId
  }

  /** Signs in with the admin token, on the admin listener; the list of plugins verifies it. */
  async signInAsAdministrator(token: string): Promise<void> {
    this.#token = token
    try {
      await this.#send('GET', 'plugins', undefined, {})
    } catch (error) {
      this.#token = undefined
      throw error
    }
  }

  signOut(): void {
    this.#token = undefined
    // Requests that are still repeated would be without a token.
    this.#signedOut.abort()
    this.#signedOut = new AbortController()
    this.#reached()
    this.budget = undefined
    this.#kept.clear()
    this.scopes = []
    this.#waitsUntil = 0
  }

  /** A cached response about codes or the API itself: reused for a minute, then revalidated by its entity tag. */
  async get<T>(path: string, signal?: AbortSignal): Promise<T> {
    const key = `${this.language} ${path}`
    const kept = this.#kept.get(key)
    if (kept && Date.now() - kept.askedAt < FRESH_MS) return kept.body as T
    const headers: Record<string, string> = kept ? { 'If-None-Match': kept.tag } : {}
    const response = await this.#send('GET', path, undefined, headers, signal)
    if (kept && response.status === 304) {
      kept.askedAt = Date.now()
      return kept.body as T
    }
    const body = (await response.json()) as T
    const tag = response.headers.get('ETag')
    if (tag !== null) {
      this.#kept.delete(key)
      this.#kept.set(key, { tag, body, askedAt: Date.now() })
      const oldest = this.#kept.keys().next().value
      if (this.#kept.size > KEPT_MAX && oldest !== undefined) this.#kept.delete(oldest)
    }
    return body
  }

  /** An uncached response. */
  async read<T>(path: string, signal?: AbortSignal): Promise<T> {
    return (await this.#send('GET', path, undefined, {}, signal)).json() as Promise<T>
  }

  async remove(path: string, tag?: string): Promise<void> {
    await this.#send('DELETE', path, undefined, tag === undefined ? {} : { 'If-Match': tag })
  }

  /** Uploads a file. */
  async upload<T>(path: string, file: Blob, headers: Record<string, string>): Promise<T> {
    return contentOfChange(await this.#send('POST', path, file, headers))
  }

  async post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
    return (await this.#send('POST', path, body, {}, signal)).json() as Promise<T>
  }

  /** A request about one version of a record, with the entity tag of the response; `tag` is the version that it requires. */
  async tagged<T>(method: 'GET' | 'POST' | 'PUT', path: string, body?: unknown, tag?: string): Promise<{ body: T; tag: string }> {
    const response = await this.#send(method, path, body, tag === undefined ? {} : { 'If-Match': tag })
    const content = method === 'GET' ? ((await response.json()) as T) : await contentOfChange<T>(response)
    return { body: content, tag: response.headers.get('ETag') ?? '' }
  }

  /** A response in NDJSON; the page may render between lines. */
  async lines(path: string, body: unknown, signal: AbortSignal, onLine: (line: never) => void): Promise<void> {
    const response = await this.#send('POST', path, body, { Accept: 'application/x-ndjson' }, signal)
    if (!response.body) throw new Refusal(response.status, response.statusText)
    const reader = response.body.getReader()
    const decoder = new TextDecoder()
    let rest = ''
    let begun = performance.now()
    for (;;) {
      const { done, value } = await reader.read().catch((error: unknown) => {
        throw isAbort(error) ? error : new Interrupted()
      })
      rest += decoder.decode(value, { stream: !done })
      let end = rest.indexOf('\n')
      let from = 0
      while (end >= 0) {
        const line = rest.slice(from, end)
        if (line) onLine(JSON.parse(line) as never)
        from = end + 1
        end = rest.indexOf('\n', from)
        if (performance.now() - begun > TURN_MS) {
          await new Promise((resolve) => setTimeout(resolve))
          begun = performance.now()
        }
      }
      rest = rest.slice(from)
      if (!done) continue
      // The server ends every line.
      if (rest) throw new Interrupted()
      return
    }
  }

  async #send(
    method: string,
    path: string,
    body: unknown,
    headers: Record<string, string>,
    signal?: AbortSignal,
  ): Promise<Response> {
    const sent: Record<string, string> = { 'Accept-Language': this.language, ...headers }
    if (this.#token !== undefined) sent['Authorization'] = `Bearer ${this.#token}`
    const isFile = body instanceof Blob
    if (body !== undefined && !isFile) sent['Content-Type'] = 'application/json'
    const until = AbortSignal.any([this.#signedOut.signal, ...(signal ? [signal] : [])])
    const content = isFile ? body : body === undefined ? null : JSON.stringify(body)
    return this.#repeat(path, { method, headers: sent, body: content, credentials: 'omit' }, until)
  }

  /** Sends a request until it has a result. */
  async #repeat(path: string, request: RequestInit, signal: AbortSignal): Promise<Response> {
    const init = { ...request, signal }
    // A change is not repeated by itself if its first attempt may have been executed.
    const isRepeatable = init.method === 'GET' || path.startsWith('Eligibility/') || path === '$batch'
    let isForEngine = false
    try {
      for (let attempt = 1; ; attempt += 1) {
        await pause(this.waitMs, signal)
        const response = await this.#reach(new URL(path, this.base), init, isRepeatable)
        this.#note(response, path)
        if (response.ok || response.status === 304) return response
        const seconds = retryAfter(response)
        // Above the rate limit and without the engine nothing was executed, so that a change is repeated too.
        if (response.status === 429 && seconds !== undefined) continue
        const problem = (await response.json().catch(() => ({}))) as Problem & { diagnostics?: Diagnostic[] }
        if (problem.code === ENGINE_COMPILING) {
          if (!isForEngine) this.engine.enter()
          isForEngine = true
          await this.engine.pause((seconds ?? 1) * 1000, signal)
        } else if (isRepeatable && response.status === 503 && attempt <= BUSY_MAX) {
          await pause((seconds ?? 1) * 1000, signal)
        } else {
          if (response.status === 401) this.#tell('expired', undefined)
          const text = problemText(problem, response.status, response.statusText)
          throw new Refusal(response.status, text, problem.diagnostics ?? [], seconds, problem.code)
        }
      }
    } finally {
      if (isForEngine) this.engine.leave()
    }
  }

  /** Sends a request, again and again while the server cannot be reached if it may be repeated. */
  async #reach(url: URL, init: RequestInit, isRepeatable = true): Promise<Response> {
    for (;;) {
      try {
        const response = await fetch(url, init)
        if (!OF_PROXY.includes(response.status)) {
          this.#reached()
          return response
        }
      } catch {
        if (init.signal?.aborted) throw new DOMException('', 'AbortError')
      }
      if (!isRepeatable) throw new Unconfirmed()
      if (!this.#isUnreachable) {
        this.#isUnreachable = true
        this.#tell('unreachable', true)
      }
      await pause(RETRY_MS, init.signal, true)
    }
  }

  #reached(): void {
    if (!this.#isUnreachable) return
    this.#isUnreachable = false
    this.#tell('unreachable', false)
  }

  #note(response: Response, path: string): void {
    // The descriptions of the server are counted by address, not by client.
    if (path === 'openapi.json' || path === 'metadata') return
    const [limit, remaining] = ['X-RateLimit-Limit', 'X-RateLimit-Remaining'].map((name) => response.headers.get(name))
    if (limit && remaining) {
      this.budget = { limit: Number(limit), remaining: Number(remaining) }
      this.#tell('budget', this.budget)
    }
    if (response.status !== 429) return
    const seconds = retryAfter(response) ?? 1
    this.#waitsUntil = Date.now() + seconds * 1000
    this.#tell('limited', seconds)
  }

  #tell<K extends keyof Events>(event: K, value: Events[K]): void {
    for (const listener of this.#listeners[event] ?? []) listener(value)
  }
}

function retryAfter(response: Response): number | undefined {
  const value = response.headers.get('Retry-After')
  return value === null ? undefined : Math.max(1, Number(value))
}

/** The content of a response to a change, which was executed even if the content does not arrive. */
async function contentOfChange<T>(response: Response): Promise<T> {
  return response.json().catch((error: unknown) => {
    throw isAbort(error) ? error : new Unconfirmed()
  }) as Promise<T>
}

/** The error as a sentence. */
export function sentence(error: unknown): string {
  if (error instanceof Unconfirmed) return t.unconfirmed
  // The browser's own words for a failed connection are in its language and name no cause.
  if (error instanceof TypeError || error instanceof Interrupted) return t.unreachable
  return error instanceof Error ? error.message : String(error)
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError'
}
