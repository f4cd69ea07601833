import assert from 'node:assert/strict'
import test from 'node:test'

import type { Field, Schema } from '../editor/schema'
import { factsOf, record, selected, sent, valueAt } from './facts'

const fields = (...all: Field[]) => new Map(all.map((field) => [field.name, field]))
const field = (name: string, type: string, more: Partial<Field> = {}): Field => ({ name, type, says: '', vocabularies: [], fields: new Map(), choices: [], ...more })
const coded = fields(field('uri', 'text'), field('namespace', 'text'))
const person = fields(
  field('birth_date', 'date'),
  field('gender', 'code', { fields: coded }),
  field('role', 'code', { fields: coded }),
  field('languages', 'list', { fields: coded }),
  field('income', 'object', { fields: fields(field('amount', 'number'), field('period', 'text', { choices: ['month', 'year'] })) }),
  field('address', 'list', { fields: fields(field('district', 'text'), field('city', 'text')) }),
)
const schema: Schema = { person, group: fields(field('name', 'text')), membership: fields(field('program', 'text'), field('status', 'text')) }

const paths = (facts: ReturnType<typeof factsOf>['me'] | undefined) =>
  facts?.map(({ path, items }) => path.join('.') + (items.length > 0 ? `[${items.map((item) => item.path.join('.')).join()}]` : ''))

test('the facts of a rule are those that it reads', () => {
  const facts = factsOf(['me.address', 'me.address[].district', 'me.income.amount', 'me.languages', 'members.gender', 'programs'], schema, 'individual')
  assert.deepEqual(paths(facts.me), ['address[district]', 'income.amount', 'languages'])
  assert.deepEqual(paths(facts.members), ['gender'])
  assert.deepEqual(paths(facts.programs), [])
  assert.equal(factsOf(['me.birth_date'], schema, 'individual').members, undefined)
  assert.deepEqual(paths(factsOf(['me.income'], schema, 'individual').me), ['income.amount', 'income.period'])
  assert.deepEqual(paths(factsOf(['me.name', 'members.role'], schema, 'group').me), ['name'])
})

test('a value is recorded and removed at its path', () => {
  const body = {}
  record(body, ['income', 'amount'], 5)
  record(body, ['income', 'period'], 'month')
  assert.deepEqual(body, { income: { amount: 5, period: 'month' } })
  assert.equal(valueAt(body, ['income', 'amount']), 5)
  assert.equal(valueAt(body, ['income', 'amount', 'x']), undefined)
  record(body, ['income', 'amount'], undefined)
  record(body, ['income', 'period'], undefined)
  assert.deepEqual(body, {})
})

test('a stored record is reduced to the facts of the rule, with codes by their URIs', () => {
  const stored = {
    identifier: [{ system: 'urn:id', value: 'DEMO-1' }],
    name: { given: 'Amina' },
    gender: { uri: 'urn:a#2', code: '2', display: 'Female', namespace: 'urn:a' },
    languages: [{ uri: 'urn:l#fr', code: 'fr' }],
    address: [{ district: 'East', city: 'X' }, { city: 'Y' }],
    income: { amount: 5, period: 'month' },
  }
  const { me } = factsOf(['me.gender', 'me.languages', 'me.address[].district', 'me.income.amount', 'me.birth_date'], schema, 'individual')
  assert.deepEqual(selected(stored, me), {
    gender: 'urn:a#2',
    languages: ['urn:l#fr'],
    address: [{ district: 'East' }, {}],
    income: { amount: 5 },
  })
  assert.deepEqual(sent([{ uri: 'urn:a#1' }, 3, null]), ['urn:a#1', 3, null])
})
