// Drives a browser through the workbench of the admin listener: signs in with the admin token, inspects, installs and removes a plugin.

import assert from 'node:assert/strict'

import { given, lead, lookAtAll, page, say, step } from './leader.mjs'

const plugin = (name) => page.locator(`.choices [data-plugin="${name}"]`)

await lead(async () => {
  await page.goto(`${given.url}/admin/workbench`)
  assert.equal(await page.getByLabel('Client id').count(), 0)
  await lookAtAll('admin-sign-in')
  await page.getByLabel('Admin token').fill('not-the-token')
  await page.keyboard.press('Enter')
  await page.getByRole('alert').filter({ hasText: 'admin token' }).waitFor()
  assert.equal(await page.locator('nav').count(), 0, 'nothing is shown without the token')
  await page.getByLabel('Admin token').fill(given.token)
  await page.keyboard.press('Enter')
  await say('button', 'Sign out').waitFor()
  step('signed in')

  await plugin('eligibility-cel').click()
  await page.locator('.detail .facts', { hasText: 'eligibility-engine' }).waitFor()
  await page.locator('.detail tbody tr', { hasText: 'memory_bytes' }).waitFor()
  await lookAtAll('plugins')

  // Files that are not plugins are rejected with the message of the server.
  await page.locator('.install summary').click()
  const file = page.getByLabel('Component (.wasm)')
  await file.setInputFiles({ name: 'nothing.wasm', mimeType: 'application/wasm', buffer: Buffer.from('nothing') })
  await say('button', 'Install').click()
  await page.getByRole('alert').filter({ hasText: 'not a WebAssembly component' }).waitFor()

  await file.setInputFiles(given.module)
  await say('button', 'Show the effects').click()
  await page.locator('.install li', { hasText: 'urn:fao:agrovoc' }).filter({ hasText: 'codes added' }).waitFor()
  assert.equal(await plugin('farmer-registry').count(), 0, 'an inspection installs nothing')
  // A test's own build of the server knows the module's digest only if it was made with it.
  await page.getByLabel('Allow without a trusted signature').check()
  await say('button', 'Install').click()
  await plugin('farmer-registry').waitFor()
  await page.locator('.detail h2', { hasText: 'farmer-registry' }).waitFor()
  await lookAtAll('plugin-installed')
  step('installed')

  await say('button', 'Remove').click()
  await say('button', 'Keep it').click()
  assert.equal(await plugin('farmer-registry').count(), 1, 'a cancelled removal keeps the plugin')
  await say('button', 'Remove').click()
  await say('button', 'Yes, remove it').click()
  await page.locator('.detail', { hasText: 'farmer-registry was removed' }).waitFor()
  await plugin('farmer-registry').waitFor({ state: 'detached' })
  step('removed')
})
