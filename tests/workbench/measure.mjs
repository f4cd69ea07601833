// Measures waiting times at the workbench: until the page can be used, and its longest unresponsive time while the register is
// queried. Figures, not assertions.

import { given, go, lead, page, say } from './leader.mjs'

// The longest unresponsive time of the page since the last call, in milliseconds; the browser reports nothing below 50.
const longest = () =>
  page.evaluate(async () => {
    // A task that has just ended is reported a little later.
    await new Promise((resolve) => setTimeout(resolve, 100))
    const told = globalThis.longTasks.splice(0)
    return Math.round(Math.max(0, ...told))
  })

const figures = {}

await page.addInitScript(() => {
  globalThis.longTasks = []
  new PerformanceObserver((list) => globalThis.longTasks.push(...list.getEntries().map(({ duration }) => duration))).observe({
    type: 'longtask',
    buffered: true,
  })
})

async function timed(name, act) {
  const begun = performance.now()
  await act()
  figures[`${name}_ms`] = Math.round(performance.now() - begun)
  figures[`${name}_longest_task_ms`] = await longest()
}

await lead(async () => {
  await timed('sign_in_shown', async () => {
    await page.goto(`${given.url}/workbench`)
    await page.getByLabel('Client id').waitFor()
  })
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime)
  figures.first_contentful_paint_ms = Math.round(paint)
  await timed('editor_shown', async () => {
    await page.getByLabel('Client id').fill(given.client.client_id)
    await page.getByLabel('Client secret').fill(given.client.client_secret)
    await page.keyboard.press('Enter')
    await page.getByRole('textbox', { name: 'Rule expression' }).waitFor()
  })
  await timed('rule_checked', async () => {
    await page.getByRole('textbox', { name: 'Rule expression' }).click()
    await page.keyboard.insertText(given.rule)
    await page.locator('.verdict .good').waitFor()
  })
  await timed('preview', async () => {
    await say('button', 'Preview').click()
    await page.locator('.counts').waitFor()
  })
  await timed('list', async () => {
    await page.locator('.counts .not_eligible button').click()
    await page.locator('dialog .sample li').first().waitFor()
    const download = page.waitForEvent('download')
    await page.getByRole('button', { name: /CSV/ }).click()
    await (await download).path()
    await page.keyboard.press('Escape')
  })
  await timed('case', async () => {
    await page.locator('.sample button').first().click()
    await page.locator('.tree').waitFor()
  })
  await timed('compare', async () => {
    await go('compare')
    await page.getByRole('textbox', { name: 'Rule B' }).click()
    await page.keyboard.insertText(given.other)
    await page.locator('.verdict .good').nth(1).waitFor()
    await say('button', 'Compare').click()
    await page.locator('.counts').waitFor()
  })
  console.log(`figures ${JSON.stringify(figures)}`)
})
