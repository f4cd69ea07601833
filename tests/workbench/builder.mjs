// Drives a browser through the builder: rules are written without the editor and by keyboard, in English and from right to left.

import assert from 'node:assert/strict'

import { accessible, given, lead, look, lookAtAll, page, say, step } from './leader.mjs'

const key = (name) => page.keyboard.press(name)

// The label of the focused control.
const focused = () =>
  page.evaluate(() => {
    const { activeElement: control } = document
    return control.getAttribute('aria-label') ?? control.labels?.[0]?.textContent ?? control.textContent
  })

// Tabs to the control with a label, which must not be far away.
async function to(label) {
  for (let tabs = 0; tabs < 8; tabs += 1) {
    if ((await focused()) === label) return
    await key('Tab')
  }
  assert.fail(`no control ${label} within reach, but ${(await focused())}`)
}

// Chooses in the focused list by keyboard: by the beginning of an option, or by arrows where the browser's driver has no such keys.
async function pick(text) {
  const shown = () => page.evaluate(() => document.activeElement.selectedOptions[0].textContent)
  if (/^[ -~]+$/.test(text)) {
    await page.keyboard.type(text)
    // The list forgets what was typed after a second.
    await page.waitForTimeout(1_100)
  } else {
    await key('Home')
    for (let options = 0; options < 80 && !(await shown()).startsWith(text); options += 1) await key('ArrowDown')
  }
  assert.ok((await shown()).startsWith(text), `${text} is not chosen but ${await shown()}`)
}

async function press(label) {
  await to(label)
  await key('Enter')
}

async function ruleText() {
  await page.locator('.modes button').first().click()
  const text = (await page.locator('.cm-content').first().innerText()).trim()
  await page.locator('.modes button').last().click()
  return text.replaceAll(/\s+/g, ' ')
}

// Writes the pension rule: 65 years, or a woman of 60.
async function pension(names) {
  await page.locator('.modes button').last().focus()
  await key('Enter')
  // The fields of rules are loaded by then.
  await page.locator('.builder > .add button').first().waitFor()
  await press(`+ ${names.add}`)
  await pick(names.age)
  await to(names.value)
  await page.keyboard.type('65')
  await page.locator('.builder .add').last().getByRole('button', { name: `+ ${names.group}`, exact: true }).focus()
  await key('Enter')
  await pick(names.female)
  await press(`+ ${names.add}`)
  await pick(names.age)
  await to(names.value)
  await page.keyboard.type('60')
  // The group is of all, the rule of any.
  const [outer, inner] = await page.locator('.builder .joined-by select').all()
  await outer.focus()
  await pick(names.any)
  await inner.focus()
  await pick(names.all)
  assert.equal(await ruleText(), 'age_years(me.birth_date) >= 65 || (is_female(me) && age_years(me.birth_date) >= 60)')
}

const ENGLISH = {
  add: 'Add a condition',
  group: 'Add a group',
  age: 'Age',
  female: 'Is female',
  value: 'Value',
  any: 'At least one of these',
  all: 'All of these',
}
const ARABIC = {
  add: 'إضافة شرط',
  group: 'إضافة مجموعة',
  age: 'العمر',
  female: 'أنثى',
  value: 'القيمة',
  any: 'واحد على الأقل مما يلي',
  all: 'كل ما يلي',
}

async function write(rule) {
  await page.locator('.modes button').first().click()
  await page.locator('.cm-content').first().click()
  await key('Control+A')
  await key('Delete')
  await page.keyboard.insertText(rule)
  await key('Escape')
  await page.locator('.modes button').last().click()
}

await lead(async () => {
  await page.goto(`${given.url}/workbench`)
  await page.getByLabel('Client id').fill(given.client.client_id)
  await page.getByLabel('Client secret').fill(given.client.client_secret)
  await key('Enter')
  await page.locator('.modes').waitFor()

  await pension(ENGLISH)
  await page.locator('.verdict .good').waitFor()
  const sentences = await page.locator('.sentences p').allInnerTexts()
  assert.deepEqual(sentences, [
    'A person is eligible if at least one of these is true:',
    'The age is 65 or more.',
    'All of these are true:',
    'The person is female.',
    'The age is 60 or more.',
  ])
  await lookAtAll('builder')
  step('wrote the old-age rule by the builder')

  // An incomplete condition leaves the rule unchanged; a removed one leaves the rule.
  const before = await ruleText()
  await page.locator('.builder > .add').getByRole('button', { name: '+ Add a condition', exact: true }).click()
  await page.getByText('Complete the marked condition').waitFor()
  assert.equal(await ruleText(), before)
  await say('button', 'Remove Condition 3').click()
  assert.notEqual(await page.evaluate(() => document.activeElement.tagName), 'BODY')
  await say('button', 'Remove Group 2').click()
  assert.equal(await ruleText(), 'age_years(me.birth_date) >= 65')

  // A code of the field's own vocabulary by its name, without a mouse.
  await page.locator('.builder > .add').getByRole('button', { name: '+ Add a condition', exact: true }).click()
  await pick('Marital')
  await to('Value')
  await key('ArrowDown')
  await page.getByRole('option', { name: /Widowed/ }).waitFor()
  await page.keyboard.type('widow')
  await page.waitForFunction(() => document.querySelectorAll('.code-choice .options li').length === 1)
  await key('ArrowDown')
  await key('Enter')
  assert.match(await ruleText(), /me\.marital_status == code\('urn:un:unsd:pop-census:marital-status#W'\)/)
  step('chose a code')

  // The members of the household.
  await write('members.exists(m, is_head(m) && between(age_years(m.birth_date), 18, 59))')
  assert.equal(await page.getByLabel('How many of them').inputValue(), 'exists')
  await page.getByLabel('How many of them').selectOption('count')
  assert.equal(await ruleText(), 'members.filter(m, is_head(m) && between(age_years(m.birth_date), 18, 59)).size() >= 1')
  await lookAtAll('builder-members')

  // A rule that is richer stays as it is.
  const rich = 'me.income.amount * 12.0 < 6000.0'
  await write(rich)
  await page.locator('.builder .notice', { hasText: 'too rich for the builder' }).waitFor()
  await accessible('a rule that is too rich')
  assert.equal(await ruleText(), rich)
  step('left a richer rule alone')

  // The funnel of a result, above the fold with the headline and the chart.
  await write('is_female(me) && age_years(me.birth_date) >= 60')
  await page.locator('.verdict .good').waitFor()
  await say('button', 'Preview').click()
  await page.locator('.funnel .left').nth(1).waitFor()
  const numbers = async (name) => (await page.locator(`.funnel .${name}`).allInnerTexts()).map((one) => Number(one.replaceAll(/\D/g, '')))
  const { eligible, not_eligible, undetermined } = given.counts
  assert.equal((await numbers('left')).at(-1), eligible + undetermined)
  assert.equal((await numbers('change')).reduce((all, one) => all + one, 0), not_eligible)
  await page.setViewportSize({ width: 1366, height: 850 })
  const [bottom, height] = await page.evaluate(() => [document.querySelector('.chart').getBoundingClientRect().bottom + scrollY, document.documentElement.scrollHeight])
  assert.ok(bottom < 850, `the chart ends at ${bottom}`)
  assert.ok(height < 1400, `the page is ${height} high`)
  await look('funnel-1366')
  await page.setViewportSize({ width: 1440, height: 900 })
  await lookAtAll('funnel')
  // It is still there after a change of view, without another request.
  let requests = 0
  page.on('request', (request) => (requests += request.url().endsWith('$preview') ? 1 : 0))
  await page.locator('nav a[data-view="vocabularies"]').click()
  await page.locator('nav a[data-view="rule"]').click()
  await page.locator('.funnel .left').nth(1).waitFor()
  assert.equal(requests, 0)
  step('saw what each condition excludes')

  // The same from right to left.
  await write('')
  await page.locator('header select').selectOption('ar')
  await page.locator('html[dir="rtl"]').waitFor()
  await page.locator('.modes').waitFor()
  await pension(ARABIC)
  await page.locator('.verdict .good').waitFor()
  assert.equal(await page.locator('.sentences p').first().innerText(), 'يكون الشخص مستحقًا عندما يتحقق واحد على الأقل من الشروط التالية:')
  await lookAtAll('builder-ar')
  for (const tag of ['fr', 'es', 'pt']) {
    await page.locator('header select').selectOption(tag)
    await page.locator(`html[lang="${tag}"]`).waitFor()
    await page.locator('.builder .fact-row').first().waitFor()
    await look(`builder-${tag}`)
    await accessible(`builder ${tag}`)
  }
  step('wrote it again in Arabic')
})
