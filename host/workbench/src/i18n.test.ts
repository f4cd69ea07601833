import assert from 'node:assert/strict'
import test from 'node:test'

import { leftToRight, useStrings } from './i18n'
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
