// Drives a browser through the work of an analyst in Arabic, from right to left, by keyboard alone: no click and no field that a
// keyboard does not reach.

import assert from 'node:assert/strict'

import { back, focusKept, focused, key, part, pension, press, signIn, to, type } from './keyboard.mjs'
import { accessible, count, given, lead, look, lookAtAll, page, printedSheet } from './leader.mjs'

const NAMES = {
  rows: 'شروط',
  joined: 'الجمع',
  add: 'إضافة شرط',
  group: 'إضافة مجموعة',
  age: 'العمر',
  female: 'أنثى',
  value: 'القيمة',
  any: 'واحد على الأقل مما يلي',
  all: 'كل ما يلي',
}
const SENTENCES = [
  'يكون الشخص مستحقًا عندما يتحقق واحد على الأقل من الشروط التالية:',
  'العمر 65 سنة أو أكثر.',
  'تتحقق كل الشروط التالية:',
  'الشخص أنثى.',
  'العمر 60 سنة أو أكثر.',
]
const TITLE = 'معاش تجريبي'
const VIEWS = { rule: 1, case: 2, compare: 3 }

const dialog = () => page.locator('dialog')
const sentences = () => page.locator('.reading .sentences').first().locator('p').allInnerTexts()

// The page opens in the language of the browser, and then in Arabic, by the list of languages.
async function enter() {
  await page.locator('input[name="client_id"]:focus').waitFor()
  await back('Language')
  await key('End')
  await page.locator('html[dir="rtl"]').waitFor()
  await page.locator('header select:focus').waitFor()
  await to('معرّف العميل')
  await signIn()
}

// Opens a view by its shortcut, which the navigation shows.
async function open(view) {
  const link = page.locator(`nav a[data-view="${view}"]`)
  assert.equal(await link.locator('kbd').innerText(), `Alt+${VIEWS[view]}`)
  await key(`Alt+Digit${VIEWS[view]}`)
  await page.locator(`nav a[data-view="${view}"][aria-current="page"]`).waitFor()
  await page.locator('main:focus').waitFor()
}

// Runs the rule and goes to the result, by the shortcuts that the page shows.
async function run(result) {
  assert.equal(await page.locator('.keys').first().innerText(), 'Ctrl+Enter للتشغيل، Alt+0 للانتقال إلى النتيجة.')
  await key('Control+Enter')
  await page.locator(result).first().waitFor()
  await key('Alt+Digit0')
  await page.locator('.result:focus').waitFor()
}

async function openDialog(label) {
  await press(label)
  await dialog().waitFor()
  await focusKept(label)
}

async function close() {
  await key('Escape')
  await dialog().waitFor({ state: 'detached' })
  await focusKept('the dialog')
}

async function writeRule() {
  await pension(NAMES)
  await page.locator('.verdict .good', { hasText: 'القاعدة صالحة.' }).waitFor()
  assert.deepEqual(await sentences(), SENTENCES)
}

async function explainUndetermined() {
  await open('case')
  await to('شخص أو مجموعة')
  await type(given.undetermined.name)
  await key('Enter')
  await page.locator('.result .answer .badge.undetermined', { hasText: 'غير محسوم' }).waitFor()
  await page.locator('.person', { hasText: given.undetermined.name }).waitFor()
  await key('Alt+Digit0')
  const shown = await page.locator('.result').innerText()
  for (const text of ['معلومات ناقصة', 'تاريخ الميلاد', 'me.birth_date', 'ما الذي يغيّر النتيجة']) assert.ok(shown.includes(text), text)
  await lookAtAll('case-ar')
}

async function listUndetermined() {
  await open('rule')
  await run('.reach .counts')
  const { eligible, not_eligible, undetermined } = given.counts
  assert.deepEqual([await count('eligible'), await count('not_eligible'), await count('undetermined')], [eligible, not_eligible, undetermined])
  const headline = await page.locator('.headline').innerText()
  assert.ok(headline.includes(`${eligible} من أصل`) && headline.includes(`ولا يمكن الحسم في ${undetermined}`), headline)
  await accessible('the reach in Arabic')
  const card = /^غير محسومين: /
  await openDialog(card)
  await dialog().locator('.sample li', { hasText: given.undetermined.name }).waitFor()
  assert.equal(await dialog().locator('.sample .badge', { hasText: 'غير محسوم' }).count(), undetermined)
  await lookAtAll('undetermined-ar')
  await to(given.undetermined.name)
  await close()
  assert.match(await focused(), card, 'the focus is where the list was opened')
}

// Rule B is rule A with another age.
async function compare() {
  await open('compare')
  await press('البدء من القاعدة أ')
  await to(NAMES.value)
  await key('Control+A')
  await type('62')
  await page.locator('.verdict .good').nth(1).waitFor()
  await run('table.outcomes')
  for (const move of ['gained', 'refused', 'undetermined', 'kept']) assert.equal(await count(move), given.moves[move], move)
  await lookAtAll('compare-ar')
  await press('طباعة')
  assert.equal(await page.evaluate(() => globalThis.printed), 1, 'the browser was asked to print')
  const words = [...SENTENCES, 'العمر 62 سنة أو أكثر.', 'القاعدة أ', 'القاعدة ب', 'كل الأشخاص', 'المضافون', `تضيف ب ${given.moves.gained}`, 'sha256:']
  await printedSheet('compare-ar', words, ['تسجيل الخروج', 'البدء من القاعدة أ', 'طباعة', 'Alt+0'])
}

async function saveAndReopen() {
  await open('rule')
  await openDialog('حفظ')
  await type(TITLE)
  await accessible('saving in Arabic')
  await key('Enter')
  await page.locator('.rule-name', { hasText: 'مسودة، الإصدار 1' }).waitFor()
  await dialog().waitFor({ state: 'detached' })
  await focusKept('saving')
  await openDialog('رابط')
  assert.equal(await focused(), 'رابط هذه القاعدة')
  const link = await page.evaluate(() => document.activeElement.value)
  await press('نسخ الرابط')
  await dialog().locator('[role="status"]', { hasText: /./ }).waitFor()
  await look('share-ar')
  await close()
  await back('أمثلة')
  await replaceByExample()
  await openDialog('فتح')
  await dialog().getByRole('button', { name: TITLE, exact: true }).first().waitFor()
  await lookAtAll('open-ar')
  await press(TITLE)
  await page.locator('.rule-name', { hasText: TITLE }).waitFor()
  assert.deepEqual(await sentences(), SENTENCES)
  await focusKept('opening')
  await replaceByExample()
  return link
}

async function replaceByExample() {
  await openDialog('أمثلة')
  await press('بدل مقدمي الرعاية')
  await page.locator('.rule-name', { hasText: 'بدل مقدمي الرعاية' }).waitFor()
  await page.locator('main:focus').waitFor()
  assert.notDeepEqual(await sentences(), SENTENCES)
}

// The link is opened as another user opens it.
async function openLink(link) {
  await page.goto('about:blank')
  await page.goto(link)
  await enter()
  await page.locator('.verdict .good').waitFor()
  assert.deepEqual(await sentences(), SENTENCES)
}

// A field that does not exist, corrected by the offered fix.
async function repair() {
  await press('نص')
  await to('نص القاعدة')
  await key('Control+A')
  await type('age_years(me.birth_dat) >= 60')
  await page.locator('.diagnostics', { hasText: 'birth_date' }).waitFor()
  assert.match(await page.locator('.verdict .bad').innerText(), /مشكلة واحدة/)
  await lookAtAll('repair-ar')
  await key('Escape')
  await press(/^استخدم .*birth_date/)
  await page.locator('.verdict .good').waitFor()
  assert.equal(await focused(), 'نص القاعدة')
  assert.equal((await page.locator('.cm-content').innerText()).trim(), 'age_years(me.birth_date) >= 60')
}

await lead(async () => {
  await page.addInitScript(() => {
    globalThis.printed = 0
    globalThis.print = () => (globalThis.printed += 1)
  })
  await page.goto(`${given.url}/workbench`)
  await part('signed in', enter)
  await part('wrote the old-age rule by the builder', writeRule)
  await part('found why a person is undetermined', explainUndetermined)
  await part('listed the undetermined', listUndetermined)
  await part('compared two rules and printed the result', compare)
  let link
  await part('saved, shared and reopened a rule', async () => (link = await saveAndReopen()))
  await part('opened the link', () => openLink(link))
  await part('repaired a mistake', repair)
})
