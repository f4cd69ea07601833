import assert from 'node:assert/strict'
import test from 'node:test'

import { type Change, type Explanation, changes, operator } from './changes'

const part = (text: string, value: unknown, children: Explanation[] = [], more: Partial<Explanation> = {}): Explanation => ({
  text,
  value,
  seen: {},
  children,
  ...more,
})

/** A change in short form. */
function short(change: Change | undefined): string {
  if (!change) return 'nothing'
  if (change.kind === 'record') return `record ${change.fact}`
  if (change.kind === 'fixed') return `fixed ${change.parts.map(({ text }) => text).join(' ')}`
  if (change.kind === 'part') return `${change.text}=${change.wanted}`
  return `${change.kind}(${change.changes.map(short).join(', ')})`
}

test('finds the outermost operator', () => {
  const cases: [string, string][] = [
    ['a && b', 'and'],
    ['a and b || c', 'or'],
    ['a or b and c', 'or'],
    ['(a || b) && c', 'and'],
    ['(a || b)', 'or'],
    ['((a && b))', 'and'],
    ['!a', 'not'],
    ['not (a && b)', 'not'],
    ['!(a) && (b || c)', 'and'],
    ['!a == b', 'other'],
    ['a ? b : c', 'other'],
    ['a && b ? c : d', 'other'],
    ['me.?rooms.orValue(0) > 2 && a', 'and'],
    ["me.name == 'x && y'", 'other'],
    ["me.name == 'it\\'s || not' && a", 'and'],
    ['members.exists(m, a || b)', 'exists'],
    ['members.filter(m, a).all(m, b)', 'all'],
    ['members.filter(m, m.codes.exists(c, a)).all(m, b)', 'all'],
    ['members.exists(m, a) == b', 'other'],
    ['me.android == 1', 'other'],
    ['x in [a, b]', 'other'],
    ['is_female(me)', 'other'],
  ]
  for (const [text, expected] of cases) assert.equal(operator(text), expected, text)
})

test('every part of an `and` that does not hold must change', () => {
  const rule = part('a && b && c', false, [part('a && b', false, [part('a', false), part('b', true)]), part('c', false)])
  assert.equal(short(changes(rule, true)), 'all(a=true, c=true)')
})

test('one part of an `or` is enough', () => {
  const rule = part('a || (b && c)', false, [part('a', false), part('b && c', false, [part('b', true), part('c', false)])])
  assert.equal(short(changes(rule, true)), 'any(a=true, c=true)')
})

test('what is negated must not hold', () => {
  const rule = part('!(a && b)', false, [part('a && b', true, [part('a', true), part('b', true)])])
  assert.equal(short(changes(rule, true)), 'any(a=false, b=false)')
})

test('what is not known is to be recorded', () => {
  const rule = part('a && b', null, [part('a', true), part('b', null, [part('age', null, [], { missing: ['me.birth_date'] })])])
  assert.equal(short(changes(rule, true)), 'record me.birth_date')
})

test('one member is enough for `exists`, and for `all` each counts', () => {
  const items = [0, 1].map((item) => part('p', false, [], { item }))
  assert.equal(short(changes(part('members.exists(m, p)', false, items), true)), 'any(p=true, p=true)')
  const mixed = [part('p', true, [], { item: 0 }), part('p', false, [], { item: 1 })]
  assert.equal(short(changes(part('members.all(m, p)', false, mixed), true)), 'p=true')
})

test('all items of a list within a list count, with any number; the list itself does not', () => {
  const list = (value: unknown, item: number, missing: string[] = []) => part('m.codes.filter(c, a)', value, [], { item, missing })
  const inner = (item: number, children: Explanation[]) => part('m.codes.filter(c, a).exists(c, p)', children.length > 1 ? false : null, children, { item })
  const items = [0, 1].map((item) => part('p', false, [], { item }))
  const of = (...all: Explanation[]) => short(changes(part('members.exists(m, m.codes.filter(c, a).exists(c, p))', false, all), true))
  assert.equal(of(inner(0, [list(['x', 'y'], 0), ...items])), 'any(p=true, p=true)')
  assert.equal(of(inner(1, [list(['x', 'y'], 1), ...items])), 'any(p=true, p=true)')
  assert.equal(of(inner(1, [list(null, 1, ['members.codes'])])), 'record members.codes')
  const plain = part('m.codes.exists(c, p)', false, items, { item: 0 })
  assert.equal(short(changes(part('members.exists(m, m.codes.exists(c, p))', false, [plain]), true)), 'any(p=true, p=true)')
})

test('an empty list of members gives no choice', () => {
  assert.equal(short(changes(part('members.exists(m, p)', false), true)), 'members.exists(m, p)=true')
})

test('a fact that several parts read is to be recorded once', () => {
  const age = (years: number) => part(`age_years(me.birth_date) >= ${years}`, null, [], { missing: ['me.birth_date'] })
  const woman = part('me.x && age_years(me.birth_date) >= 60', null, [part('me.x', true), age(60)])
  assert.equal(short(changes(part('age_years(me.birth_date) >= 65 || (me.x && age_years(me.birth_date) >= 60)', null, [age(65), woman]), true)), 'record me.birth_date')
})

test('what holds needs nothing', () => {
  assert.equal(short(changes(part('a', true), true)), 'nothing')
})

test('a gender, a day of birth and a day of death are not to be changed', () => {
  const seen = (text: string, value: unknown, ...facts: string[]) => part(text, value, [], { seen: Object.fromEntries(facts.map((fact) => [fact, 1])) })
  const female = seen('is_female(me)', false, 'me.gender')
  const poor = seen('me.income.amount < 5', false, 'me.income.amount')
  const all = part('is_female(me) && me.income.amount < 5', false, [female, poor])
  assert.equal(short(changes(all, true)), 'fixed is_female(me)')
  const any = part('is_female(me) || me.income.amount < 5', false, [female, poor])
  assert.equal(short(changes(any, true)), 'me.income.amount < 5=true')
  assert.equal(short(changes(female, true)), 'fixed is_female(me)')
  const mixed = seen('me.income.amount < age_years(me.birth_date)', false, 'me.income.amount', 'me.birth_date')
  assert.equal(short(changes(mixed, true)), 'me.income.amount < age_years(me.birth_date)=true')
  // What is not recorded can be recorded.
  assert.equal(short(changes(part('is_female(me)', null, [], { missing: ['me.gender'] }), true)), 'record me.gender')
})
