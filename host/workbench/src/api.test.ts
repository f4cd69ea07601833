import assert from 'node:assert/strict'
import test from 'node:test'

import { Api, Interrupted, Refusal, sentence } from './api'
import { t } from './i18n'

const BASE = new URL('http://server/api/v2/')

/** Responses to be given in turn; a `TypeError` is a failed connection. */
function serving(...given: (Response | Error)[]): { api: Api; sent: string[]; events: string[] } {
  const sent: string[] = []
  const events: string[] = []
  globalThis.fetch = (url, init) => {
    sent.push(`${init?.method} ${String(url).slice(BASE.href.length)}`)
    const next = given.shift()
    if (next === undefined) throw new Error('no more responses')
    return next instanceof Error ? Promise.reject(next) : Promise.resolve(next)
  }
  const api = new Api(BASE)
  api.on('unreachable', (isUnreachable) => events.push(isUnreachable ? 'unreachable' : 'reachable'))
  api.on('limited', (seconds) => events.push(`limited ${seconds}`))
  api.on('engine', (state) => events.push(`engine ${state}`))
  api.on('budget', ({ remaining, limit }) => events.push(`${remaining} of ${limit}`))
  return { api, sent, events }
}

const json = (body: unknown, status = 200, headers: Record<string, string> = {}) => new Response(JSON.stringify(body), { status, headers })
const failed = () => new TypeError('Failed to fetch')

// The browser reports at once that it is online again.
Object.assign(globalThis, {
  addEventListener: (_: string, listener: () => void) => setTimeout(listener),
  removeEventListener: () => {},
})

test('a request to an unreachable server is sent again until it responds', async () => {
  const { api, sent, events } = serving(failed(), new Response('', { status: 502 }), json({ valid: true }))
  assert.deepEqual(await api.post('Eligibility/$validate', {}), { valid: true })
  assert.equal(sent.length, 3)
  assert.deepEqual(events, ['unreachable', 'reachable'])
})

test('a request over the rate limit is sent again after the time that the server requires', async () => {
  const limit = { 'X-RateLimit-Limit': '60', 'X-RateLimit-Remaining': '0', 'Retry-After': '1' }
  const { api, sent, events } = serving(json({}, 429, limit), json({ ok: true }))
  const begun = Date.now()
  assert.deepEqual(await api.post('Eligibility/$preview', {}), { ok: true })
  assert.ok(Date.now() - begun >= 990, 'it waited')
  assert.equal(sent.length, 2)
  assert.deepEqual(events, ['0 of 60', 'limited 1'])
})

test('a request to a busy server is repeated a few times', async () => {
  const busy = () => json({ detail: 'busy' }, 503, { 'Retry-After': '0.001' })
  const { api, sent } = serving(busy(), json({ ok: true }))
  assert.deepEqual(await api.read('Group'), { ok: true })
  assert.equal(sent.length, 2)
})

test('a request waits for an engine that is being compiled as long as it takes', async () => {
  const compiling = () => json({ code: 'engine_compiling' }, 503, { 'Retry-After': '1' })
  const { api, sent, events } = serving(compiling(), compiling(), compiling(), compiling(), json({ ok: true }))
  const begun = Date.now()
  assert.deepEqual(await api.post('Eligibility/$preview', {}), { ok: true })
  assert.ok(Date.now() - begun >= 3_990, 'it waited each time')
  assert.equal(sent.length, 5)
  assert.deepEqual(events, ['engine compiling', 'engine ready'])
})

test('a change that was refused without an engine is sent again', async () => {
  const { api, sent, events } = serving(json({ code: 'engine_compiling' }, 503), json({ id: 'x' }, 200, { ETag: '"1"' }))
  assert.equal((await api.tagged('PUT', 'RuleDraft/x', {}, '"0"')).tag, '"1"')
  assert.deepEqual(sent, ['PUT RuleDraft/x', 'PUT RuleDraft/x'])
  assert.deepEqual(events, ['engine compiling', 'engine ready'])
})

test('a cancelled request does not wait for the engine any more', async () => {
  const { api, events } = serving(json({ code: 'engine_compiling' }, 503, { 'Retry-After': '60' }))
  const stop = new AbortController()
  setTimeout(() => stop.abort(), 20)
  await assert.rejects(api.post('Eligibility/$preview', {}, stop.signal), { name: 'AbortError' })
  assert.deepEqual(events, ['engine compiling', 'engine ready'])
})

test('a change is sent once', async () => {
  const { api, sent } = serving(failed())
  const error = await api.upload('plugins', new Blob([]), {}).catch((error: unknown) => error)
  assert.equal(sentence(error), t.unconfirmed)
  assert.equal(sent.length, 1)
})

test('a change whose response does not arrive may have been executed', async () => {
  for (const response of [new Response('', { status: 502 }), new Response('{"id":', { status: 201 })]) {
    const { api, sent } = serving(response)
    const error = await api.tagged('POST', 'RuleDraft', {}).catch((error: unknown) => error)
    assert.equal(sentence(error), t.unconfirmed)
    assert.equal(sent.length, 1)
  }
})

test('a change over the rate limit was not executed, and is sent again', async () => {
  const { api, sent } = serving(json({}, 429, { 'Retry-After': '1' }), json({ id: 'x' }, 200, { ETag: '"1"' }))
  assert.equal((await api.tagged('PUT', 'RuleDraft/x', {}, '"0"')).tag, '"1"')
  assert.deepEqual(sent, ['PUT RuleDraft/x', 'PUT RuleDraft/x'])
})

test('a request that waits ends at the sign-out and when it is cancelled', async () => {
  const signedOut = serving(failed(), failed(), failed())
  const waiting = signedOut.api.read('Group')
  signedOut.api.signOut()
  await assert.rejects(waiting, { name: 'AbortError' })
  const limited = serving(json({}, 429, { 'Retry-After': '60' }))
  const stop = new AbortController()
  const post = limited.api.post('Eligibility/$preview', {}, stop.signal)
  setTimeout(() => stop.abort(), 20)
  await assert.rejects(post, { name: 'AbortError' })
})

test('the budget is the one of the client, not the one of its address', async () => {
  const of = (remaining: string) => ({ 'X-RateLimit-Limit': '30', 'X-RateLimit-Remaining': remaining })
  const { api, events } = serving(json({}, 200, of('21')), json({}, 200, of('9')))
  await api.get('openapi.json')
  assert.equal(api.budget, undefined)
  await api.get('Vocabulary')
  assert.deepEqual([api.budget, events], [{ limit: 30, remaining: 9 }, ['9 of 30']])
})

test('an error says each thing once', async () => {
  const errors = [{ field: 'subjects[0]', message: 'a reference is `Individual/…`' }]
  const { api } = serving(json({ detail: 'subjects[0]: a reference is `Individual/…`', errors }, 422))
  const error = await api.post('Eligibility/$evaluate', {}).catch((error: unknown) => error)
  assert.ok(error instanceof Refusal)
  assert.equal(error.message, 'subjects[0]: a reference is `Individual/…`')
})

test('a response whose last line is incomplete was interrupted', async () => {
  const { api } = serving(new Response('{"a":1}\n{"tot'))
  const lines: unknown[] = []
  const reading = api.lines('Eligibility/$preview', {}, new AbortController().signal, (line) => lines.push(line))
  await assert.rejects(reading, Interrupted)
  assert.deepEqual(lines, [{ a: 1 }])
})
