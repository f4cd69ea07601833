import assert from 'node:assert/strict'
import test from 'node:test'

import { LANGUAGES } from '../i18n'

/** All keys with their values; functions are called with numbers, whose texts have no words of their own. */
function texts(strings: object, before = ''): Map<string, unknown> {
  return new Map(
    Object.entries(strings).flatMap(([key, value]): [string, unknown][] => {
      const name = before ? `${before}.${key}` : key
      return typeof value === 'object' ? [...texts(value, name)] : [[name, value]]
    }),
  )
}

const english = texts((await LANGUAGES['en']?.load()) ?? {})

for (const [tag, language] of Object.entries(LANGUAGES)) {
  test(`${language.name} has every text, none of them empty, with the same arguments`, async () => {
    const own = texts(await language.load())
    assert.deepEqual([...own.keys()].sort(), [...english.keys()].sort())
    for (const [key, value] of own) {
      const original = english.get(key)
      assert.equal(typeof value, typeof original, key)
      if (typeof value === 'string') assert.ok(value.trim(), key)
      if (typeof value !== 'function' || typeof original !== 'function') continue
      assert.ok(value.length <= original.length, `${key} takes no more arguments`)
      const text = String(value(3, 7, 2, true))
      assert.ok(text.trim() && !text.includes('undefined'), `${key}: ${text}`)
    }
  })

  test(`${language.name} is not English`, async () => {
    if (tag === 'en') return
    const own = texts(await language.load())
    // Sentences; single words such as "Licence" may be the same.
    const same = [...own].filter(([key, value]) => {
      const original = english.get(key)
      return typeof value === 'string' && value === original && value.split(' ').length > 2
    })
    assert.deepEqual(same.map(([key]) => key), [])
  })
}

test('Arabic nouns agree with their number', async () => {
  const ar = await LANGUAGES['ar']?.load()
  const found = [1, 2, 3, 11, 100].map((count) => ar?.list.found(count))
  assert.deepEqual(found.map((text) => text?.replaceAll(/\d/g, '').trim()), ['صف واحد', 'صفان', 'صفوف', 'صفًا', 'صف'])
})
