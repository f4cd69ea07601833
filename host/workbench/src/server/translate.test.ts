import assert from 'node:assert/strict'
import test, { afterEach } from 'node:test'

import { LANGUAGES, useStrings } from '../i18n'
import { en } from '../strings/en'
import { diagnosticText, fieldText, problemText } from './translate'
import type { ServerTexts } from './texts'

const french = (await LANGUAGES['fr']?.server?.()) as ServerTexts

afterEach(() => useStrings('en', en))

/** The keys of all texts, with the places in each. */
function shape(texts: ServerTexts): string[] {
  const places = (text: unknown) => [...String(text).matchAll(/\{(?:\w+:)?\d\}/g)].map(([place]) => place).sort().join('')
  return Object.entries(texts).flatMap(([section, value]) =>
    typeof value === 'string' ? [`${section} ${places(value)}`] : Object.entries(value).map(([key, text]) => `${section}.${key} ${places(text)}`),
  )
}

for (const [tag, language] of Object.entries(LANGUAGES)) {
  if (!language.server) continue
  test(`${language.name} has every text of the server, with the same parameters`, async () => {
    const texts = (await language.server?.()) as ServerTexts
    assert.deepEqual(shape(texts).sort(), shape(french).sort(), tag)
    const all = Object.values(texts).flatMap((value) => (typeof value === 'string' ? [value] : Object.values(value)))
    assert.ok(all.every((text) => String(text).trim() !== ''))
  })
}

test('a diagnostic is written by its reason, else by its code, and never in English', () => {
  const found = { severity: 'error', code: 'wrong_type', message: 'English', line: 1, column: 1, length: 1 } as const
  assert.equal(diagnosticText({ ...found, reason: 'no_field', parameters: ['me', 'x'] }), 'English')
  useStrings('fr', en, french)
  assert.equal(diagnosticText({ ...found, reason: 'no_field', parameters: ['me', 'x'] }), '`me` n’a pas de champ `x`')
  const described = diagnosticText({ ...found, reason: 'takes_list', parameters: ['exists', 'me', 'record', 'gender'] })
  assert.equal(described, '`exists` prend une liste ; `me` est un enregistrement ; nommez un de ses champs, comme `gender`')
  assert.equal(diagnosticText({ ...found, reason: 'of_another_engine' }), french.diagnostics['wrong_type'])
  assert.equal(diagnosticText({ ...found, code: 'x' }), 'le moteur signale un problème (`x`)')
})

test('a problem is written by its code, with the values that it names', () => {
  const problem = { code: 'missing_scope', detail: 'the token lacks `individual:read`' }
  assert.equal(problemText(problem, 403), 'the token lacks `individual:read`')
  useStrings('fr', en, french)
  assert.equal(problemText(problem, 403), `${french.problems['missing_scope']} · \`individual:read\``)
  const invalid = { code: 'validation_failed', detail: 'x', errors: [{ field: 'as_of', code: 'out_of_range', message: 'is too late' }] }
  assert.equal(problemText(invalid, 422), `${french.problems['validation_failed']} · \`as_of\` est hors limites`)
  assert.equal(problemText({ error: 'invalid_client', detail: 'x' }, 401), french.problems['invalid_client'])
  assert.equal(problemText({}, 404), french.problems['not_found'])
  assert.equal(problemText({ code: 'of_a_later_version' }, 418), 'Le serveur a refusé la requête (`of_a_later_version`).')
})

test('a field is described by its path, a coded one by its vocabularies', () => {
  assert.equal(fieldText(['birth_date'], [], 'A day.'), 'A day.')
  useStrings('fr', en, french)
  assert.equal(fieldText(['birth_date'], [], 'A day.'), 'La date de naissance.')
  assert.equal(fieldText(['city'], [], 'x'), 'La ville.')
  assert.equal(fieldText(['gender'], ['urn:a', 'urn:b'], 'x'), 'Un code de `urn:a` ou `urn:b`.')
  assert.equal(fieldText(['of_a_module'], [], 'English'), '')
})
