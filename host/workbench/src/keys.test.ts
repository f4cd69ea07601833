import assert from 'node:assert/strict'
import test from 'node:test'

import { altDigit } from './keys'

const event = { altKey: true, ctrlKey: false, metaKey: false, shiftKey: false, code: 'Digit2' }

test('Alt with a digit is a shortcut, by the place of the key', () => {
  assert.equal(altDigit(event), 2)
  assert.equal(altDigit({ ...event, code: 'Digit0' }), 0)
})

test('signs that a layout writes by AltGr, and other keys, are no shortcuts', () => {
  for (const other of [{ ctrlKey: true }, { metaKey: true }, { shiftKey: true }, { altKey: false }, { code: 'Numpad2' }, { code: 'KeyA' }]) {
    assert.equal(altDigit({ ...event, ...other }), undefined, JSON.stringify(other))
  }
})
