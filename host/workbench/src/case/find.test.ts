import assert from 'node:assert/strict'
import test from 'node:test'

import { Api } from '../api'
import { findSubjects } from './find'

/** The references that a search finds, with those responses to its requests. */
async function found(...entry: object[]): Promise<string[]> {
  globalThis.fetch = () => Promise.resolve(new Response(JSON.stringify({ entry })))
  const api = new Api(new URL('http://server/api/v2/'))
  api.scopes = ['individual:read']
  return (await findSubjects(api, 'Individual', 'Amina')).map(({ reference }) => reference)
}

const failed = { response: { status: 403 }, problem: { detail: 'the field `name` is not granted' } }
const empty = { response: { status: 200 }, resource: { data: [] } }

test('people are found by the searches that have a result', async () => {
  const data = [{ name: 'Amina', identifier: [{ system: 'urn:id', value: '1' }] }]
  assert.deepEqual(await found(failed, { ...empty, resource: { data } }), ['Individual/urn:id|1'])
  assert.deepEqual(await found(failed, empty), [])
})

test('a search that failed does not report that there is no such record', async () => {
  await assert.rejects(found(failed), { message: failed.problem.detail })
})
