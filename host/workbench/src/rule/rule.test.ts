import assert from 'node:assert/strict'
import test from 'node:test'

import { Text } from '@codemirror/state'

import { Api } from '../api'
import { range, suggested } from '../editor/diagnostics'
import { type Moves, compare, compared, row } from '../compare/compared'
import { Csv } from './csv'
import { ageFilters, narrowed } from './list'
import { about, age, fullName, parts, readPeople } from './people'
import { type Cell, OUTCOMES, type Previewed, type Question, isSameDecision, readFilter } from './preview'
import { headline } from './reach'

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
  // An expression replaces the quotation marks too.
  assert.equal(suggested(Text.of(["me.gender == '2'"]), at(14, 3, "code('a#2')"))?.text, "code('a#2')")
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

test('the gained and lost subjects follow from the pairs of outcomes, in every breakdown', () => {
  const cells = (...counts: number[]): Cell[] => OUTCOMES.flatMap((a, i) => OUTCOMES.map((b, j) => ({ a, b, count: counts[i * 3 + j] ?? 0 })))
  const result = {
    total: 45,
    decision: { as_of: '2026-01-01' },
    comparison: {
      cells: cells(1, 2, 3, 4, 5, 6, 7, 8, 9),
      by_gender: [{ code: '2', display: 'Female', cells: cells(1, 0, 0, 4) }],
      by_age_band: [{ from: null, to: null, cells: cells(0, 2) }],
      by_region: [{ region: null, cells: cells(1) }],
    },
  } as unknown as Previewed
  const found = compared(result, { as_of: '2026-01-01', expression_digest: 'sha256:b' })
  const numbers = ({ label, gained, refused, undetermined, kept }: Moves) => [label, gained, refused, undetermined, kept]
  assert.deepEqual(numbers(found.all).slice(1), [11, 2, 3, 1])
  assert.deepEqual([found.a, found.b, found.total], [6, 12, 45])
  assert.deepEqual(found.undetermined, { a: 24, b: 18 })
  assert.equal(found.decisions[1].expression_digest, 'sha256:b')
  assert.deepEqual(found.byGender.map(numbers), [['Female', 4, 0, 0, 1]])
  assert.deepEqual(found.byAge.map(numbers).map((row) => row.slice(1)), [[0, 2, 0, 0]])
  assert.deepEqual(found.byRegion, [], 'without regions there is nothing to compare')
  assert.deepEqual(row(found.cells, 'undetermined'), [7, 8, 9])
})

test('a sentence says the result, and which facts are missing', () => {
  const question = { expression: 'x', subject: 'individual', filter: '', asOf: '' } as const
  const result = { total: 1001, eligible: 105, not_eligible: 869, undetermined: 27, missing: [] } as unknown as Previewed
  assert.equal(headline(question, { ...result, undetermined: 0 }), '105 of 1,001 people are eligible (10.5%).')
  const missing = [
    { field: 'me.birth_date', count: 25 },
    { field: 'me.gender', count: 2 },
  ]
  const text = headline(question, { ...result, missing }).replaceAll(/[\u2068\u2069]/g, '')
  assert.equal(text, '105 of 1,001 people are eligible (10.5%); 27 cannot be decided because the date of birth (25) or the gender (2) is missing.')
})

test('an age is a range of dates of birth', () => {
  assert.deepEqual(ageFilters({ from: 60, to: 64 }, '2026-11-28'), ['birth_date=le1966-11-28', 'birth_date=gt1961-11-28'])
  assert.deepEqual(ageFilters({ from: 80, to: null }, '2026-11-28'), ['birth_date=le1946-11-28'])
  assert.equal(ageFilters({ from: null, to: null }, '2026-11-28'), undefined)
  const narrow = narrowed({ expression: 'x', subject: 'individual', filter: 'active=true\n', asOf: '' }, 'gender=a#2')
  assert.equal(narrow.filter, 'active=true\ngender=a#2')
})

test('a request decides as another by its rule, engine and day, with any filters', () => {
  const question: Question = { expression: 'x', subject: 'individual', filter: '', asOf: '', engine: '' }
  const isSame = (other: Partial<Question>) => isSameDecision({ ...question, ...other }, question, '2026-11-28')
  assert.equal(isSame({ filter: 'active=true', asOf: '2026-11-28' }), true)
  assert.deepEqual([isSame({ asOf: '2026-11-27' }), isSame({ expression: 'y' }), isSame({ subject: 'group' }), isSame({ engine: 'z' })], [false, false, false, false])
})

test('a person is shown by name, age and place', () => {
  assert.equal(age('1966-11-28', '2026-11-28'), 60)
  assert.equal(age('1966-11-29', '2026-11-28'), 59)
  assert.equal(age(undefined, '2026-11-28'), undefined)
  assert.equal(fullName({ name: { given: 'Hassan', family: 'النجار' } }), 'Hassan النجار')
  const record = { birth_date: '1966-11-28', gender: { display: 'Male' }, address: [{ district: 'East', region: 'North' }] }
  assert.equal(about(record, '2026-11-28'), '60 y · Male · East, North')
  assert.deepEqual(parts('Individual/urn:a#b|X|1'), { kind: 'Individual', identifier: 'urn:a#b|X|1', value: '1' })
  assert.equal(parts('DEMO-000001'), undefined)
})

test('a comparison is complete without the digest of the second rule, and ends when it is cancelled', async () => {
  const result = { total: 3, decision: { as_of: '2026-01-01' }, comparison: { cells: [{ a: 'not_eligible', b: 'eligible', count: 3 }] } }
  const stop = new AbortController()
  let ofSecond = () => Promise.resolve(new Response('{}', { status: 500 }))
  globalThis.fetch = (url) => (String(url).endsWith('$preview') ? Promise.resolve(new Response(`${JSON.stringify(result)}\n`)) : ofSecond())
  const question = { expression: 'a', b: 'b', subject: 'individual', filter: '', asOf: '' } as const
  const run = () => compare(new Api(new URL('http://server/api/v2/')), question, { signal: stop.signal, onProgress: () => {} })
  const { all, decisions } = await run()
  assert.deepEqual([all.gained, decisions], [3, [result.decision, { as_of: '2026-01-01' }]])
  ofSecond = () => {
    stop.abort()
    return Promise.reject(new DOMException('', 'AbortError'))
  }
  await assert.rejects(run(), { name: 'AbortError' })
})

test('a record is read again after a minute, and one that may not be read any more has no name', async (context) => {
  context.mock.timers.enable({ apis: ['Date'] })
  let resource: object | undefined = { name: 'Amina' }
  let requests = 0
  globalThis.fetch = () => {
    requests += 1
    return Promise.resolve(new Response(JSON.stringify({ entry: [{ resource }] })))
  }
  const api = new Api(new URL('http://server/api/v2/'))
  api.scopes = ['individual:read']
  const name = async () => (await readPeople(api, ['Individual/urn:id|1'])).get('Individual/urn:id|1')?.record.name
  assert.deepEqual([await name(), await name(), requests], ['Amina', 'Amina', 1])
  context.mock.timers.tick(60_000)
  resource = undefined
  assert.deepEqual([await name(), requests], [undefined, 2])
})
