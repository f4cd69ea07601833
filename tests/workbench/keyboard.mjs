// Uses the page by keyboard alone: reaches a control by its label as it has the focus, and counts the presses of Tab.

import assert from 'node:assert/strict'

import { given, page, step } from './leader.mjs'

/** The most presses of Tab from one control to the next. */
const FAR = 25

let tabs = 0

export const key = (name, tab = page) => tab.keyboard.press(name)
export const type = (text, tab = page) => tab.keyboard.type(text)

// The label of the focused control, also within the editor.
export const focused = (tab = page) =>
  tab.evaluate(() => {
    let { activeElement: control } = document
    while (control.shadowRoot?.activeElement) control = control.shadowRoot.activeElement
    return (control.getAttribute('aria-label') ?? control.labels?.[0]?.textContent ?? control.textContent).trim()
  })

// The element that has the focus; the body means that it was lost.
export const focusedTag = (tab = page) => tab.evaluate(() => document.activeElement.tagName)

export async function focusKept(what) {
  assert.notEqual(await focusedTag(), 'BODY', `the focus is lost after ${what}`)
}

async function move(by, label, far) {
  const isThere = (text) => (label instanceof RegExp ? label.test(text) : text === label)
  for (let count = 0; count <= far; count += 1) {
    if (isThere(await focused())) return
    await key(by)
    tabs += 1
  }
  assert.fail(`no control ${label} within ${far} presses of ${by}, but ${await focused()}`)
}

export const to = (label, far = FAR) => move('Tab', label, far)
export const back = (label, far = FAR) => move('Shift+Tab', label, far)

export async function press(label, far = FAR) {
  await to(label, far)
  await key('Enter')
  await focusKept(label)
}

// A part of a walk, with its presses of Tab.
export async function part(name, act) {
  tabs = 0
  await act()
  await focusKept(name)
  step(`${name}: ${tabs} presses of Tab`)
}

// Chooses in the focused list: by the beginning of an option, or by arrows where the browser's driver has no such keys.
export async function pick(text) {
  const shown = () => page.evaluate(() => document.activeElement.selectedOptions[0].textContent)
  if (/^[ -~]+$/.test(text)) {
    await type(text)
    // The list forgets what was typed after a second.
    await page.waitForTimeout(1_100)
  } else {
    await key('Home')
    for (let options = 0; options < 80 && !(await shown()).startsWith(text); options += 1) await key('ArrowDown')
  }
  assert.ok((await shown()).startsWith(text), `${text} is not chosen but ${await shown()}`)
}

// Signs in: the first field has the focus.
export async function signIn(client = given.client, tab = page) {
  await tab.locator('input[name="client_id"]:focus').waitFor()
  await type(client.client_id, tab)
  await key('Tab', tab)
  await type(client.client_secret, tab)
  await key('Enter', tab)
  await tab.locator('main:focus').waitFor()
}

// Writes the pension rule by the builder: 65 years, or a woman of 60. The focus is before the choice of the form.
export async function pension(names) {
  await press(names.rows)
  // The fields of rules are loaded by then.
  await page.locator('.builder > .add button').first().waitFor()
  await press(`+ ${names.add}`)
  await pick(names.age)
  await to(names.value)
  await type('65')
  await press(`+ ${names.group}`)
  await pick(names.female)
  await press(`+ ${names.add}`)
  await pick(names.age)
  await to(names.value)
  await type('60')
  // The group is of all, the rule of any.
  await back(names.joined)
  await pick(names.all)
  await key('Shift+Tab')
  await back(names.joined)
  await pick(names.any)
}
