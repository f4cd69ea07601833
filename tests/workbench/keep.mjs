// Drives a browser through the life of a rule: started from an example, tested, saved as a file and as a draft, shared, proposed
// for a program, tried on other facts and compared. Steps of the administrator are requested from the test that runs this.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'

import { signIn } from './keyboard.mjs'
import { accessible, editor, given, go, lead, look, lookAtAll, page, please, step, write } from './leader.mjs'

const EXAMPLE = 'Old-age pension'
const CHANGED = 'age_years(me.birth_date) >= 65 || (is_female(me) && age_years(me.birth_date) >= 61)'
// The case of the example that this rule fails.
const CASE = 'a woman on her 60th birthday'

const button = (name, tab = page) => tab.getByRole('button', { name, exact: true })
const dialog = (tab = page) => tab.locator('dialog')
const title = (text, tab = page) => tab.locator('.rule-name', { hasText: text }).waitFor()
const passed = (text) => page.locator('.cases summary', { hasText: `${text} passed` }).waitFor()

// Removes that case; the list of the cases is closed.
async function removeCase(tab = page) {
  await tab.locator('.cases summary').click()
  await button(`Remove: ${CASE}`, tab).click()
}

// The cases of a draft or file may contain facts of people.
async function notStored() {
  assert.ok(!(await page.evaluate(() => sessionStorage.getItem('daftar-workbench'))).includes(CASE), 'the browser stores no such case')
}

// The rule in the editor, on one line.
async function ruleText(tab = page) {
  return (await editor(undefined, tab).innerText()).trim().replaceAll(/\s+/g, ' ')
}

async function openDialog(name, tab = page) {
  await button(name, tab).click()
  await dialog(tab).waitFor()
}

async function close() {
  await page.keyboard.press('Escape')
  await dialog().waitFor({ state: 'detached' })
}

async function checked(name) {
  await look(name)
  await accessible(name)
}

async function startFromAnExample() {
  await page.locator('.gallery h3').nth(19).waitFor()
  await lookAtAll('gallery')
  await page.locator('.gallery').getByRole('button', { name: EXAMPLE, exact: true }).click()
  await passed('7 of 7')
  await page.locator('.cases summary').click()
  await lookAtAll('cases')
  await write(CHANGED)
  await passed('6 of 7')
  const failed = await page.locator('.case-list .failed').allInnerTexts()
  assert.equal(failed.length, 1)
  assert.match(failed[0], /a woman on her 60th birthday[\s\S]*Expected\s+Eligible[\s\S]*Found\s+Not eligible/)
  await checked('case-failed')
  await page.locator('.case-list .failed').getByRole('button', { name: 'a woman on her 60th birthday', exact: true }).click()
  await dialog().locator('.scenario-result .badge').waitFor()
  await lookAtAll('case-edited')
  await close()
  step('tested an example')
}

async function saveAsFile() {
  await openDialog('Save')
  await checked('save')
  const download = page.waitForEvent('download')
  await button('Download as a rule file').click()
  const file = await download
  assert.equal(file.suggestedFilename(), 'old-age-pension.toml')
  const text = readFileSync(await file.path(), 'utf8')
  assert.equal(text.match(/^\[\[case\]\]$/gm).length, 7)
  await close()
  // Another rule takes its place, which the user can undo.
  await button('Examples').click()
  await dialog().getByRole('button', { name: 'High dependency ratio', exact: true }).click()
  await title('High dependency ratio')
  await button('Back to the previous rule').click()
  await title(EXAMPLE)
  assert.equal(await ruleText(), CHANGED)
  await write('is_male(me)')
  const choose = async (name, content) => {
    await openDialog('Open')
    await dialog().getByLabel('Rule file (.toml)').setInputFiles({ name, mimeType: 'application/toml', buffer: Buffer.from(content) })
  }
  await choose('wrong.toml', text.replace('outcome = "eligible"', 'outcome = "maybe"'))
  await dialog().getByRole('alert').filter({ hasText: 'must be one of: eligible' }).waitFor()
  await close()
  await choose('right.toml', text)
  await dialog().waitFor({ state: 'detached' })
  await passed('6 of 7')
  assert.equal(await ruleText(), CHANGED)
  await notStored()
  // Cases that are opened in place of others can be restored too, although the rule is the same.
  await removeCase()
  await passed('6 of 6')
  await choose('right.toml', text)
  await passed('6 of 7')
  for (const count of ['6 of 6', '6 of 7']) {
    await button('Back to the previous rule').click()
    await passed(count)
  }
  step('saved a file and opened it')
}

// Returns a second tab with the shared rule.
async function share() {
  await openDialog('Link')
  await checked('share')
  const link = await page.getByLabel('Link to this rule').inputValue()
  assert.ok(!link.includes('birthday'), 'a link contains no test case')
  await close()
  const tab = await page.context().newPage()
  await tab.goto(link)
  await signIn(given.client, tab)
  await tab.locator('.verdict .good').waitFor()
  assert.equal(await ruleText(tab), CHANGED)
  step('shared the rule by a link')
  return tab
}

async function saveVersions(tab) {
  await openDialog('Save')
  // Sent twice, a form saves one draft: two of this name would be ambiguous below.
  await dialog().locator('form').evaluate((form) => [1, 2].forEach(() => form.requestSubmit()))
  await title('version 1')
  // Another client saves the next version, with another comment and without a case.
  await openDialog('Open', tab)
  await dialog(tab).getByRole('button', { name: EXAMPLE, exact: true }).click()
  await title('version 1', tab)
  await removeCase(tab)
  await write('age_years(me.birth_date) >= 62', undefined, tab)
  await openDialog('Save', tab)
  await tab.getByLabel('Comment').fill('Later for women.')
  await button('Save as version 2', tab).click()
  await title('version 2', tab)

  await write('age_years(me.birth_date) >= 66')
  await openDialog('Save')
  await button('Save as version 2').click()
  await dialog().locator('.problem', { hasText: 'Another client has saved version 2' }).waitFor()
  assert.deepEqual(await dialog().locator('pre.rule:not(.difference)').allInnerTexts(), ['age_years(me.birth_date) >= 62', 'age_years(me.birth_date) >= 66'])
  assert.deepEqual((await dialog().locator('h3').allInnerTexts()).slice(3), ['Comment', `Test case: ${CASE}`])
  await lookAtAll('conflict')
  await button('Save yours as the next version').click()
  await title('version 3')
  await page.locator('.rule-name').getByRole('button').click()
  await dialog().locator('.versions > li').nth(2).waitFor()
  await lookAtAll('versions')
  // A version that the list does not show is listed before one is opened.
  await openDialog('Save', tab)
  await button('Save as version 3', tab).click()
  await button('Save yours as the next version', tab).click()
  await title('version 4', tab)
  await button('Open version 1').click()
  await dialog().locator('.notice', { hasText: 'Version 4' }).waitFor()
  assert.equal(await dialog().locator('.versions > li').count(), 4)
  await accessible('a newer version')
  await button('Open version 1').click()
  await dialog().waitFor({ state: 'detached' })
  await title('version 4')
  assert.equal(await ruleText(), CHANGED)
  await passed('6 of 7')
  await notStored()
  step('saved versions and resolved a conflict')
}

// A draft that another tab has changed since it was listed is not deleted.
async function deleteDraft(tab) {
  const name = 'Not needed'
  const remove = async () => {
    await button(`Remove: ${name}`).click()
    await button('Delete it for all').click()
  }
  await openDialog('Save', tab)
  await tab.getByLabel('Name', { exact: true }).fill(name)
  await button('Save as a new draft', tab).click()
  await title(name, tab)
  await openDialog('Open')
  await button(`Remove: ${name}`).waitFor()
  await openDialog('Save', tab)
  await button('Save as version 2', tab).click()
  await title('version 2', tab)
  await remove()
  await dialog().locator('.sample .problem').waitFor()
  await button('Search').click()
  await remove()
  await button(name).waitFor({ state: 'detached' })
  await close()
  step('deleted a draft')
}

// The session expires while a draft is saved: the same client finds its words and cases, and a reload drops the cases.
async function expire() {
  const comment = page.getByLabel('Comment')
  await page.route('**/RuleDraft/*', (route) => route.fulfill({ status: 401, json: { code: 'token_expired' } }))
  await openDialog('Save')
  await comment.fill('From the 61st birthday on.')
  await button('Save as version 5').click()
  await page.getByRole('alert').filter({ hasText: 'Your session has expired' }).filter({ hasText: 'facts of people: 7' }).waitFor()
  await page.unrouteAll({ behavior: 'ignoreErrors' })
  await signIn()
  await passed('6 of 7')
  await openDialog('Save')
  assert.equal(await comment.inputValue(), 'From the 61st birthday on.')
  await close()
  await page.reload()
  await signIn()
  await page.locator('.toolbar .notice', { hasText: 'no longer in this page: 7' }).waitFor()
  await accessible('dropped cases')
  // The current version has six.
  await button('Read the cases of the draft again').click()
  await passed('6 of 6')
  assert.equal(await page.locator('.toolbar .notice').count(), 0)
  step('continued after the session had expired')
}

async function proposeForProgram() {
  const open = async () => {
    await openDialog('Open')
    await rule().waitFor()
    await dialog().getByRole('button', { name: EXAMPLE, exact: true }).waitFor()
  }
  const rule = () => page.getByRole('region', { name: 'Rules of programs' }).getByRole('button', { name: given.program, exact: true })
  await open()
  await lookAtAll('open')
  await rule().click()
  await title(given.program)
  assert.equal(await ruleText(), given.rule)
  await write(given.rule.replace('60', '58'))
  await openDialog('Save')
  const program = dialog().getByLabel('Program whose rule it would replace')
  await program.locator('option', { hasText: given.program }).waitFor({ state: 'attached' })
  assert.equal(await program.evaluate((select) => select.selectedOptions[0].textContent), given.program)
  await page.getByLabel('Comment').fill('Women from the 58th birthday on.')
  await checked('proposal')
  await button('Save as a draft').click()
  await title('version 1')
  await please('accept')
  // An accepted draft does not change, and the program has its rule.
  await openDialog('Save')
  await button('Save as version 2').click()
  await dialog().locator('.problem', { hasText: 'was accepted or rejected' }).waitFor()
  await close()
  await open()
  await dialog().locator('.badge.accepted').waitFor()
  await accessible('an accepted draft')
  await rule().click()
  await dialog().waitFor({ state: 'detached' })
  assert.equal(await ruleText(), given.rule.replace('60', '58'))
  step("changed a program's rule by a draft")
}

// A draft has the day of the evaluation, on which its test cases run too.
async function dayOfDraft() {
  const day = page.getByLabel('On the day')
  const ofCases = page.getByLabel('Day of the cases')
  await go('rule')
  await day.fill('2026-01-31')
  await openDialog('Save')
  await page.getByLabel('Name', { exact: true }).fill('On a day')
  await button('Save as a draft').click()
  await title('version 1')
  await page.locator('.cases summary').click()
  assert.equal(await ofCases.inputValue(), '2026-01-31')
  await passed('1 of 1')
  await day.fill('2026-03-31')
  await openDialog('Open')
  await dialog().getByRole('button', { name: 'On a day', exact: true }).click()
  await dialog().waitFor({ state: 'detached' })
  assert.equal(await day.inputValue(), '2026-01-31')
  await passed('1 of 1')
  await page.locator('.cases summary').click()
  assert.equal(await ofCases.inputValue(), '2026-01-31')
  await page.locator('.rule-name').getByRole('button').click()
  await dialog().locator('.versions', { hasText: /January/ }).waitFor()
  await close()
  step('saved a draft with its day')
}

async function whatIf() {
  await write(given.rule)
  await page.locator('.verdict .good').waitFor()
  await go('case')
  await page.getByRole('combobox', { name: 'Person or group' }).fill(given.eligible)
  await page.keyboard.press('Enter')
  await button('Change these facts').click()
  const answer = page.locator('.scenario-result .answer')
  await answer.filter({ hasText: /In the register: Eligible with these facts: Eligible/ }).waitFor()
  await page.getByLabel('birth_date').fill('2000-01-01')
  await answer.filter({ hasText: /with these facts: Not eligible/ }).waitFor()
  await page.locator('.scenario-result:not(.stale)').waitFor()
  await lookAtAll('what-if')
  await page.getByLabel('Name of the case').fill('a young woman')
  await button('Keep as a test case').click()
  await page.getByText('“a young woman” is now a test case of the rule.').waitFor()
  // Nothing is recorded of a person who does not exist.
  await button('Describe a person or family').click()
  await page.locator('.scenario-result .answer .badge.undetermined:only-child').waitFor()
  await accessible('a person who does not exist')
  await go('rule')
  await passed('1 of 1')
  // The register has the same person as before.
  await go('case')
  await page.locator('.result .answer .badge.eligible').waitFor()
  step('tried other facts')
}

// An explanation that arrives late leaves the form open, and the focus in it.
async function lateExplanation() {
  let release
  const held = new Promise((resolve) => (release = resolve))
  await page.route('**/Eligibility/$evaluate', async (route) => {
    if (typeof route.request().postDataJSON().subjects[0] === 'string') await held
    await route.continue()
  })
  await button('Explain').click()
  await button('Describe a person or family').click()
  await page.locator('.scenario-result .answer .badge').waitFor()
  await page.getByLabel('birth_date').focus()
  const explained = page.waitForResponse((response) => typeof response.request().postDataJSON()?.subjects?.[0] === 'string')
  release()
  await explained
  await page.locator('.running .primary:enabled').waitFor()
  await page.locator('.scenario').waitFor()
  assert.equal(await page.evaluate(() => document.activeElement.labels?.[0].textContent), 'birth_date')
  // The same case leaves the form of its facts open too; another case closes it.
  await button('Change these facts').click()
  await page.locator('.scenario-result .answer', { hasText: 'In the register' }).waitFor()
  await button('Explain').click()
  await page.locator('.running .primary:enabled').waitFor()
  assert.equal(await page.locator('.scenario').count(), 1)
  await page.getByRole('combobox', { name: 'Person or group' }).fill('W-0004')
  await page.keyboard.press('Enter')
  await page.locator('.person', { hasText: 'W-0004' }).waitFor()
  assert.equal(await page.locator('.scenario').count(), 0)
  await page.unrouteAll({ behavior: 'ignoreErrors' })
  step('opened a form before the explanation arrived')
}

// A person who is found during an explanation is the one who is explained; a refusal leaves no earlier explanation.
async function anotherPerson() {
  const find = async (text) => {
    await page.getByRole('combobox', { name: 'Person or group' }).fill(text)
    await page.keyboard.press('Enter')
  }
  let sent = 0
  await page.route('**/Eligibility/$evaluate', async (route) => {
    sent += 1
    // The first request has no response.
    if (sent > 1) await route.continue()
  })
  const first = page.waitForRequest((request) => request.url().endsWith('$evaluate'))
  await button('Explain').click()
  await first
  await find(given.eligible)
  await page.locator('.person', { hasText: given.eligible }).waitFor()
  await page.locator('.running .primary:enabled').waitFor()
  assert.equal(sent, 2)
  assert.equal(await page.locator('.running .problem:visible').count(), 0)
  await page.route('**/Eligibility/$evaluate', (route) => route.fulfill({ status: 400, json: { detail: 'refused' } }))
  await find('W-0004')
  await page.locator('.running .problem:visible').waitFor()
  assert.equal(await page.locator('.result').innerText(), '')
  await page.unrouteAll({ behavior: 'ignoreErrors' })
  step('found another person during an explanation')
}

async function compare() {
  await go('compare')
  await write(given.other, 'Rule B')
  await page.locator('.verdict .good').nth(1).waitFor()
  await button('Compare').click()
  await page.locator('table.outcomes').waitFor()
  for (const move of ['gained', 'refused']) {
    const number = page.locator(`.counts .${move} button`)
    assert.match(await number.innerText(), new RegExp(`${given.moves[move]}$`))
    await number.click()
    await dialog().locator('.sample li').first().waitFor()
    assert.match(await dialog().locator('.hint').first().innerText(), new RegExp(`\\b${given.moves[move]}\\b`))
    await checked(`compare-${move}`)
    await close()
  }
  await lookAtAll('outcomes')
  // A case of a list is explained by the rule of the list.
  await page.locator('.counts .gained button').click()
  await dialog().locator('.sample button').first().click()
  await page.locator('.notice', { hasText: 'explained by rule B of the comparison' }).waitFor()
  step('compared two rules')
}

await lead(async () => {
  await page.goto(`${given.url}/workbench`)
  await signIn()
  await startFromAnExample()
  await saveAsFile()
  const tab = await share()
  await saveVersions(tab)
  await deleteDraft(tab)
  await tab.close()
  await expire()
  await proposeForProgram()
  await whatIf()
  await lateExplanation()
  await anotherPerson()
  await compare()
  await dayOfDraft()
})
