import assert from 'node:assert/strict'
import test from 'node:test'

import { LANGUAGES, useStrings } from '../i18n'
import { exampleRules } from '../syntax/examples'
import { parse } from '../syntax/parse'
import { urisIn } from './codes'
import { type Clause, inLine, read } from './read'
import { factName, pieces } from './terms'
import { sentence } from './view'

const examples = exampleRules()

/** The sentences of a clause and its parts. */
const sentences = (clause: Clause): string[] => [sentence(clause), ...clause.parts.flatMap(sentences)]

function reading(source: string, subject: 'individual' | 'group' = 'individual', codes = new Map<string, string>()): Clause {
  const parsed = parse(source)
  assert.ok(parsed, source)
  return read(parsed.tree, { source, subject, codes })
}

const inEnglish = (source: string) => sentences(reading(source)).map((text) => text.replaceAll(/[\u2068\u2069]/g, '').replaceAll(/[\ue000\ue001]/g, '`'))

const isStart = async (tag: string) => useStrings(tag, await LANGUAGES[tag]!.load())

/** The words that are not values of the rule, such as codes between quotation marks, nor parts of it. */
const ownWords = (text: string): string => pieces(text).filter((_, at) => at % 2 === 0).join(' ').replaceAll(/\u2068[^\u2069]*\u2069/g, ' ')

const ENGLISH = /\b(the|is|of|and|or|if|not|at|least|one|age|years|date|value|member|household|true|number|person|group|from)\b/i

test('there are twenty example rules', () => assert.equal(examples.length, 20))

for (const [tag, { name }] of Object.entries(LANGUAGES)) {
  test(`the example rules read as complete sentences in ${name}`, async () => {
    await isStart(tag)
    for (const example of examples) {
      const { tree } = parse(example.expression)!
      const codes = new Map(urisIn(tree).map((uri) => [uri, 'X']))
      const all = sentences(reading(example.expression, example.subject, codes))
      for (const text of all) {
        const where = `${example.name}: ${text}`
        assert.match(text, /[.:]$/, where)
        assert.ok(!/undefined|null|\[object|^[^\p{L}]*$/u.test(text), where)
        assert.ok(!/^\(?\p{Ll}/u.test(text), where)
        if (tag === 'en') continue
        assert.ok(!ENGLISH.test(ownWords(text)), where)
        if (tag === 'ar') assert.ok(!/[A-Za-z]/.test(ownWords(text)), where)
      }
      // A sentence that ends with a colon has parts, and the last one does not.
      assert.match(all.at(-1) ?? '', /\.$/)
      // Names of concept groups, programs and fields of modules are the only parts in the text of the rule.
      const verbatim = all.flatMap((text) => pieces(text).filter((_, at) => at % 2 === 1))
      for (const part of verbatim) assert.match(part, /^[\w.]+$/, `${example.name}: ${part}`)
    }
    await isStart('en')
  })
}

test('the old-age pension in English, French and Arabic', async () => {
  const text = 'age_years(me.birth_date) >= 65 || (is_female(me) && 60 <= age_years(me.birth_date))'
  const of = async (tag: string) => {
    await isStart(tag)
    return sentences(reading(text))
  }
  assert.deepEqual(await of('en'), [
    'A person is eligible if at least one of these is true:',
    'The age is 65 or more.',
    'All of these are true:',
    'The person is female.',
    'The age is 60 or more.',
  ])
  assert.deepEqual((await of('fr')).slice(1, 2), ['L’âge est de 65 ans ou plus.'])
  assert.deepEqual((await of('ar')).slice(0, 2), ['يكون الشخص مستحقًا عندما يتحقق واحد على الأقل من الشروط التالية:', 'العمر 65 سنة أو أكثر.'])
  await isStart('en')
})

test('negations are read as their opposite', () => {
  assert.deepEqual(inEnglish('!(me.active && age_years(me.birth_date) < 18)'), [
    'A person is eligible if at least one of these is true:',
    'The indicator “active record” is false.',
    'The age is 18 or more.',
  ])
  assert.deepEqual(inEnglish('!members.all(m, is_alive(m))'), ['A person is eligible if for at least one member of the household, the member is not alive.'])
  assert.deepEqual(inEnglish('not has(me.income)'), ['A person is eligible if no value is recorded for the income.'])
})

test('facts of an outer subject are named with it', () => {
  assert.deepEqual(inEnglish('members.exists(m, m.birth_date < me.birth_date)'), [
    'A person is eligible if for at least one member of the household, the date of birth is before the date of birth of the person.',
  ])
})

test('points are read as a sum', () => {
  assert.deepEqual(inEnglish("(is_male(me) ? 4 : 0) + (members.size() > 5 ? 2 : 0) >= 4"), [
    'A person is eligible if the sum of these is 4 or more:',
    '4 if the person is male, otherwise 0.',
    '2 if the number of members of the household is more than 5, otherwise 0.',
  ])
})

test('parts without words are shown as they are written', () => {
  assert.deepEqual(inEnglish("cel.bind(a, 1,  a > 0) && me.extension.farm.size == 2 && me.name.family.startsWith('A')"), [
    'A person is eligible if all of these are true:',
    'The condition `cel.bind(a, 1, a > 0)` is true.',
    '`extension.farm.size` is 2.',
    'The family name begins with “A”.',
  ])
})

test('a calculation within another is in parentheses, also if it begins or ends as it is written', () => {
  assert.deepEqual(inEnglish('2.0 * (me.extension.farmer.area + 1.0) > 10.0'), ['A person is eligible if 2 × (`extension.farmer.area` + 1) is more than 10.'])
  assert.deepEqual(inEnglish('2.0 * (me.extension.a - me.extension.b) > 10.0'), ['A person is eligible if 2 × (`extension.a` − `extension.b`) is more than 10.'])
  assert.deepEqual(inEnglish('2.0 * me.extension.farmer.area > 10.0'), ['A person is eligible if 2 × `extension.farmer.area` is more than 10.'])
  assert.deepEqual(inEnglish('2 * -me.extension.a > 10'), ['A person is eligible if 2 × `-me.extension.a` is more than 10.'])
})

test('a condition is read in one line', () => {
  const text = "is_male(me) && (me.active || me.birth_date < date('1960-01-31'))"
  const { tree } = parse(text)!
  const line = tree.kind === 'chain' ? inLine(read(tree, { source: text, subject: 'individual', codes: new Map() })) : ''
  assert.match(line, /^A person is eligible if all of these are true: the person is male and \(.* or the date of birth is before January 31, 1960\)$/)
})

test('missing facts have names', () => {
  const names = ['me.birth_date', 'me.address[].district', 'members.role', 'members', 'programs.status', 'me.extension.x', 'concept_group.y'].map(factName)
  assert.deepEqual(names, ['the date of birth', 'the district', 'the role in the household of the member', 'the members of the household', 'the status of the membership', 'extension.x', 'concept_group.y'])
})
