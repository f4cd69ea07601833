// Drives a browser through the workbench as an analyst would, by keyboard where possible, and checks every view in light and dark, at
// two widths and in two languages. Steps at the server are requested from the test that runs this, a line each way.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'

import { accessible, given, go, lead, look, lookAtAll, page, please, say, step } from './leader.mjs'

const editor = (name = 'Rule expression') => page.getByRole('textbox', { name, exact: true })

async function write(text, name) {
  await editor(name).click()
  await page.keyboard.press('Control+A')
  await page.keyboard.press('Delete')
  // In one input: while a person types, brackets and quotation marks are closed automatically.
  await page.keyboard.insertText(text)
  await page.keyboard.press('Escape')
}

// Chooses in the editor's list. It accepts no key for a moment after it opens, so that a key meant for the text does not choose.
async function choose(name) {
  await page.getByRole('option', { name }).first().waitFor()
  const shown = await page.evaluate(() => performance.now())
  await page.waitForFunction((shown) => performance.now() - shown > 100, shown)
  await page.keyboard.press('Enter')
}

async function signIn({ client_id: id, client_secret: secret }, expected = 'in') {
  await page.getByLabel('Client id').fill(id)
  await page.getByLabel('Client secret').fill(secret)
  await page.keyboard.press('Enter')
  await (expected === 'in' ? say('button', 'Sign out') : page.getByRole('alert')).waitFor()
}

async function count(outcome) {
  const text = await page.locator(`.counts .${outcome} dd`).first().evaluate((dd) => dd.firstChild.textContent)
  return Number(text.replaceAll(/\D/g, ''))
}

await lead(async () => {
  await page.goto(`${given.url}/workbench`)
  await lookAtAll('sign-in')
  await signIn({ ...given.client, client_secret: 'daftar_secret_wrong' }, 'refused')
  assert.equal(await page.locator('nav').count(), 0, 'nothing is shown without a token')
  await signIn(given.client)
  step('signed in')
  assert.deepEqual(await page.evaluate(() => [localStorage.length, document.cookie]), [0, ''])

  // A wrong field is marked in the text and reported below it; the suggestion fixes it.
  await write('is_female(me) && age_years(me.birth_dat) >= 60')
  await page.locator('.cm-lintRange-error', { hasText: 'birth_dat' }).waitFor()
  await page.locator('.diagnostics', { hasText: 'did you mean birth_date' }).waitFor()
  await lookAtAll('rule-wrong')
  await page.locator('.diagnostics').getByRole('button', { name: 'Use birth_date' }).click()
  await page.locator('.verdict .good', { hasText: 'The rule is valid' }).waitFor()
  assert.equal(await page.locator('.cm-lintRange-error').count(), 0)
  assert.match(await page.locator('.verdict .facts').innerText(), /me\.birth_date\s+me\.gender/)
  step('fixed an invalid rule')

  // Completion: fields after a point, and by keyboard alone.
  await editor().click()
  await page.keyboard.press('Control+End')
  await page.keyboard.type(' && me.marit')
  await choose(/^marital_status/)
  assert.match(await editor().innerText(), /me\.marital_status$/)
  await page.keyboard.type(" == code('marrie")
  await page.getByRole('option', { name: /married/i }).first().waitFor()
  await page.keyboard.press('Escape')
  await page.keyboard.press('Escape')
  step('completed a field and looked for a code in the editor')
  await write('')
  await editor().click()
  await page.keyboard.type("in_group(me.gender, 'femi")
  await choose('feminine_gender')
  assert.match(await editor().innerText(), /in_group\(me\.gender, 'feminine_gender'\)/)
  // A word that is not in the language is searched among the names of codes.
  await write('')
  await editor().click()
  await page.keyboard.type('me.gender == femal')
  await choose(/^Female/)
  assert.match(await editor().innerText(), /me\.gender == code\('urn:iso:std:iso:5218#2'\)/)
  await page.locator('.verdict .good').waitFor()
  step('completed a concept group and a code by its name')

  await write('me.health_conditions.exists(c, c == ')
  // Tab leaves the editor.
  await page.keyboard.press('Tab')
  assert.notEqual(await page.evaluate(() => document.activeElement?.className), 'editor')

  // A code by its misspelt name, chosen by keyboard.
  const search = say('combobox', 'Insert a code')
  await search.click()
  await page.keyboard.type('cholrea')
  await page.getByRole('option', { name: /Cholera/ }).waitFor()
  await look('codes-found')
  await accessible('codes found')
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Enter')
  assert.match(await editor().innerText(), /c == code\('urn:who:icd-11#1A00'\)\)?$/)
  step('inserted a code')

  // The explanation of a word.
  await write('age_years(me.birth_date) >= 60')
  await page.locator('.cm-content span', { hasText: 'age_years' }).first().hover()
  await page.locator('.cm-tooltip .description', { hasText: 'Completed years' }).waitFor()

  // A preview that is cancelled: its response is delayed until then.
  await write(given.rule)
  assert.equal(await page.locator('.verdict .good').count(), 0, 'no result is shown for a text that was not validated')
  await page.locator('.verdict .good').waitFor()
  assert.match(await page.locator('.verdict .facts').innerText(), /me\.gender/, 'the reported facts are those of this rule')
  let release
  const held = new Promise((resolve) => (release = resolve))
  await page.route('**/Eligibility/$preview', async (route) => {
    await held
    await route.abort().catch(() => {})
  })
  await say('button', 'Preview').click()
  await page.locator('progress').first().waitFor()
  await say('button', 'Cancel').click()
  await page.getByRole('alert').filter({ hasText: 'cancelled' }).waitFor()
  release()
  await page.unrouteAll({ behavior: 'ignoreErrors' })
  step('cancelled a preview')

  await say('button', 'Preview').click()
  await page.locator('.counts').waitFor()
  const counts = { eligible: await count('eligible'), not_eligible: await count('not_eligible'), undetermined: await count('undetermined') }
  assert.deepEqual(counts, given.counts)
  const genders = await page.locator('table', { hasText: 'By gender' }).locator('td[data-outcome="eligible"]').allInnerTexts()
  const sum = genders.map((text) => Number(/\d+/.exec(text)[0])).reduce((all, one) => all + one, 0)
  assert.equal(sum, counts.eligible, 'the bars say what the counts say')
  assert.match(await page.locator('table', { hasText: 'Missing facts' }).innerText(), /me\.birth_date\s+\d/)
  await lookAtAll('reach')
  const download = page.waitForEvent('download')
  await page.getByLabel('Eligible only').check()
  await page.getByRole('button', { name: /CSV/ }).click()
  const csv = readFileSync(await (await download).path(), 'utf8').trimEnd().split('\r\n')
  assert.equal(csv[0], 'subject,outcome,missing')
  assert.equal(csv.length - 1, counts.eligible)
  step('previewed and took the list')

  // A case of the sample, and facts that would change its outcome.
  await page.locator('.sample li', { hasText: 'Not eligible' }).first().getByRole('button').click()
  await page.locator('.tree').waitFor()
  await page.locator('.changes', { hasText: 'must be true' }).waitFor()
  await page.locator('.tree .seen', { hasText: 'me.' }).first().waitFor()
  await lookAtAll('case')
  step('opened a case')

  await go('compare')
  await write(given.other, 'Rule B')
  await page.locator('.verdict .good').nth(1).waitFor()
  await say('button', 'Compare').click()
  await page.locator('.counts').waitFor()
  assert.deepEqual({ gained: await count('gained'), lost: await count('lost'), kept: await count('kept') }, given.moves)
  await page.getByLabel('Amount per head and month').fill('10.5')
  const added = (given.moves.gained - given.moves.lost) * 10.5
  await page.locator('output', { hasText: new Intl.NumberFormat('en').format(Math.abs(added)) }).waitFor()
  await lookAtAll('compare')

  await go('vocabularies')
  await page.locator('.choices').first().getByRole('button', { name: /ISCO-08|Occupation/i }).first().click()
  await page.locator('.detail .facts', { hasText: 'Licence' }).waitFor()
  await page.locator('.codes summary').first().click()
  await page.locator('.codes .codes li').first().waitFor()
  await lookAtAll('vocabularies')

  // The same in French, rules and all.
  await page.getByLabel('Language').selectOption('fr')
  await page.getByRole('heading', { name: 'Vocabulaires' }).first().waitFor()
  await go('rule')
  await page.getByRole('button', { name: 'Aperçu' }).waitFor()
  assert.equal(await page.locator('html').getAttribute('lang'), 'fr')
  assert.match(await page.getByRole('textbox', { name: 'Expression de la règle' }).innerText(), /age_years/)
  await page.locator('.verdict .good').waitFor()
  await lookAtAll('rule-fr')
  await page.getByLabel('Langue').selectOption('en')

  // By keyboard alone: the skip link, and the way through the views.
  await page.keyboard.press('Escape')
  await page.evaluate(() => document.activeElement.blur())
  await page.keyboard.press('Tab')
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to the content')
  await page.keyboard.press('Enter')
  assert.equal(await page.evaluate(() => document.activeElement.id), 'main')
  for (const landmark of ['banner', 'navigation', 'main', 'contentinfo']) await page.getByRole(landmark).first().waitFor()

  // After a token is revoked, signing in again finds the rules unchanged.
  await please('revoke')
  await page.getByRole('button', { name: 'Preview' }).click()
  await page.getByRole('alert').filter({ hasText: 'Your session has expired' }).waitFor()
  assert.equal(await page.locator('.counts').count(), 0, 'nothing that was answered is left')
  step('lost the token')

  // A client with a limit of three requests per minute: the page shows how long to wait, and the rule is checked then.
  await signIn(given.limited)
  assert.match(await editor().innerText(), /age_years/)
  let status = 200
  for (const limit of [61, 62, 63, 64]) {
    if (status === 429) break
    const answer = page.waitForResponse((response) => response.url().endsWith('$validate'))
    await write(`age_years(me.birth_date) >= ${limit}`)
    status = (await answer).status()
  }
  assert.equal(status, 429)
  await page.locator('.wait', { hasText: /Wait \d+ second/ }).waitFor()
  await look('wait')
  await accessible('waiting')
  await page.locator('.verdict .good').waitFor({ timeout: 60_000 })
  await page.locator('.wait').waitFor({ state: 'hidden' })
  step('waited as long as shown')

  // After signing out by the button a reload shows no data either.
  await say('button', 'Sign out').click()
  await page.reload()
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
})
