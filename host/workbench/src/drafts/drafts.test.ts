import assert from 'node:assert/strict'
import test from 'node:test'

import { Api, Refusal } from '../api'
import { difference } from './difference'
import { changedCases, emptyDocument, ofPeople, withoutPeople } from './document'
import { type Draft, currentBody, deleteDraft, isClosed, openedDraft } from './drafts'
import { fileName } from './file'
import { linkOf, linked } from './link'
import { openRule, restoreRule } from './open'
import { state } from '../state'

test('a link restores rule, subject, day and filter, and nothing else', () => {
  const rule = { expression: "me.name == 'é & # ?'\n&& x", subject: 'group', asOf: '2026-01-31', filter: 'active=true\nbirth_date=ge1960-01-01' } as const
  const link = linkOf('http://server/workbench#case', rule)
  assert.ok(link.startsWith('http://server/workbench#rule?rule='))
  assert.deepEqual(linked(new URL(link).hash), rule)
  const plain = { expression: 'a', subject: 'individual', asOf: '', filter: '' } as const
  assert.deepEqual(linked(new URL(linkOf('http://server/workbench', plain)).hash), plain)
})

test('a fragment without a rule, or with a wrong day, is harmless', () => {
  assert.equal(linked('#rule'), undefined)
  assert.equal(linked('#rule?subject=group'), undefined)
  assert.deepEqual(linked('#rule?rule=a&subject=x&as_of=tomorrow'), { expression: 'a', subject: 'individual', asOf: '', filter: '' })
})

test('a difference keeps both texts, and marks words', () => {
  const [before, after] = ['age_years(me.birth_date) >= 60 && is_female(me)', 'age_years(me.birth_date) >= 65 && me.active && is_female(me)']
  const parts = difference(before, after)
  const text = (kind: string) => parts.filter((part) => part.kind === 'same' || part.kind === kind).map((part) => part.text).join('')
  assert.equal(text('removed'), before)
  assert.equal(text('added'), after)
  assert.deepEqual(parts.filter((part) => part.kind === 'removed').map((part) => part.text), ['60'])
  assert.deepEqual(difference('a b', 'a b'), [{ kind: 'same', text: 'a b' }])
  assert.deepEqual(difference('', 'a'), [{ kind: 'added', text: 'a' }])
})

test('a file is named after its rule', () => {
  assert.equal(fileName('Old-age pension (60+)'), 'old-age-pension-60.toml')
  assert.equal(fileName(' '), 'rule.toml')
})

const CASES = [{ name: 'a woman', record: { type: 'individual' }, outcome: 'eligible' as const }]
const draft = (more: Partial<Draft>): Draft => ({
  id: 'x',
  version: 1,
  name: 'Pension',
  expression: 'is_female(me)',
  subject: 'individual',
  author: {},
  status: 'open',
  created_at: '2026-02-03T10:00:00Z',
  last_updated: '2026-02-03T10:00:00Z',
  ...more,
})

test('a draft has the day of the evaluation, if one is set', () => {
  openRule({ expression: 'is_female(me)', asOf: '2026-01-31', document: { ...emptyDocument(), cases: CASES } })
  assert.deepEqual(currentBody('Pension', '', ''), { name: 'Pension', expression: 'is_female(me)', subject: 'individual', as_of: '2026-01-31', cases: CASES })
  openRule({ expression: 'is_female(me)', asOf: '' })
  assert.deepEqual(currentBody('Pension', '', ''), { name: 'Pension', expression: 'is_female(me)', subject: 'individual' })
})

test('a draft that is opened sets its day, on which its cases are evaluated too', () => {
  openRule(openedDraft({ draft: draft({ as_of: '2026-01-31', cases: CASES }), tag: '"1"' }))
  assert.deepEqual([state.asOf, state.document.casesAsOf], ['2026-01-31', '2026-01-31'])
})

test('a draft without a day is evaluated today, and its cases on the day on which it was created', () => {
  openRule({ expression: 'is_male(me)', asOf: '2026-01-31' })
  openRule(openedDraft({ draft: draft({ cases: CASES }), tag: '"1"' }))
  assert.deepEqual([state.asOf, state.document.casesAsOf], ['', '2026-02-03'])
  openRule(openedDraft({ draft: draft({}), tag: '"1"' }))
  assert.deepEqual([state.asOf, state.document.casesAsOf], ['', ''])
})

test('the cases of a draft are those of people: they are not stored in the browser, and counted', () => {
  openRule(openedDraft({ draft: draft({ cases: CASES }), tag: '"1"' }))
  state.document.cases.push({ ...CASES[0]!, name: 'typed' })
  assert.deepEqual(withoutPeople(state.document).cases.map(({ name }) => name), ['typed'])
  assert.equal(withoutPeople(state.document).dropped, 1)
  state.dropPeople()
  state.dropPeople()
  assert.deepEqual([state.document.cases.length, state.document.dropped], [1, 1])
})

test('the end of a session leaves cases, which the sign-out drops', () => {
  openRule({ expression: 'is_female(me)', document: { ...emptyDocument(), cases: ofPeople(CASES) } })
  state.forget()
  assert.equal(state.document.cases.length, 1)
  state.dropPeople()
  assert.equal(state.document.cases.length, 0)
})

test('a rule that differs in its cases only is replaced, and both can be restored', () => {
  const rule = (cases: typeof CASES) => ({ expression: 'is_female(me)', asOf: '', document: { ...emptyDocument(), cases } })
  state.replaced = undefined
  openRule(rule([]))
  openRule(rule(CASES))
  const replaced = state.replaced
  openRule({ ...rule([]), document: { ...emptyDocument(), cases: ofPeople(CASES) } })
  assert.equal(state.replaced, replaced, 'the same content replaces nothing')
  restoreRule()
  assert.equal(state.document.cases.length, 0)
  restoreRule()
  assert.equal(state.document.cases.length, 1)
})

test('an earlier version is saved after the current one', () => {
  const { document, expression } = openedDraft({ draft: draft({ version: 3 }), tag: '"3"' }, draft({ expression: 'old' }))
  assert.deepEqual([expression, document.draft], ['old', { id: 'x', tag: '"3"', version: 3 }])
})

test('cases differ by their content, in any order of its members', () => {
  const one = (name: string, gender: string) => ({ name, record: { type: 'individual', gender }, outcome: 'eligible' as const })
  const turned = { outcome: 'eligible' as const, record: { gender: 'f', type: 'individual' }, name: 'same' }
  const changed = changedCases([one('same', 'f'), one('changed', 'f'), one('removed', 'f')], ofPeople([turned, one('changed', 'm'), one('added', 'f')]))
  assert.deepEqual(changed.map(({ name, before, after }) => [name, before !== undefined, after !== undefined]), [
    ['changed', true, true],
    ['removed', true, false],
    ['added', false, true],
  ])
})

test('a draft with the most versions is not closed', () => {
  const refused = (code: string) => new Refusal(409, 'refused', [], undefined, code)
  assert.ok(isClosed(refused('conflict')))
  assert.ok(!isClosed(refused('limit_reached')))
})

test('a draft is deleted at the version that was listed', async () => {
  const sent: unknown[] = []
  globalThis.fetch = (url, init) => {
    sent.push(init?.method, String(url), new Headers(init?.headers).get('If-Match'))
    return Promise.resolve(new Response(null, { status: 204 }))
  }
  await deleteDraft(new Api(new URL('http://server/api/v2/')), draft({ version: 3 }))
  assert.deepEqual(sent, ['DELETE', 'http://server/api/v2/RuleDraft/x', '"3"'])
})
