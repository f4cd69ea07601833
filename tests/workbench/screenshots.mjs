// Takes screenshots of every view: at three widths, in light and dark, from left to right and from right to left; and the
// sheets that a preview and a comparison print.

import path from 'node:path'

import { accessible, given, go, lead, look, page, step } from './leader.mjs'

const SIZES = [
  { width: 375, height: 740 },
  { width: 1024, height: 768 },
  { width: 1440, height: 900 },
]
const RULE = 'is_female(me) && age_years(me.birth_date) >= 60'
const OTHER = 'age_years(me.birth_date) >= 65 && me.income.amount < 1000.0'

async function takeAll(name, language) {
  for (const size of SIZES) {
    await page.setViewportSize(size)
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme })
      await look(`${name}-${size.width}-${colorScheme}-${language}`)
      await accessible(`${name} ${size.width} ${colorScheme} ${language}`)
    }
  }
  await page.emulateMedia({ colorScheme: 'light' })
  await page.setViewportSize(SIZES[2])
  step(`${name} ${language}`)
}

async function write(editor, text) {
  await page.locator('.editor').nth(editor).locator('.cm-content').click()
  await page.keyboard.press('Control+A')
  await page.keyboard.press('Delete')
  await page.keyboard.insertText(text)
  await page.keyboard.press('Escape')
}

async function printed(name, language) {
  await page.pdf({ path: path.join(given.pictures, `${name}-${language}.pdf`), preferCSSPageSize: true })
}

async function speak(language) {
  await page.locator('header select').selectOption(language)
  await page.locator(`html[lang="${language}"]`).waitFor()
}

async function views(language) {
  await go('rule')
  await write(0, '')
  await takeAll('rule-empty', language)
  await write(0, "me.gender == 'female' && age_years(me.birth_dat) => 60")
  await page.locator('.diagnostics li').first().waitFor()
  await takeAll('rule-wrong', language)
  await write(0, RULE)
  await page.locator('.verdict .good').waitFor()
  await page.locator('.reach .primary').click()
  await page.locator('.reach .headline').waitFor()
  await takeAll('rule', language)
  await printed('rule', language)
  await page.locator('.counts .undetermined button').click()
  await page.locator('dialog .sample li').first().waitFor()
  await takeAll('list', language)
  await page.keyboard.press('Escape')
  await page.locator('.sample li button').first().click()
  await page.locator('.tree').waitFor()
  await takeAll('case', language)
  await go('compare')
  await write(1, OTHER)
  await page.locator('.verdict .good').nth(1).waitFor()
  await page.locator('.compare .primary').click()
  await page.locator('.compare .headline').waitFor()
  await takeAll('compare', language)
  await printed('compare', language)
  await go('vocabularies')
  await page.locator('.choices button[data-namespace="urn:ilo:isco-08"]').click()
  await page.locator('.detail .codes li').first().waitFor()
  await takeAll('vocabulary', language)
  await page.locator('.detail .codes li .link').nth(3).click()
  await page.locator('.concept .breadcrumb li').first().waitFor()
  await takeAll('concept', language)
}

await lead(async () => {
  await page.goto(`${given.url}/workbench`)
  await page.locator('.sign-in').waitFor()
  for (const language of ['ar', 'en']) {
    await speak(language)
    await takeAll('sign-in', language)
  }
  await page.locator('input[name="client_id"]').fill(given.client.client_id)
  await page.locator('input[name="client_secret"]').fill(given.client.client_secret)
  await page.keyboard.press('Enter')
  await page.locator('nav').waitFor()
  for (const language of ['en', 'ar']) {
    await speak(language)
    await views(language)
  }
})
