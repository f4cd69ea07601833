import assert from 'node:assert/strict'
import test from 'node:test'

import { Api } from '../api'
import { describe } from './stored'

test('the facts of a person are those of the register now, also if the record was read before', async () => {
  let gender = 'urn:a#1'
  globalThis.fetch = () => Promise.resolve(new Response(JSON.stringify({ gender: { uri: gender } }), { headers: { ETag: '"1"' } }))
  const api = new Api(new URL('http://server/api/v2/'))
  const field = { name: 'gender', type: 'code', says: '', vocabularies: [], fields: new Map(), choices: [] }
  const facts = { me: [{ path: ['gender'], field, items: [] }], members: undefined, programs: undefined }
  const reference = 'Individual/urn:id|1'
  await api.get('Individual/urn%3Aid%7C1')
  gender = 'urn:a#2'
  assert.deepEqual(await describe(api, reference, facts), { record: { type: 'individual', gender: 'urn:a#2' }, names: [] })
})
