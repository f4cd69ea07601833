import assert from 'node:assert/strict'
import test from 'node:test'

import type { Api } from '../api'
import { fieldsBelow, findField, readSchema } from './schema'

/** The part of the API description from which the schema is read. */
const DOCUMENT = {
  components: {
    schemas: {
      Code: { type: 'object', properties: { code: { type: 'string' }, uri: { type: 'string' } } },
      Address: { type: 'object', description: 'Where.', properties: { region: { type: 'string' } } },
      Member: { properties: { role: { $ref: '#/components/schemas/Code', description: 'A code of `urn:role`.' } } },
      Individual: {
        properties: {
          type: { type: 'string' },
          identifier: { type: 'array', items: {} },
          birth_date: { type: 'string', format: 'date' },
          gender: { $ref: '#/components/schemas/Code', description: 'A code of `urn:gender`.' },
          address: { type: 'array', items: { $ref: '#/components/schemas/Address' } },
          income: { type: 'object', properties: { amount: { type: 'number' } } },
        },
      },
      Group: { properties: { group_type: { $ref: '#/components/schemas/Code' }, member: { type: 'array', items: {} } } },
      ProgramMembership: { properties: { status: { type: 'string' }, override: { type: 'object' } } },
    },
  },
}

const schema = await readSchema({ get: () => Promise.resolve(DOCUMENT) } as unknown as Api)
const names = (text: string, path: string[], subject: 'individual' | 'group' = 'individual') =>
  [...(fieldsBelow(schema, subject, text, path)?.keys() ?? [])].sort()

test('a person has the fields that rules read, and a role', () => {
  assert.deepEqual(names('', ['me']), ['address', 'birth_date', 'gender', 'income', 'role'])
  assert.deepEqual(names('', ['me'], 'group'), ['group_type'])
})

test('fields lie below fields', () => {
  assert.deepEqual(names('', ['me', 'gender']), ['code', 'uri'])
  assert.deepEqual(names('', ['me', 'income']), ['amount'])
  assert.deepEqual(names('', ['me', 'nothing']), [])
})

test('a variable stands for an item of the list that its macro is about', () => {
  const of = (text: string, variable: string) => names(text, [variable])
  assert.deepEqual(of('members.exists(m, m.', 'm'), names('', ['me']))
  assert.deepEqual(of('members.filter(m, is_head(m)).all(x, x.', 'x'), names('', ['me']))
  assert.deepEqual(of('programs.exists(p, p.', 'p'), ['status'])
  assert.deepEqual(of('me.address.exists(a, a.', 'a'), ['region'])
  assert.deepEqual(of('members.exists(m, m.', 'n'), [])
  assert.deepEqual(of('m.exists(m, m.', 'm'), [], 'a variable of itself is nothing, and ends')
  assert.deepEqual(of('b.exists(a, a.exists(b, b.', 'b'), [], 'and so are two of each other')
})

test('a field says what kind it is and of which vocabulary', () => {
  const find = (path: string) => findField(schema, 'individual', '', path.split('.'))
  assert.deepEqual([find('me.birth_date')?.type, find('me.address')?.type, find('me.gender')?.type], ['date', 'list', 'code'])
  assert.equal(find('me.gender')?.says, 'A code of `urn:gender`.')
  assert.equal(find('me'), undefined)
})
