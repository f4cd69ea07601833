import assert from 'node:assert/strict'
import test from 'node:test'

import { LANGUAGES, currentLanguage, leftToRight, setLanguage, useStrings } from './i18n'
import { ar } from './strings/ar'
import { en } from './strings/en'

test('a range of amounts is read from left to right in Arabic too', () => {
  const format = new Intl.NumberFormat('ar', { style: 'currency', currency: 'KES' })
  const range = format.formatRange(58_800, 69_600)
  assert.match(range, /\u200f/, 'the format has a mark that reverses it')
  useStrings('ar', ar)
  assert.match(leftToRight(range), /^\u206658,800\.00–69,600\.00[\s\u00a0]KES\u2069$/)
  useStrings('en', en)
  assert.equal(leftToRight('58–69'), '58–69')
})

test('the language that was chosen last is active, also if the strings of an earlier choice arrive later', async () => {
  Object.assign(globalThis, { document: { documentElement: {} } })
  let arrive = () => {}
  const late = new Promise<void>((resolve) => (arrive = resolve))
  LANGUAGES['late'] = { name: 'late', load: () => late.then(() => en) }
  const first = setLanguage('late')
  await setLanguage('ar')
  arrive()
  await first
  assert.equal(currentLanguage(), 'ar')
  delete LANGUAGES['late']
  useStrings('en', en)
})
