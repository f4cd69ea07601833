import assert from 'node:assert/strict'
import test from 'node:test'

import { type Api, type Diagnostic, Refusal } from '../api'
import { localWarnings, merged } from './local'
import type { Field, Schema } from './schema'

const gender: Field = { name: 'gender', type: 'code', says: '', vocabularies: ['urn:gender'], fields: new Map() }
const schema: Schema = { person: new Map([['gender', gender]]), group: new Map(), membership: new Map() }

const group = (name: string, namespace: string) => ({ name, unset: false, definition: { text: '', include: [{ namespace }] } })

/** A vocabulary with the codes 1 and 2, Male and Female, and two concept groups. */
const api = {
  get: (path: string) => {
    if (path.startsWith('ConceptGroup')) return Promise.resolve({ data: [group('women', 'urn:gender'), group('farmers', 'urn:work')] })
    if (path.includes('/search')) return Promise.resolve({ data: [{ code: '2', display: 'Female', uri: 'urn:gender#2', namespace: 'urn:gender' }] })
    return /codes\/[12]$/.test(path) ? Promise.resolve({ display: 'x' }) : Promise.reject(new Refusal(404, 'no such code'))
  },
} as unknown as Api

const warnings = async (text: string) =>
  (await localWarnings(api, schema, 'individual', text)).map(({ line, column, length, suggestion, name }) => [line, column, length, suggestion, name])

test('a text that is no code of the field is reported, with the code of that name', async () => {
  assert.deepEqual(await warnings("me.gender.code == 'female'"), [[1, 19, 8, '2', 'Female']])
  assert.deepEqual(await warnings("is_head(me) &&\n  'x' != me.gender.code"), [[2, 3, 3, undefined, undefined]])
  assert.deepEqual(await warnings("members.exists(m, m.gender.code == '9')"), [[1, 36, 3, undefined, undefined]])
  assert.deepEqual(await warnings("me.gender.code == '2' && me.name.code == 'x' // me.gender.code == 'y'"), [])
})

test('a concept group without codes of the field is reported', async () => {
  assert.deepEqual(await warnings("in_group(me.gender, 'farmers')"), [[1, 21, 9, undefined, undefined]])
  assert.deepEqual(await warnings("in_group(me.gender, 'women') || in_group(me.gender, 'unknown')"), [])
})

test('a position has one diagnostic, that of the server', () => {
  const at = (column: number, message: string): Diagnostic => ({ severity: 'warning', code: 'x', message, line: 1, column, length: 1 })
  const all = merged([at(9, 'of the server')], [at(9, 'of the page'), at(2, 'of the page')])
  assert.deepEqual(all.map(({ column, message }) => [column, message]), [
    [2, 'of the page'],
    [9, 'of the server'],
  ])
})
