// Drives a browser through the workbench as an analyst would, by keyboard where possible, and checks every view in light and dark, at
// two widths and in two languages. Steps at the server are requested from the test that runs this, a line each way.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'

import { everyDiagnosticInFrench, everyProblemInFrench, fieldsInFrench, inOneLanguage } from './languages.mjs'
import { focusedTag as focused } from './keyboard.mjs'
import { accessible, count, editor, given, go, lead, look, lookAtAll, page, please, printedSheet, say, step, write } from './leader.mjs'

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
  assert.notEqual(await focused(), 'BODY')
}

// The names of the options of the editor.
async function offered() {
  await page.locator('.cm-tooltip-autocomplete li').first().waitFor()
  return page.locator('.cm-tooltip-autocomplete .cm-completionLabel').allInnerTexts()
}

// The list behind a number.
async function openList(button) {
  await button.click()
  await page.locator('dialog .sample li').first().waitFor()
  const rows = await page.locator('dialog .hint').first().innerText()
  return Number(/\d+/.exec(rows)[0])
}

// Long enough that a slow browser shows the notice before its time is over.
const LIMITED = { status: 429, code: 'rate_limited', times: 1, retryAfter: '3', notice: /Wait 3 seconds/ }
// More often than a busy server is asked again.
const COMPILING = { status: 503, code: 'engine_compiling', times: 4, notice: /The server is preparing the eligibility engine/ }

// A preview and a comparison that are refused for a time continue by themselves.
async function continuesAfter({ status, code, times, retryAfter = '1', notice }, view, button) {
  await go(view)
  let sent = 0
  await page.route('**/Eligibility/$preview', (route) => {
    sent += 1
    if (sent > times) return route.continue()
    return route.fulfill({ status, headers: { 'Retry-After': retryAfter }, json: { code, detail: 'repeat the request' } })
  })
  await say('button', button).click()
  await page.locator('.wait', { hasText: notice }).waitFor()
  await accessible(code)
  await page.locator('.wait:visible').waitFor({ state: 'detached' })
  await page.locator('.running .primary:enabled').waitFor()
  assert.ok(sent > times, 'the request was sent again')
  assert.equal(await page.locator('.running .problem:visible').count(), 0)
  assert.notEqual(await focused(), 'BODY')
  await page.unrouteAll({ behavior: 'ignoreErrors' })
}

// Where a server has several engines, the rule names one, and every request about it.
async function chooseEngine() {
  const modules = ['eligibility-cel', 'eligibility-tables'].map((name) => ({ name, version: '1.0.0', kind: 'eligibility-engine' }))
  await page.route('**/metadata', (route) => route.fulfill({ json: { modules } }))
  await say('button', 'Sign out').click()
  assert.equal(await focused(), 'INPUT')
  await signIn(given.client)
  // The footer has the limit of the client after the first response.
  await page.locator('footer', { hasText: /of 600 requests left/ }).waitFor()
  await go('rule')
  const choice = page.getByLabel('Eligibility engine')
  await choice.waitFor()
  const validated = page.waitForRequest((request) => request.url().endsWith('$validate'))
  await choice.selectOption('eligibility-tables')
  assert.equal((await validated).postDataJSON().engine, 'eligibility-tables')
  await page.locator('.verdict .problem', { hasText: 'eligibility-tables' }).waitFor()
  await choice.selectOption('')
  await page.locator('.verdict .good').waitFor()
  await page.unrouteAll({ behavior: 'ignoreErrors' })
}

// The page of a code: reached by its link, with its names, the codes above and below it; it is inserted at the cursor.
async function openConcept() {
  await page.goto(`${page.url().split('#')[0]}#vocabularies/${encodeURIComponent('urn:ilo:isco-08#61')}`)
  await page.locator('.concept h2', { hasText: 'Market-oriented Skilled Agricultural Workers' }).waitFor()
  await page.locator('.breadcrumb', { hasText: 'Occupations' }).getByRole('button').nth(1).waitFor()
  await page.locator('.concept .labels', { hasText: 'Persian' }).waitFor()
  await lookAtAll('concept')
  await page.locator('.concept .codes li .link').first().click()
  await page.locator('.concept h2', { hasText: 'Market Gardeners' }).waitFor()
  assert.match(page.url(), /isco-08%23611$/)
  assert.notEqual(await focused(), 'BODY')
  await page.goBack()
  await page.locator('.concept h2', { hasText: 'Market-oriented' }).waitFor()
  // Search within the vocabulary.
  await page.locator('.breadcrumb button').first().click()
  const search = page.getByRole('combobox', { name: 'Search in Occupations' })
  await search.fill('nurs')
  await page.getByRole('option', { name: /Nurs/ }).first().waitFor()
  assert.ok((await page.locator('.options:visible li').allInnerTexts()).every((text) => text.includes('urn:ilo:isco-08')))
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Enter')
  await page.locator('.concept h2', { hasText: /nurs/i }).waitFor()
  await go('rule')
  await write('me.occupation == ')
  await editor().click()
  await page.keyboard.press('Control+End')
  await go('vocabularies')
  await search.or(say('combobox', 'Search all codes')).first().fill('6111')
  await page.getByRole('option', { name: /6111/ }).first().click()
  await say('button', 'Insert at the cursor').click()
  await page.locator('.verdict .good').waitFor()
  assert.match(await editor().innerText(), /^me\.occupation == code\('urn:ilo:isco-08#6111'\)$/)
  await write(given.rule)
  await page.locator('.verdict .good').waitFor()
  step('read the pages of codes')
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

  // Codes and concept groups are those of the field's own vocabularies.
  for (const [text, all] of [
    ['me.gender == ', /^(Not Known|Male|Female|Not Applicable)$/],
    ["in_group(me.gender, '", /^(feminine|masculine)_gender$/],
    ["descends_from(me.occupation, 'farm", /farm/i],
  ]) {
    await write('')
    await editor().click()
    await page.keyboard.type(text)
    const options = await offered()
    assert.ok(options.length > 0 && options.every((option) => all.test(option)), `${text}: ${options}`)
    assert.ok(!options.includes('Farmer lung'), text)
    await page.keyboard.press('Escape')
  }
  step('was offered the codes of a field')

  // Every quick fix yields a valid rule of the meaning that it names, and focuses the editor.
  for (const [faulty, use, fixed] of [
    ['age_years(me.birth_date) => 60', 'Use >=', 'age_years(me.birth_date) >= 60'],
    ["me.gender == 'female'", "Use code('urn:iso:std:iso:5218#2') (Female)", "me.gender == code('urn:iso:std:iso:5218#2')"],
    ["me.gender.code == 'female'", "Use '2' (Female)", "me.gender.code == '2'"],
    ["in_group(me.gender, 'femine_gender')", "Use 'feminine_gender'", "in_group(me.gender, 'feminine_gender')"],
    ["me.birth_date < '1960-01-01'", "Use date('1960-01-01')", "me.birth_date < date('1960-01-01')"],
    ['is_femal(me)', 'Use is_female', 'is_female(me)'],
  ]) {
    await write(faulty)
    await page.locator('.diagnostics').getByRole('button', { name: use, exact: true }).click()
    await page.locator('.verdict .good').waitFor()
    assert.equal(await page.locator('.diagnostics li').count(), 0, faulty)
    assert.equal((await editor().innerText()).trim(), fixed)
    assert.equal(await page.evaluate(() => document.activeElement.className), 'editor')
  }
  await write("in_group(me.occupation, 'feminine_gender')")
  await page.locator('.diagnostics', { hasText: 'is never in feminine_gender' }).or(page.locator('.diagnostics', { hasText: 'never true' })).first().waitFor()
  step('applied every quick fix')

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

  // A text is validated: the response is delayed until the check.
  let validate
  const checked = new Promise((resolve) => (validate = resolve))
  await page.route('**/Eligibility/$validate', async (route) => {
    await checked
    // The page may have cancelled the request of an earlier text.
    await route.continue().catch(() => {})
  })
  await write(given.rule)
  assert.equal(await page.locator('.verdict .good').count(), 0, 'no result is shown for a text that was not validated')
  validate()
  await page.locator('.verdict .good').waitFor()
  await page.unrouteAll({ behavior: 'ignoreErrors' })
  assert.match(await page.locator('.verdict .facts').innerText(), /me\.gender/, 'the reported facts are those of this rule')

  // A preview that is cancelled: its response is delayed until then.
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
  assert.equal(await focused(), 'BUTTON')
  release()
  await page.unrouteAll({ behavior: 'ignoreErrors' })
  step('cancelled a preview')

  // By keyboard; the text stays as it is.
  await editor().click()
  await page.keyboard.press('Control+Enter')
  await page.locator('.counts').waitFor()
  assert.equal((await editor().innerText()).trim(), given.rule)
  const counts = { eligible: await count('eligible'), not_eligible: await count('not_eligible'), undetermined: await count('undetermined') }
  assert.deepEqual(counts, given.counts)
  const headline = await page.locator('.headline').innerText()
  assert.ok(headline.startsWith(`${counts.eligible} of `) && headline.includes(`${counts.undetermined} cannot be decided because`), headline)
  assert.match(await page.locator('.reach .context').innerText(), /\d{4} · all people · \d+ evaluated/)
  await page.setViewportSize({ width: 1366, height: 850 })
  const [bottom, height] = await page.evaluate(() => [document.querySelector('.chart').getBoundingClientRect().bottom, document.documentElement.scrollHeight])
  assert.ok(bottom < 850, `the chart ends at ${bottom}`)
  assert.ok(height < 1400, `the page is ${height} high`)
  await page.setViewportSize({ width: 1440, height: 900 })
  await page.getByText('All numbers').click()
  const genders = await page.locator('table', { hasText: 'By gender' }).locator('td[data-outcome="eligible"]').allInnerTexts()
  const sum = genders.map((text) => Number(/\d+/.exec(text)[0])).reduce((all, one) => all + one, 0)
  assert.equal(sum, counts.eligible, 'the bars say what the counts say')
  await lookAtAll('reach')
  await page.getByText('All numbers').click()

  const parts = ['is_female(me)', 'The person is female.', 'all people', 'sha256:', 'urn:iso:std:iso:5218', 'evaluated']
  await printedSheet('rule', parts, ['Sign out', 'Preview', 'Insert a code', 'Print'])

  // Every number opens the list behind it, with names, and the focus returns to it.
  const eligible = page.locator('.counts .eligible button')
  assert.equal(await openList(eligible), counts.eligible)
  await page.locator('dialog .sample', { hasText: 'Amina Diallo' }).waitFor()
  await lookAtAll('list')
  const download = page.waitForEvent('download')
  await page.getByRole('button', { name: /CSV/ }).click()
  const csv = readFileSync(await (await download).path(), 'utf8').trimEnd().split('\r\n')
  assert.equal(csv[0], 'subject,outcome,missing')
  assert.equal(csv.length - 1, counts.eligible)
  await page.keyboard.press('Escape')
  assert.equal(await eligible.evaluate((button) => button === document.activeElement), true)
  const missing = page.locator('.missing-facts button', { hasText: 'date of birth' })
  assert.equal(await openList(missing), Number((await missing.innerText()).match(/\d+$/)[0]))
  await page.keyboard.press('Escape')
  for (const group of ['Gender', 'Age']) {
    const column = page.getByRole('group', { name: group }).getByRole('button').nth(1)
    const total = Number(/of (\d+) eligible/.exec(await column.innerText())[1])
    assert.equal(await openList(column), total)
    await page.keyboard.press('Escape')
  }
  // A list is of the day of the result. A case of it is explained by the rule, which its filter does not change.
  const repeated = page.waitForRequest((request) => request.url().endsWith('$preview') && request.postDataJSON().subjects === true)
  await openList(page.getByRole('group', { name: 'Age' }).getByRole('button').nth(1))
  assert.match((await repeated).postDataJSON().as_of ?? 'no day', /^\d{4}-\d\d-\d\d$/)
  await page.locator('dialog .sample button').first().click()
  await page.locator('.tree').waitFor()
  assert.equal(await page.locator('.notice', { hasText: 'has changed since' }).count(), 0)
  await go('rule')
  await page.locator('.reach .headline').waitFor()
  step('previewed, opened the lists and took one')

  // A changed rule marks the result; a case of it is explained by the rule of the result, and says so.
  await write('age_years(me.birth_date) >= 99')
  await page.locator('.reach .notice', { hasText: 'has changed since this result' }).waitFor()
  await page.locator('.sample li').first().getByRole('button').click()
  await page.locator('.tree').waitFor()
  assert.equal(await page.locator('pre.rule').first().innerText(), given.rule)
  await page.locator('.notice', { hasText: 'the rule or the day has changed since' }).waitFor()
  await say('button', 'Explain by the current rule').click()
  await page.locator('.tree', { hasText: '>= 99' }).waitFor()
  await go('rule')
  await page.locator('.reach .headline').waitFor()
  await write(given.rule)
  await page.locator('.verdict .good').waitFor()

  // A case of the sample, and facts that would change its outcome.
  await page.locator('.sample li', { hasText: 'Not eligible' }).first().getByRole('button').click()
  await page.locator('.tree').waitFor()
  await page.locator('.changes', { hasText: 'is_female(me)' }).or(page.locator('.changes', { hasText: 'age_years' })).first().waitFor()
  await page.locator('.tree .seen', { hasText: 'me.' }).first().waitFor()
  await page.locator('.person', { hasText: 'Amina Diallo' }).waitFor()
  await lookAtAll('case')
  // A person is found by an identifier without its system, and by words of the name.
  const finder = page.getByRole('combobox', { name: 'Person or group' })
  await finder.fill('W-0002')
  await page.keyboard.press('Enter')
  await page.locator('.person', { hasText: 'W-0002' }).waitFor()
  await finder.fill('dial')
  await page.getByRole('option', { name: /Amina Diallo/ }).first().waitFor()
  // Enter after another text chooses nothing from the list of the earlier one, nor an option that was active in it.
  await page.keyboard.press('ArrowDown')
  await finder.fill('W-0004')
  await page.keyboard.press('Enter')
  await page.locator('.person', { hasText: 'W-0004' }).waitFor()
  step('opened a case and found people')

  await go('compare')
  await write(given.other, 'Rule B')
  await page.locator('.verdict .good').nth(1).waitFor()
  await say('button', 'Compare').click()
  await page.locator('.counts').waitFor()
  const { gained, refused, undetermined, kept } = given.moves
  for (const move of ['gained', 'refused', 'undetermined', 'kept']) assert.equal(await count(move), given.moves[move], move)
  for (const move of ['gained', 'undetermined']) {
    assert.equal(await openList(page.locator(`.counts .${move} button`)), given.moves[move])
    await page.keyboard.press('Escape')
  }
  assert.match(await page.locator('.context').innerText(), /all people/)
  await page.getByLabel('Amount per head and month').fill('10.5')
  const added = (gained - refused - undetermined) * 10.5
  await page.locator('output', { hasText: new Intl.NumberFormat('en').format(Math.abs(added)) }).waitFor()
  await lookAtAll('compare')
  // The result survives a change of view, and is marked when a rule changes.
  await go('rule')
  await go('compare')
  assert.equal(await count('kept'), kept)
  assert.equal(await page.locator('.notice', { hasText: 'has changed since' }).isVisible(), false)
  // So does the amount; without one there is no cost.
  const amount = page.getByLabel('Amount per head and month')
  assert.equal(await amount.inputValue(), '10.5')
  assert.notEqual(await page.locator('output').innerText(), '')
  await amount.fill('')
  assert.equal(await page.locator('output').innerText(), '')
  await write(`${given.other} && me.active`, 'Rule B')
  await page.locator('.notice', { hasText: 'has changed since' }).waitFor()

  await go('vocabularies')
  await page.locator('.choices').first().getByRole('button', { name: /ISCO-08|Occupation/i }).first().click()
  await page.locator('.detail .facts', { hasText: 'Licence' }).waitFor()
  await page.locator('.codes summary').first().click()
  await page.locator('.codes .codes li').first().waitFor()
  await lookAtAll('vocabularies')
  // A code becomes a condition of the rule, by the field that has it.
  await say('combobox', 'Search all codes').fill('female')
  await page.getByRole('option', { name: /^Female urn:iso/ }).click()
  await say('button', 'Add to the rule').click()
  await page.locator('.verdict .good').waitFor()
  assert.match(await editor().innerText(), /&& me\.gender == code\('urn:iso:std:iso:5218#2'\)$/)
  await write(given.rule)
  await chooseEngine()
  await openConcept()
  await continuesAfter(LIMITED, 'compare', 'Compare')
  await continuesAfter(LIMITED, 'rule', 'Preview')
  step('continued after the rate limit')
  await continuesAfter(COMPILING, 'compare', 'Compare')
  await continuesAfter(COMPILING, 'rule', 'Preview')
  step('continued when the engine was there')
  await say('button', 'Preview').click()
  await page.locator('.counts').waitFor()
  await go('vocabularies')

  // The same in French, rules and all.
  await page.getByLabel('Language').selectOption('fr')
  await page.getByRole('heading', { name: 'Vocabulaires' }).first().waitFor()
  await go('rule')
  await page.getByRole('button', { name: 'Aperçu' }).waitFor()
  assert.equal(await page.locator('html').getAttribute('lang'), 'fr')
  assert.match(await page.getByRole('textbox', { name: 'Expression de la règle' }).innerText(), /age_years/)
  await page.locator('.verdict .good').waitFor()
  // The result is requested again, with the names of codes in that language.
  await page.locator('.reach .headline', { hasText: 'éligibles' }).waitFor()
  await lookAtAll('rule-fr')
  await inOneLanguage('rule')
  await fieldsInFrench()
  await everyDiagnosticInFrench()
  await everyProblemInFrench()
  await page.locator('.sample li button').first().click()
  await page.locator('.tree').waitFor()
  await inOneLanguage('case')
  for (const view of ['compare', 'vocabularies']) {
    await go(view)
    await inOneLanguage(view)
  }
  await page.locator('.choices button[data-namespace="urn:ilo:isco-08"]').click()
  await page.locator('.detail .codes li').first().waitFor()
  await inOneLanguage('a vocabulary')
  await go('rule')
  await page.locator('.verdict .good').waitFor()
  step('read the page in one language')
  // From right to left, with the rule from left to right.
  await page.getByLabel('Langue').selectOption('ar')
  await page.locator('html[dir="rtl"]').waitFor()
  assert.equal(await focused(), 'SELECT', 'the focus stays on the choice of the language')
  await page.locator('.verdict .good').waitFor()
  await lookAtAll('rule-ar')
  // A change of the language during a preview requests it again.
  let respond
  const delayed = new Promise((resolve) => (respond = resolve))
  await page.route('**/Eligibility/$preview', async (route) => {
    await delayed
    await route.continue().catch(() => {})
  })
  for (const [tag, preview] of [['es', 'Vista previa'], ['pt', 'Pré-visualizar']]) {
    await page.locator('header select').selectOption(tag)
    await say('button', preview).waitFor()
  }
  await page.locator('header select').selectOption('en')
  await page.locator('html[lang="en"]').waitFor()
  respond()
  await page.locator('.reach .headline', { hasText: 'are eligible' }).waitFor()
  await page.unrouteAll({ behavior: 'ignoreErrors' })

  // By keyboard alone: the skip link, and the way through the views.
  // The focus is on the choice of the language, which is the first control after the link.
  await page.keyboard.press('Shift+Tab')
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to the content')
  await page.keyboard.press('Enter')
  assert.equal(await page.evaluate(() => document.activeElement.id), 'main')
  for (const landmark of ['banner', 'navigation', 'main', 'contentinfo']) await page.getByRole(landmark).first().waitFor()

  // An unreachable server: one banner in the words of the page, and all of it continues when the server is back.
  await page.context().setOffline(true)
  await write('is_male(me)')
  await page.locator('.wait', { hasText: 'The server cannot be reached' }).waitFor()
  await say('button', 'Preview').click()
  assert.ok(!(await page.locator('body').innerText()).includes('Failed to fetch'))
  await look('unreachable')
  await accessible('unreachable')
  await page.context().setOffline(false)
  await page.locator('.verdict .good').waitFor()
  await page.locator('.wait:visible').waitFor({ state: 'detached' })
  await page.locator('.reach .notice').waitFor({ state: 'hidden' })
  assert.notEqual(await focused(), 'BODY')
  await write(given.rule)
  await page.locator('.verdict .good').waitFor()
  step('continued after the server was unreachable')

  // After a token is revoked, signing in again finds the rules unchanged.
  await please('revoke')
  await page.getByRole('button', { name: 'Preview' }).click()
  await page.getByRole('alert').filter({ hasText: 'Your session has expired' }).waitFor()
  assert.equal(await page.locator('.counts').count(), 0, 'nothing that was answered is left')
  assert.equal(await focused(), 'INPUT')
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
  await page.locator('.wait:visible').waitFor({ state: 'detached' })
  step('waited as long as shown')

  // After signing out by the button a reload shows no data either.
  await say('button', 'Sign out').click()
  await page.reload()
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
})
