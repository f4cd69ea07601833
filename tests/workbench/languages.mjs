// Checks that a page is in one language: its own texts, and those of the server.

import assert from 'node:assert/strict'

import { given, page } from './leader.mjs'

// Words that no French sentence has.
const ENGLISH = /\b(the|of|is|are|and|with|cannot|this|takes|people|has|not)\b/i

// The texts of the page, without rules, codes, names from the vocabularies and texts of their publishers.
export async function inOneLanguage(what) {
  const texts = await page.evaluate(() => {
    const isData = 'code, pre, bdi, option, .editor, [translate="no"], [lang]:not(html):not([lang="fr"]), footer'
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
    const found = []
    while (walker.nextNode()) if (!walker.currentNode.parentElement.closest(isData)) found.push(walker.currentNode.textContent)
    return found
  })
  assert.deepEqual(texts.filter((text) => ENGLISH.test(text)), [], `${what} is in one language`)
}

// Each diagnostic of the engine and one without a known name, all in one response.
export async function everyDiagnosticInFrench() {
  const english = 'the message of the server is English'
  const diagnostics = [...given.reasons, 'of_another_engine'].map((reason) => ({
    severity: 'error', code: 'wrong_type', reason, parameters: ['me', 'list', '', 'x', '1', '2'], message: english, line: 1, column: 1, length: 2,
  }))
  diagnostics.push({ severity: 'error', code: 'of_another_engine', message: english, line: 1, column: 1, length: 2 })
  const body = { valid: false, result_type: null, references: [], cost: null, diagnostics }
  await page.route('**/Eligibility/$validate', (route) => route.fulfill({ json: body }))
  await page.locator('.cm-content').click()
  await page.keyboard.type(' ')
  await page.locator('.diagnostics li').nth(diagnostics.length - 1).waitFor()
  await inOneLanguage('a list of all diagnostics')
  const empty = await page.locator('.diagnostics li p').evaluateAll((all) => all.filter((p) => /undefined|[{}]|^\s*$/.test(p.textContent)).map((p) => p.textContent))
  assert.deepEqual(empty, [], 'every place is filled')
  await page.unrouteAll({ behavior: 'ignoreErrors' })
  await page.keyboard.press('Backspace')
  await page.locator('.verdict .good').waitFor()
}

// The fields that completion offers, with their kinds and descriptions.
export async function fieldsInFrench() {
  await page.locator('.cm-content').click()
  await page.keyboard.press('Control+End')
  await page.keyboard.type(' && me.birth_da')
  await page.locator('.cm-completionInfo', { hasText: 'La date de naissance.' }).waitFor()
  const kinds = await page.locator('.cm-tooltip-autocomplete .cm-completionDetail').allInnerTexts()
  assert.ok(kinds.length > 0 && kinds.every((kind) => !/true|number|text\b|list\b/.test(kind)), String(kinds))
  await page.keyboard.press('Escape')
  for (let letter = 0; letter < ' && me.birth_da'.length; letter += 1) await page.keyboard.press('Backspace')
  await page.locator('.verdict .good').waitFor()
}

// Problems of requests, by the code in their body.
export async function everyProblemInFrench() {
  for (const [status, code] of [[403, 'missing_scope'], [422, 'evaluation_failed'], [500, 'internal_error'], [409, 'conflict'], [400, 'unknown_parameter'], [418, 'of_a_later_version']]) {
    const json = { status, code, title: 'The title is English', detail: 'the detail of `individual:read` is English', errors: [{ field: 'filter.gender', code: 'x', message: 'is not known' }] }
    await page.route('**/Eligibility/$preview', (route) => route.fulfill({ status, json, contentType: 'application/problem+json' }))
    await page.locator('.reach .primary').click()
    await page.locator('.running .problem:visible').waitFor()
    await inOneLanguage(`a response ${status}`)
    await page.unrouteAll({ behavior: 'ignoreErrors' })
  }
}
