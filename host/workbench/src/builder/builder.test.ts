import assert from 'node:assert/strict'
import test from 'node:test'

import { exampleRules } from '../syntax/examples'
import { isSame, parse } from '../syntax/parse'
import { type Group, isComplete, write } from './model'
import { readRows } from './read'

/** The rows of a text, and the text that they write. */
function again(text: string): string {
  const rows = readRows(text)
  assert.equal(rows.kind, 'rows', `${text}: ${JSON.stringify(rows)}`)
  if (rows.kind !== 'rows') return ''
  assert.ok(rows.group.rows.length === 0 || isComplete(rows.group), text)
  return write(rows.group)
}

test('every form is read and written back', () => {
  for (const text of [
    '',
    'age_years(me.birth_date) >= 60',
    'between(age_years(me.birth_date), 6, 14)',
    '!between(days_since(me.registration_date), 0, 1000)',
    "me.birth_date < date('1960-01-01')",
    "between(me.birth_date, date('1950-01-01'), date('1959-12-31'))",
    'me.income.amount <= 3000.0',
    'me.income.amount != -1.5',
    "me.income.period == 'month'",
    "me.name.family != 'O\\'Neil \\\\ Sons'",
    "me.income.period in ['month', 'year']",
    'me.active',
    '!me.active',
    'is_female(me)',
    '!is_alive(me)',
    "me.gender == code('urn:iso:std:iso:5218#2')",
    "me.gender != code('urn:iso:std:iso:5218#2')",
    "me.gender in [code('urn:iso:std:iso:5218#1'), code('urn:iso:std:iso:5218#2')]",
    "in_group(me.occupation, 'agricultural_workers')",
    "!in_group(me.occupation, 'agricultural_workers')",
    "descends_from(me.occupation, 'urn:ilo:isco-08#6')",
    "!descends_from(me.occupation, 'urn:ilo:isco-08#6')",
    "code('urn:iso:std:iso:639#en') in me.languages",
    "!(code('urn:iso:std:iso:639#en') in me.languages)",
    'has(me.birth_date)',
    '!has(me.income)',
    'members.size() >= 4',
    'me.disability_codes.size() == 0',
    'members.exists(m, is_head(m) && age_years(m.birth_date) < 18)',
    'members.all(m, age_years(m.birth_date) < 18)',
    '!members.exists(m, is_pregnant(m))',
    'members.exists_one(m, is_head(m) || is_male(m))',
    'members.filter(m, is_female(m)).size() <= 2',
    "me.disability_codes.exists(c, descends_from(c, 'urn:who:icf:b#b2'))",
    "members.exists(m, m.disability_codes.all(c, in_group(c, 'x')))",
    "me.address.exists(a, a.district in ['Harbour', 'Northgate'])",
    "programs.exists(p, p.status == 'enrolled')",
    'is_female(me) && (age_years(me.birth_date) >= 60 || has(me.pregnancy_status))',
    'is_female(me) || (is_male(me) && (me.active || has(me.income)))',
  ]) {
    assert.equal(again(text), text)
  }
})

test('spaces, parentheses and words as operators make no difference', () => {
  assert.equal(again('is_female(me)\n  and (( age_years(me.birth_date)>=60 ))'), 'is_female(me) && age_years(me.birth_date) >= 60')
  assert.equal(again('not has(me.income)'), '!has(me.income)')
})

test('a long rule has one condition a line', () => {
  const text = write({
    kind: 'group',
    joined: 'any',
    rows: Array.from({ length: 3 }, () => ({ kind: 'fact', path: 'me.birth_date', measure: 'age_years', operator: '>=', type: 'number', values: ['60'] })),
  } satisfies Group)
  assert.deepEqual(text.split('\n').slice(1), ['  || age_years(me.birth_date) >= 60', '  || age_years(me.birth_date) >= 60'])
})

test('the builder names the part that it has no form for', () => {
  const part = (text: string) => {
    const rows = readRows(text)
    return rows.kind === 'rich' ? rows.part : rows.kind
  }
  assert.equal(part('me.active && me.income.amount * 12.0 < 6000.0'), 'me.income.amount * 12.0 < 6000.0')
  assert.equal(part('60 <= age_years(me.birth_date)'), '60 <= age_years(me.birth_date)')
  assert.equal(part('me.active && !(is_male(me) || me.active)'), '!(is_male(me) || me.active)')
  assert.equal(part('me.birth_date < today()'), 'me.birth_date < today()')
  assert.equal(part('x.active'), 'x.active')
  assert.equal(part('me.active == true'), 'me.active == true')
  assert.equal(part('me.income.amount > 0x10'), 'me.income.amount > 0x10')
  assert.equal(part('members.exists(m, is_head(n))'), 'is_head(n)')
  assert.equal(part('me.active // why'), undefined)
  assert.equal(part('me.active &&'), 'invalid')
})

test('each example rule is read exactly, or is too rich and stays', () => {
  const rich: string[] = []
  for (const { name, expression } of exampleRules()) {
    const rows = readRows(expression)
    if (rows.kind === 'rows') assert.ok(isSame(parse(write(rows.group))!.tree, parse(expression)!.tree), name)
    else rich.push(`${name}: ${rows.kind}`)
  }
  assert.deepEqual(rich, ['dependency-ratio: rich', 'informal-worker-insurance: rich', 'proxy-means-housing: rich'])
})

test('rows without a value are incomplete', () => {
  const fact = { kind: 'fact', path: 'me.birth_date', measure: 'age_years', operator: '>=', type: 'number', values: ['60'] } as const
  assert.ok(isComplete({ ...fact, values: ['60'] }))
  for (const change of [{ values: [] }, { values: ['x'] }, { path: '' }, { operator: 'between' }, { operator: 'oneOf', values: [] }] as const) {
    assert.ok(!isComplete({ ...fact, ...change, values: [...((change as { values?: string[] }).values ?? fact.values)] }), JSON.stringify(change))
  }
  assert.ok(!isComplete({ kind: 'group', joined: 'all', rows: [] }))
})
