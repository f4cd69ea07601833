import assert from 'node:assert/strict'
import test from 'node:test'

import { parse } from '../syntax/parse'
import { changesOf, stepsOf } from './funnel'

test('the steps of a rule are its growing conjunctions', () => {
  const found = stepsOf('is_female(me) // women\n && (me.active || me.x) && me.income.amount < 5')
  assert.equal(found?.isAnd, true)
  assert.deepEqual(found?.steps.map(({ expression }) => expression), [
    '(is_female(me)\n)',
    '(is_female(me)\n) && ((me.active || me.x)\n)',
    '(is_female(me)\n) && ((me.active || me.x)\n) && (me.income.amount < 5\n)',
  ])
  for (const { expression } of found?.steps ?? []) assert.ok(parse(expression), expression)
  assert.equal(stepsOf('a || b')?.isAnd, false)
})

test('a single condition has no steps, and a long rule has no more than six', () => {
  assert.equal(stepsOf('is_female(me)'), undefined)
  assert.equal(stepsOf('a &&'), undefined)
  const long = Array.from({ length: 9 }, (_, at) => `a${at}`).join(' && ')
  const steps = stepsOf(long)?.steps ?? []
  assert.deepEqual(steps.map(({ count }) => count), [1, 1, 1, 1, 1, 4])
  assert.equal(steps.at(-1)?.expression, long)
  assert.equal(stepsOf(`${'a'.repeat(8_190)} && b && c`), undefined, 'a step may not be longer than a rule')
})

test('conditions exclude what they make false, alternatives add what they make true', () => {
  const of = (eligible: number, not_eligible: number) => ({ total: 100, eligible, not_eligible })
  assert.deepEqual(changesOf(true, [of(50, 45), of(20, 70), of(10, 88)]), [
    { change: 45, left: 55 },
    { change: 25, left: 30 },
    { change: 18, left: 12 },
  ])
  assert.deepEqual(changesOf(false, [of(10, 80), of(25, 60)]), [
    { change: 10, left: 10 },
    { change: 15, left: 25 },
  ])
})
