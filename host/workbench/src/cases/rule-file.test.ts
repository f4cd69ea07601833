import assert from 'node:assert/strict'
import test from 'node:test'

import examples from 'virtual:rules'

import { type RuleFile, readRuleFile, writeRuleFile } from './rule-file'

const file: RuleFile = {
  title: 'A "quoted" \\ title',
  about: 'Two lines,\nthe second with """ and a tab\t and \\n.',
  subject: 'group',
  asOf: '2026-03-01',
  needs: 'a module',
  expression: "me.name == 'x'\n  && members.exists(m, m.x == \"\\n\")",
  cases: [
    {
      name: 'a family',
      record: { type: 'group', members: [{ gender: 'urn:a#2', 'odd key': [], income: { amount: 7.5 } }, {}] },
      outcome: 'undetermined',
      missing: ['members.birth_date'],
    },
    { name: 'nothing', record: { type: 'group' }, outcome: 'undetermined', errors: ['overflow'] },
  ],
}

test('a rule file is read as it was written', () => {
  assert.deepEqual(readRuleFile(writeRuleFile(file)), file)
  const odd = { ...file, expression: "me.name == '''\u0007'''", about: '' }
  assert.deepEqual(readRuleFile(writeRuleFile(odd)), odd)
  assert.match(writeRuleFile(file), /^expression = '''\nme\.name/m)
})

test('every example is read, and written without a loss', () => {
  assert.equal(Object.keys(examples).length, 20)
  for (const [name, text] of Object.entries(examples)) {
    const read = readRuleFile(text)
    assert.ok(read.cases.length > 0 && read.title && read.about, name)
    assert.deepEqual(readRuleFile(writeRuleFile(read)), read, name)
  }
})

test('an error names the member that is wrong', () => {
  const text = writeRuleFile(file)
  const refused: [string, RegExp][] = [
    [text.replace('outcome', 'outcom'), /case\[1\]\.outcom/],
    [text.replace('"undetermined"', '"maybe"'), /case\[1\]\.outcome.*eligible/],
    [text.replace('as_of = "2026-03-01"', 'as_of = "1 March"'), /1 March/],
    [text.replace('as_of = "2026-03-01"\n', ''), /as_of/],
    [text.replace('subject = "group"', 'subject = "village"'), /subject/],
    [text.replace('title = ', 'title = [] #'), /title/],
    [`x\n${text}`, /line 1/],
  ]
  for (const [wrong, says] of refused) assert.throws(() => readRuleFile(wrong), says)
  assert.equal(readRuleFile(text.replace('as_of = "2026-03-01"', 'as_of = 2026-03-01')).asOf, '2026-03-01')
})
