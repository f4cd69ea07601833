import assert from 'node:assert/strict'
import test from 'node:test'

import { Api } from '../api'
import { useStrings } from '../i18n'
import { server } from '../server/fr'
import { en } from '../strings/en'
import { fr } from '../strings/fr'
import { caseOf, evaluate, expectedOf, isAsExpected } from './evaluate'

test('a case is compared with its result by outcome, missing facts and errors', () => {
  const expected = caseOf('x', { type: 'individual' }, { outcome: 'undetermined', missing: ['me.gender'], errors: [] })
  assert.deepEqual(expected, { name: 'x', record: { type: 'individual' }, outcome: 'undetermined', missing: ['me.gender'] })
  const result = { outcome: 'undetermined', missing: ['me.gender'] } as const
  assert.equal(isAsExpected(expected, { ...result, missing: [...result.missing] }), true)
  assert.equal(isAsExpected(expected, { outcome: 'undetermined', missing: ['me.birth_date'] }), false)
  assert.equal(isAsExpected(expected, { outcome: 'undetermined', missing: ['me.gender'], errors: [{ code: 'overflow', line: 1, column: 1 }] }), false)
  assert.equal(isAsExpected(expected, { outcome: 'eligible' }), false)
  assert.equal(isAsExpected(expected, { error: { status: 404, detail: 'x' } }), false)
  assert.equal(expectedOf({}), undefined)
})

test('all records are evaluated by one request, on the day of the cases', async () => {
  const sent: unknown[] = []
  globalThis.fetch = (url, init) => {
    sent.push(String(url), JSON.parse(String(init?.body)))
    return Promise.resolve(new Response(JSON.stringify({ results: [{ outcome: 'eligible' }, {}], decision: { as_of: '2026-03-01' } })))
  }
  const api = new Api(new URL('http://server/api/v2/'))
  const rule = { expression: 'a', subject: 'group', asOf: '2026-03-01' } as const
  const { results, asOf } = await evaluate(api, rule, [{ type: 'group' }, { type: 'group', members: [] }])
  assert.deepEqual([results.length, asOf], [2, '2026-03-01'])
  const body = { expression: 'a', subject: 'group', as_of: '2026-03-01', subjects: [{ type: 'group' }, { type: 'group', members: [] }] }
  assert.deepEqual(sent, ['http://server/api/v2/Eligibility/$evaluate', body])
})

test('the problem of a record is in the language of the page', async () => {
  const error = { status: 422, code: 'validation_failed', detail: 'in English' }
  globalThis.fetch = () => Promise.resolve(new Response(JSON.stringify({ results: [{ error }] })))
  const api = new Api(new URL('http://server/api/v2/'))
  const rule = { expression: 'a', subject: 'individual', asOf: '' } as const
  const detail = async () => (await evaluate(api, rule, [{}])).results[0]?.error?.detail
  assert.equal(await detail(), error.detail)
  useStrings('fr', fr, server)
  assert.equal(await detail(), server.problems['validation_failed'])
  useStrings('en', en)
})
