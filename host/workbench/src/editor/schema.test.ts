import assert from 'node:assert/strict'
import test from 'node:test'

import type { Api } from '../api'
import { conditionOf, withCondition } from '../vocabularies/condition'
import { expected } from './expected'
import { fieldsBelow, findField, readSchema, valueField } from './schema'

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
          disability_codes: { type: 'array', items: { $ref: '#/components/schemas/Code', description: 'A code of `urn:b` or `urn:d`.' } },
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
  assert.deepEqual(names('', ['me']), ['address', 'birth_date', 'disability_codes', 'gender', 'income', 'role'])
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

test('a field has its vocabularies, and so has a variable for its items', () => {
  const of = (text: string, path: string) => valueField(schema, 'individual', text, path)?.vocabularies
  assert.deepEqual(of('', 'me.gender'), ['urn:gender'])
  assert.deepEqual(of('members.exists(m, m.gender == ', 'm.gender'), ['urn:gender'])
  assert.deepEqual(of('me.disability_codes.exists(c, c == ', 'c'), ['urn:b', 'urn:d'])
  assert.deepEqual(of('', 'me.birth_date'), [])
  assert.equal(of('', 'me'), undefined)
  assert.equal(of('', 'c'), undefined)
})

test('the text around the cursor says which code is expected', () => {
  const at = (text: string) => {
    const [before = '', after = ''] = text.split('|')
    const found = expected(before, after)
    return found && [found.form, found.path, found.written, before.slice(found.from)]
  }
  assert.deepEqual(at('me.gender == |'), ['code', 'me.gender', '', ''])
  assert.deepEqual(at('is_head(me) && me.gender != fem|'), ['code', 'me.gender', 'fem', 'fem'])
  assert.deepEqual(at("me.gender == 'fem|'"), ['code', 'me.gender', 'fem', "'fem"])
  assert.deepEqual(at("me.gender == code('fem|')"), ['uri', 'me.gender', 'fem', 'fem'])
  assert.deepEqual(at("me.gender.code == '|'"), ['part', 'me.gender', '', ''])
  assert.deepEqual(at("me.gender in [code('a#1'), fem|"), ['code', 'me.gender', 'fem', 'fem'])
  assert.deepEqual(at("in_group(me.gender, 'fem|')"), ['group', 'me.gender', 'fem', 'fem'])
  assert.deepEqual(at("descends_from(me.occupation, 'farm|')"), ['uri', 'me.occupation', 'farm', 'farm'])
  assert.deepEqual(at("code('chol|') in me.health_conditions"), ['uri', 'me.health_conditions', 'chol', 'chol'])
  assert.deepEqual(at("code('chol|"), ['uri', undefined, 'chol', 'chol'])
  assert.equal(at('age_years(me.birth_date) >= 6|'), undefined)
  assert.equal(at('me.gender == code(\'a#1\') && is_h|'), undefined)
})

test('a code is added to a rule by the field that has it', () => {
  const of = (namespace: string) => conditionOf(schema, 'individual', { uri: `${namespace}#1`, namespace })
  assert.equal(of('urn:gender'), "me.gender == code('urn:gender#1')")
  assert.equal(of('urn:d'), "code('urn:d#1') in me.disability_codes")
  assert.equal(of('urn:nothing'), undefined)
  assert.equal(withCondition('', 'x'), 'x')
  assert.equal(withCondition('a', 'x'), 'a\n&& x')
  assert.equal(withCondition('a && (b || c)', 'x'), 'a && (b || c)\n&& x')
  assert.equal(withCondition('a || b // why', 'x'), '(a || b // why\n)\n&& x')
})
