import assert from 'node:assert/strict'
import test from 'node:test'

import { shortcut, shortcutDigit } from './keys'

const event = { altKey: true, ctrlKey: false, metaKey: false, shiftKey: false, code: 'Digit2' }

test('Alt with a digit is a shortcut, by the place of the key', () => {
  assert.equal(shortcutDigit(event, false), 2)
  assert.equal(shortcutDigit({ ...event, code: 'Digit0' }, false), 0)
  assert.equal(shortcut(2, false), 'Alt+2')
})

test('signs that a layout writes by AltGr, and other keys, are no shortcuts', () => {
  for (const other of [{ ctrlKey: true }, { metaKey: true }, { shiftKey: true }, { altKey: false }, { code: 'Numpad2' }, { code: 'KeyA' }]) {
    assert.equal(shortcutDigit({ ...event, ...other }, false), undefined, JSON.stringify(other))
  }
})

test('on a Mac, where Alt with a digit writes a sign, it is Ctrl+Alt', () => {
  assert.equal(shortcutDigit(event, true), undefined)
  assert.equal(shortcutDigit({ ...event, ctrlKey: true }, true), 2)
  assert.equal(shortcutDigit({ ...event, ctrlKey: true, altKey: false }, true), undefined)
  assert.equal(shortcut(2, true), 'Ctrl+Alt+2')
})
