import assert from 'node:assert/strict'
import test from 'node:test'

import { Api } from '../api'
import { describe, memberNames } from './stored'

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

test('the members have the names of the register now', async () => {
  let name = 'Amina'
  const group = () => ({ group_type: { code: 'household' }, member: [{ entity: { display: name }, role: { display: 'Head' } }, { entity: {}, inactive: true }] })
  globalThis.fetch = () => Promise.resolve(new Response(JSON.stringify(group()), { headers: { ETag: '"1"' } }))
  const api = new Api(new URL('http://server/api/v2/'))
  api.scopes = ['group:read']
  const person = { group_membership: [{ group: { reference: 'Group/urn:id|1' } }] }
  assert.deepEqual(await memberNames(api, 'Individual', person), ['Amina (Head)'])
  name = 'Zahra'
  assert.deepEqual(await memberNames(api, 'Individual', person), ['Zahra (Head)'])
  assert.deepEqual(await memberNames(api, 'Group', group()), ['Zahra (Head)'])
  api.scopes = []
  assert.deepEqual(await memberNames(api, 'Individual', person), [])
})
