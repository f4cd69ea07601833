// Drives a headless browser: startup, checks in every view, and conditions that fail a walk.

import assert from 'node:assert/strict'
import { mkdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import readline from 'node:readline'

import { chromium } from 'playwright-core'

export const given = JSON.parse(process.env.DAFTAR_WORKBENCH_WALK)

const WIDE = { width: 1440, height: 900 }
const NARROW = { width: 360, height: 740 }
// No step is slower on any machine that builds the server.
const TIMEOUT_MS = 30_000

setTimeout(() => {
  console.error('the walk takes too long')
  process.exit(1)
}, 540_000).unref()

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()

// Requests a step from the test, and waits until it is done.
export async function please(what) {
  console.log(`please ${what}`)
  assert.equal((await lines.next()).value, 'done')
}

export const step = (what) => console.log(what)

mkdirSync(given.pictures, { recursive: true })
const browser = await chromium.launch({
  executablePath: given.chromium,
  // The browser sandbox is unavailable to root, and tests may run as root.
  args: ['--no-sandbox', '--disable-dev-shm-usage'],
})
const context = await browser.newContext({ viewport: WIDE, locale: 'en-GB', acceptDownloads: true, colorScheme: 'light' })
context.setDefaultTimeout(TIMEOUT_MS)
export const page = await context.newPage()

// Every violation of the page's policy, and every exception of a script, fails the walk.
const complaints = []
page.on('pageerror', (error) => complaints.push(`thrown: ${error.message}`))
page.on('console', (message) => {
  const text = message.text()
  // A rejection by the API is not a fault of the page.
  if (message.type() === 'error' && !text.startsWith('Failed to load resource')) complaints.push(text)
})
page.on('request', (request) => {
  const isOwn = request.url().startsWith(given.url) || request.url().startsWith('blob:')
  if (!isOwn) complaints.push(`asked another host: ${request.url()}`)
})

export const say = (role, name) => page.getByRole(role, { name, exact: true })

export async function go(view) {
  await page.locator(`nav a[data-view="${view}"]`).click()
  await page.locator(`nav a[data-view="${view}"][aria-current="page"]`).waitFor()
}

export const editor = (name = 'Rule expression', tab = page) => tab.getByRole('textbox', { name, exact: true })

// Writes a rule into an editor.
export async function write(text, name, tab = page) {
  await editor(name, tab).click()
  await tab.keyboard.press('Control+A')
  await tab.keyboard.press('Delete')
  // In one input: while a person types, brackets and quotation marks are closed automatically.
  await tab.keyboard.insertText(text)
  await tab.keyboard.press('Escape')
}

// The number of a card.
export async function count(outcome) {
  const text = await page.locator(`.counts .${outcome} dd`).first().evaluate((dd) => {
    const shown = [...(dd.querySelector('button') ?? dd).childNodes].filter((node) => node.nodeType === Node.TEXT_NODE)
    return shown.map((node) => node.textContent).join('')
  })
  return Number(text.replaceAll(/\D/g, ''))
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

// No accessibility problem by any rule of axe.
export async function accessible(what) {
  // Not as a script of the page, which its policy would not run.
  await page.evaluate(axe)
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }))
  const told = violations.map(({ id, help, nodes }) => `${id}: ${help}\n  ${nodes.map((node) => node.html).join('\n  ')}`)
  assert.deepEqual(told, [], what)
}

// A screenshot of the whole page, and a check that nothing overflows horizontally.
export async function look(name) {
  const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
  assert.ok(wider <= 0, `${name} is wider than the window by ${wider}`)
  await page.screenshot({ path: path.join(given.pictures, `${name}.png`), fullPage: true })
}

// A view in both colours and widths.
export async function lookAtAll(name) {
  for (const [width, size] of [['1440', WIDE], ['360', NARROW]]) {
    await page.setViewportSize(size)
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme })
      await look(`${name}-${width}-${colorScheme}`)
      await accessible(`${name} ${width} ${colorScheme}`)
    }
  }
  await page.setViewportSize(WIDE)
  await page.emulateMedia({ colorScheme: 'light' })
  step(`checked ${name}`)
}

// The printed result has those parts, no control, and at most two pages.
export async function printedSheet(name, parts, controls) {
  await page.evaluate(() => dispatchEvent(new Event('beforeprint')))
  await page.emulateMedia({ media: 'print' })
  const shown = await page.locator('body').innerText()
  for (const part of parts) assert.ok(shown.includes(part), `the sheet has ${part}`)
  for (const control of controls) assert.ok(!shown.includes(control), `the sheet has no ${control}`)
  await page.emulateMedia({ media: null })
  await page.evaluate(() => dispatchEvent(new Event('afterprint')))
  const pdf = await page.pdf({ path: path.join(given.pictures, `${name}.pdf`), preferCSSPageSize: true })
  const pages = pdf.toString('latin1').match(/\/Type\s*\/Page[^s]/g).length
  assert.ok(pages <= 2, `${pages} pages`)
  step(`printed ${name}`)
}

// Runs a walk until it completes or fails.
export async function lead(walk) {
  try {
    await walk()
    assert.deepEqual(complaints, [])
    console.log('walked')
  } catch (error) {
    await page.screenshot({ path: path.join(given.pictures, 'failed.png'), fullPage: true }).catch(() => {})
    console.error(error)
    console.error(complaints.join('\n'))
    process.exitCode = 1
  }
  await browser.close()
  // Does not wait for further messages of the test.
  process.exit()
}
