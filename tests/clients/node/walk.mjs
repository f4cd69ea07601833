// Steps for each library: a token, calls of the API, and continuing after a 401 and a 429.
//
// The library performs all of OAuth. Steps at the server are requested from the test that runs
// this, a line each way.

import assert from 'node:assert/strict'
import http from 'node:http'
import readline from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

export const given = JSON.parse(process.env.DAFTAR_CLIENT)
export const scope = 'individual:read individual:create'
const NATIONAL_ID = 'urn:svc:vocab:id-type#national_id'
const FEMALE = 'urn:iso:std:iso:5218#2'
const TIMEOUT_MS = 30_000

// No step takes a tenth of it.
setTimeout(() => {
  console.error('the walk takes too long')
  process.exit(1)
}, 90_000).unref()

// Connects from the address of this test: the server counts by address.
export const agent = new http.Agent({ localAddress: given.source, keepAlive: true })

// `fetch` from that address.
export function fetchFrom(url, { method = 'GET', headers = {}, body } = {}) {
  return new Promise((resolve, reject) => {
    const options = { method, headers: Object.fromEntries(new Headers(headers)), agent, timeout: TIMEOUT_MS }
    const request = http.request(url, options, (message) => {
      const parts = []
      message.on('data', (part) => parts.push(part))
      message.on('error', reject)
      message.on('end', () => {
        const { statusCode: status, headers: told } = message
        const hasBody = status !== 204 && status !== 304
        resolve(new Response(hasBody ? Buffer.concat(parts) : null, { status, headers: told }))
      })
    })
    request.on('timeout', () => request.destroy(new Error('no answer came')))
    request.on('error', reject)
    request.end(body?.toString())
  })
}

function expect(what, found, expected) {
  assert.deepEqual(found, expected, `${what}: found ${JSON.stringify(found)}, expected ${JSON.stringify(expected)}`)
  console.log(`${what}: ${JSON.stringify(found)}`)
}

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()

// Waits at least that long: a timer may fire a little early.
async function pass(seconds) {
  const until = performance.now() + seconds * 1000
  while (performance.now() < until) await sleep(Math.ceil(until - performance.now()))
}

// Requests a step from the test, and waits until it is done.
async function please(what) {
  console.log(`please ${what}`)
  expect(what, (await lines.next()).value, 'done')
}

// `library.fetchToken()` returns the response to a token request, `library.send(token, method, url, headers, body)` that to a call,
// and `library.refusal(error)` the details of a rejected token request: `{ code, response headers }`.
export async function walk(library) {
  let token = await library.fetchToken()
  let newTokens = 0
  expect('token type', token.token_type.toLowerCase(), 'bearer')
  expect('lifetime', token.expires_in, 86400)
  expect('scope', token.scope, scope)

  const send = (method, path, body) => {
    const headers = body === undefined ? {} : { 'content-type': 'application/json' }
    return library.send(token.access_token, method, new URL(path, given.url), headers, body && JSON.stringify(body))
  }
  // As a careful program calls: with a new token once the old one is rejected.
  const call = async (method, path, body) => {
    const answer = await send(method, path, body)
    if (answer.status !== 401) return answer
    expect('challenge', answer.headers.get('www-authenticate').split(' ')[0], 'Bearer')
    newTokens += 1
    token = await library.fetchToken()
    return send(method, path, body)
  }
  const refusalOfAToken = () => library.fetchToken().then(() => null, library.refusal)

  // Registers and finds.
  const identifier = { system: NATIONAL_ID, value: given.person }
  const address = `${NATIONAL_ID}|${given.person}`
  const person = { identifier: [identifier], name: { family: 'Diallo', given: 'Amina' }, gender: FEMALE }
  const created = await call('POST', '/api/v2/Individual', person)
  expect('created', created.status, 201)
  const path = `/api/v2/Individual/${encodeURIComponent(address)}`
  for (const place of [created.headers.get('location'), path]) {
    const read = await call('GET', place)
    expect('read', [read.status, read.headers.get('etag')], [200, created.headers.get('etag')])
    expect('identifier', (await read.json()).identifier, [identifier])
  }
  const found = await call('GET', `/api/v2/Individual?${new URLSearchParams({ identifier: address, gender: FEMALE })}`)
  expect('found', [found.status, (await found.json()).total], [200, 1])
  const unknown = await call('GET', `${path}0`)
  expect('unknown', [unknown.status, (await unknown.json()).status], [404, 404])
  expect('forbidden', (await call('GET', '/api/v2/Group')).status, 403)

  // Continues after a 401.
  await please('revoke')
  expect('read after the revocation', (await call('GET', path)).status, 200)
  expect('new tokens', newTokens, 1)
  await please('disable')
  const refused = await send('GET', path)
  expect('read while disabled', [refused.status, (await refused.json()).detail], [401, 'the client is disabled'])
  expect('token while disabled', (await refusalOfAToken())?.code, 'invalid_client')
  await please('enable')
  expect('read after that', (await call('GET', path)).status, 200)
  expect('new tokens', newTokens, 2)

  // Continues after a 429.
  let answer = await send('GET', path)
  for (let made = 0; made < 500 && answer.status !== 429; made += 1) {
    expect('limit', answer.headers.get('x-ratelimit-limit'), '60')
    answer = await send('GET', path)
  }
  expect('too many', answer.status, 429)
  const waitS = Number(answer.headers.get('retry-after'))
  expect('wait', waitS, 1)
  await pass(waitS)
  expect('read after the wait', (await send('GET', path)).status, 200)

  // Gets a rate limit error for too many tokens.
  let refusal = null
  for (let made = 0; made < 10 && refusal === null; made += 1) refusal = await refusalOfAToken()
  expect('too many tokens', refusal?.code, 'temporarily_unavailable')
  const retryAfterS = Number(new Headers(refusal.headers).get('retry-after'))
  expect('wait is documented', retryAfterS >= 1 && retryAfterS <= 60, true)
  console.log('walked')
  process.exit(0)
}
