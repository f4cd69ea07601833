// Drives a browser through the builder: rules are written without the editor and by keyboard.

import assert from 'node:assert/strict'

import { key, pension, pick, signIn, to } from './keyboard.mjs'
import { accessible, given, lead, look, lookAtAll, page, say, step, write as writeText } from './leader.mjs'

async function ruleText() {
  await page.locator('.modes button').first().click()
  const text = (await page.locator('.cm-content').first().innerText()).trim()
  await page.locator('.modes button').last().click()
  return text.replaceAll(/\s+/g, ' ')
}

const RULE = 'age_years(me.birth_date) >= 65 || (is_female(me) && age_years(me.birth_date) >= 60)'
const ENGLISH = {
  rows: 'Conditions',
  joined: 'Combine',
  add: 'Add a condition',
  group: 'Add a group',
  age: 'Age',
  female: 'Is female',
  value: 'Value',
  any: 'At least one of these',
  all: 'All of these',
}
// Writes the text of a rule, and shows its conditions.
async function write(rule) {
  await page.locator('.modes button').first().click()
  await writeText(rule)
  await page.locator('.modes button').last().click()
}

await lead(async () => {
  await page.goto(`${given.url}/workbench`)
  await signIn()

  await pension(ENGLISH)
  assert.equal(await ruleText(), RULE)
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

  // The same in the other languages, one of them from right to left.
  await write(RULE)
  for (const tag of ['ar', 'fr', 'es', 'pt']) {
    await page.locator('header select').selectOption(tag)
    await page.locator(`html[lang="${tag}"]`).waitFor()
    await page.locator('.builder .fact-row').first().waitFor()
    await look(`builder-${tag}`)
    await accessible(`builder ${tag}`)
  }
  step('read it in the other languages')
})
