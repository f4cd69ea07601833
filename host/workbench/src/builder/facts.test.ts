import assert from 'node:assert/strict'
import test from 'node:test'

import type { Field, Schema } from '../editor/schema'
import { LANGUAGES, useStrings } from '../i18n'
import { choicesOf, chosen, freshVariable, labelOf, listsOf, operatorsOf, placeOf, start } from './facts'
import type { Fact } from './model'

const field = (name: string, type: string, more: Partial<Field> = {}): [string, Field] => [name, { name, type, says: '', vocabularies: [], fields: new Map(), ...more }]

const person = new Map([
  field('birth_date', 'date'),
  field('gender', 'code', { vocabularies: ['urn:gender'] }),
  field('disability_codes', 'list', { vocabularies: ['urn:d'] }),
  field('income', 'object', { fields: new Map([field('amount', 'number'), field('period', 'text', { choices: ['month', 'year'] })]) }),
  field('address', 'list', { fields: new Map([field('district', 'text')]) }),
])
const schema: Schema = { person, group: new Map([field('housing_type', 'code', { vocabularies: ['urn:h'] })]), membership: new Map([field('status', 'text')]) }

const me = start(schema, 'individual')
const names = (place = me) => choicesOf(place).facts.map(({ path, measure }) => (measure === 'value' ? path : `${measure} ${path}`))

test('the facts of a person are its fields, its age and the sizes of lists', () => {
  assert.deepEqual(names(), [
    'age_years me.birth_date',
    'size members',
    'me.birth_date',
    'me.gender',
    'me.disability_codes',
    'size me.disability_codes',
    'me.income',
    'me.income.amount',
    'me.income.period',
    'size me.address',
  ])
  assert.equal(choicesOf(me).status.length, 5)
  assert.deepEqual(names(start(schema, 'group')), ['size members', 'me.housing_type'])
})

test('the items of a list have the facts of its fields, or are codes', () => {
  const m = placeOf(schema, [me], 'members', 'm')
  assert.ok(names(m).includes('m.gender') && !names(m).includes('size members'))
  assert.deepEqual(names(placeOf(schema, [me], 'me.address', 'a')), ['a.district'])
  assert.deepEqual(names(placeOf(schema, [me, m], 'm.disability_codes', 'c')), ['c'])
  assert.deepEqual(placeOf(schema, [me, m], 'm.disability_codes', 'c').vocabularies, ['urn:d'])
  assert.deepEqual(listsOf(me).map(({ path }) => path), ['members', 'programs', 'me.disability_codes', 'me.address'])
  assert.deepEqual(listsOf(m).map(({ path }) => path), ['m.disability_codes', 'm.address'])
})

test('the variable of a list is not one that is declared already', () => {
  const m = placeOf(schema, [me], 'members', 'm')
  assert.equal(freshVariable('members', [me]), 'm')
  assert.equal(freshVariable('members', [me, m]), 'm2')
  assert.equal(freshVariable('me.disability_codes', [me]), 'c')
})

test('comparisons fit the type of the fact', () => {
  const operators = (path: string, measure = 'value') => {
    const one = choicesOf(me).facts.find((choice) => choice.path === path && choice.measure === measure)
    return one ? operatorsOf(one) : []
  }
  assert.equal(operators('me.birth_date', 'age_years')[0], '>=')
  assert.ok(operators('me.gender').includes('below') && !operators('me.gender').includes('<'))
  assert.deepEqual(operators('me.disability_codes').slice(0, 2), ['contains', 'notContains'])
  assert.deepEqual(operators('me.income'), ['recorded', 'notRecorded'])
  assert.ok(!operators('me.income.period').includes('oneOf'), 'a field with few values has a list of them')
})

test('a fact that the schema does not have keeps its path', () => {
  const fact: Fact = { kind: 'fact', path: 'me.extension.farm', measure: 'value', operator: '==', type: 'text', values: ['x'] }
  assert.equal(chosen(fact, choicesOf(me).facts)?.label, 'me.extension.farm')
  assert.equal(chosen({ ...fact, path: '' }, []), undefined)
  // An age in days is the same fact in another unit.
  assert.equal(chosen({ ...fact, path: 'me.birth_date', measure: 'days_since', type: 'number' }, choicesOf(me).facts)?.measure, 'age_years')
})

test('labels have no article, in every language', async () => {
  for (const [tag, expected] of [['en', 'Date of birth'], ['fr', 'Date de naissance'], ['es', 'Fecha de nacimiento'], ['pt', 'Data de nascimento'], ['ar', 'تاريخ الميلاد']] as const) {
    const strings = await LANGUAGES[tag]!.load()
    useStrings(tag, strings)
    assert.equal(labelOf(strings.reading.fields.birth_date), expected)
  }
  useStrings('en', await LANGUAGES['en']!.load())
})
