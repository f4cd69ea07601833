import assert from 'node:assert/strict'
import test from 'node:test'

import { Text } from '@codemirror/state'

import { range, suggested } from '../editor/diagnostics'
import { joined } from '../compare/compared'
import { Csv } from './csv'
import { type Previewed, readFilter } from './preview'

const at = (column: number, length: number, suggestion?: string, line = 1) =>
  ({ severity: 'error', code: 'x', message: '', line, column, length, ...(suggestion === undefined ? {} : { suggestion }) }) as const

test('positions are counted in characters, not in code units', () => {
  const doc = Text.of(["'😀' == x", 'y'])
  assert.deepEqual(range(doc, at(8, 1)), { from: 8, to: 9 })
  assert.deepEqual(range(doc, at(2, 1)), { from: 1, to: 3 })
  assert.deepEqual(range(doc, at(1, 1, undefined, 2)), { from: 10, to: 11 })
  assert.deepEqual(range(doc, at(99, 9, undefined, 99)), { from: 10, to: 11 }, 'a place that is not there is the last one')
  assert.deepEqual(range(Text.of(['']), at(1, 0)), { from: 0, to: 0 })
})

test('a suggestion for a text stays between its quotation marks', () => {
  const doc = Text.of(["in_group(x, 'femin') && me.ag"])
  assert.equal(suggested(doc, at(13, 7, 'feminine_gender'))?.text, "'feminine_gender'")
  assert.equal(suggested(doc, at(28, 2, 'age'))?.text, 'age')
  assert.equal(suggested(doc, at(28, 0, 'age')), undefined)
})

test('filters stand one a line, and one that stands twice has two values', () => {
  const text = ' active=true\n\nbirth_date=ge1950-01-01\nbirth_date = lt1960-01-01\nname=a=b'
  const expected = { active: 'true', birth_date: ['ge1950-01-01', 'lt1960-01-01'], name: 'a=b' }
  assert.deepEqual(readFilter(text), expected)
  assert.throws(() => readFilter('active'), /active/)
  assert.throws(() => readFilter('=x'))
})

test('cells of the list are quoted where they must be, and are never formulas', async () => {
  const csv = new Csv()
  csv.add({ subject: 'Individual/urn:x|a,"b"', outcome: 'eligible', missing: [] })
  csv.add({ subject: '=1+1', outcome: 'undetermined', missing: ['me.gender', 'members'] })
  const text = await csv.file().text()
  assert.equal(text, 'subject,outcome,missing\r\n"Individual/urn:x|a,""b""",eligible,\r\n\'=1+1,undetermined,me.gender members\r\n')
})

test('who is gained and lost follows from three counts, in every breakdown', () => {
  const of = (total: number, women: number, men: number) =>
    ({
      total,
      eligible: women + men,
      by_gender: [
        { code: '2', display: 'Female', eligible: women },
        { code: '1', display: 'Male', eligible: men },
      ],
    }) as unknown as Previewed
  const compared = joined(of(10, 4, 2), of(10, 3, 5), of(10, 2, 1))
  assert.deepEqual([compared.all.gained, compared.all.lost, compared.all.kept], [5, 3, 3])
  assert.deepEqual(compared.byGender.map(({ label, gained, lost, kept }) => [label, gained, lost, kept]), [
    ['Female', 1, 2, 2],
    ['Male', 4, 1, 1],
  ])
  assert.equal(compared.isSteady, true)
  assert.equal(joined(of(10, 4, 2), of(11, 3, 5), of(11, 2, 1)).isSteady, false)
})
