// The view of one case: finds a person or group, explains the outcome of the rule for it, and the changes that would
// affect it.

import { combobox } from '../combobox'
import { type Child, fill, h } from '../dom'
import { day, t } from '../i18n'
import { type Stored, memberNames } from '../cases/stored'
import { type Kind, about, fullName, mayRead, parts, path } from '../rule/people'
import { type Outcome, type Question, isSameDecision } from '../rule/preview'
import { Running } from '../rule/running'
import type { View } from '../shell'
import { problemText } from '../server/translate'
import { state } from '../state'
import { type Change, type Explanation, changes } from './changes'
import { type FoundSubject, findSubjects } from './find'
import { withNames } from './names'
import { tree } from './tree'
import { factLabel, itemName, named, shown, wordsOf } from './values'
import { WhatIf } from './what-if'

interface Result {
  subject: string
  outcome?: Outcome
  missing?: string[]
  errors?: { code: string; line: number; column: number }[]
  explanation?: Explanation
  error?: { status: number; detail: string }
}

interface Evaluated {
  results: Result[]
  decision?: { as_of?: string }
}

/** Today, for the age of a person where the server reports no day. */
const today = () => new Date().toISOString().slice(0, 10)

export const oneCase: View = (context) => {
  const { api, say } = context
  const result = h('div', { class: 'result' })
  const rule = h('div', {})
  const kind = (): Kind => (state.subject === 'group' ? 'Group' : 'Individual')
  /** A case that was opened from a preview is explained by the rule of the preview. */
  const question = (): Question => state.caseQuestion ?? state.question
  const isReady = () => question().expression.trim() !== '' && parts(state.case) !== undefined

  const running = new Running(t.case.run, async (signal) => {
    const { expression, subject, asOf, engine } = question()
    const body: Record<string, unknown> = { expression, subject, subjects: [state.case], explain: true }
    if (asOf) body['as_of'] = asOf
    if (engine) body['engine'] = engine
    const answer = await api.post<Evaluated>('Eligibility/$evaluate', body, signal)
    const evaluated = answer.results[0]
    if (!evaluated) return
    if (evaluated.error) throw new Error(problemText(evaluated.error, evaluated.error.status))
    if (evaluated.explanation) await withNames(api, evaluated.explanation, signal)
    signal.throwIfAborted()
    const on = answer.decision?.as_of ?? (asOf || today())
    const head = h('div', { class: 'person' })
    const part = h('div', {})
    fill(result, head, h('p', { class: 'context' }, t.reach.on(day(on))), part)
    fill(part, ...show(evaluated, []))
    whatIf.show(evaluated.outcome && { reference: evaluated.subject, outcome: evaluated.outcome })
    if (evaluated.outcome) say(t.answer[evaluated.outcome])
    const target = parts(evaluated.subject)
    // The record as it is now, as the outcome is: nothing is taken from the cache.
    const record = target && mayRead(api, target.kind) ? await api.read<Stored>(path(target), signal).catch(() => undefined) : undefined
    fill(head, ...card(evaluated.subject, record, on))
    if (!target || !record || !/\bmembers\b/.test(expression)) return
    // Without names the members have numbers.
    const names = await memberNames(api, target.kind, record, signal).catch(() => [])
    if (names.length > 0) fill(part, ...show(evaluated, names))
  })

  const whatIf = new WhatIf(context, question)

  function showRule(): void {
    const { expression } = question()
    const isOld = !isSameDecision(question(), state.question, today())
    const isOfB = expression === state.b && expression !== state.a
    const current = h('button', { type: 'button', on: { click: () => explain() } }, t.case.currentRule)
    fill(
      rule,
      expression.trim()
        ? h('pre', { class: 'rule', tabindex: '0', 'aria-label': t.rule.heading }, expression)
        : h('p', { class: 'notice' }, t.case.noRule),
      isOld && h('div', { class: 'notice', role: 'status' }, h('p', {}, isOfB ? t.case.ruleB : t.case.oldRule), current),
    )
    running.enable(isReady())
  }

  /** Explains the case by the current rule; the earlier explanation may be of another case or by another rule. */
  function explain(): void {
    state.caseQuestion = undefined
    whatIf.clear()
    fill(result)
    showRule()
    running.restart()
  }

  const finder = combobox<FoundSubject>({
    label: t.case.reference,
    hint: t.case.referenceHint,
    value: state.case,
    search: (text, signal) => findSubjects(api, kind(), text.trim(), signal),
    option: ({ reference, record }) => [
      h('span', { class: 'name' }, h('bdi', {}, (record && fullName(record)) || reference), ' ', h('small', {}, record ? about(record, today()) : '')),
      h('code', {}, parts(reference)?.value ?? reference),
    ],
    status: (found) => (found.length === 0 ? t.case.notFound : t.case.found(found.length)),
    onChoose: ({ reference }) => {
      state.case = reference
      explain()
      return reference
    },
  })
  showRule()
  const dom = h(
    'section',
    { class: 'card', 'aria-labelledby': 'case' },
    h('h1', { id: 'case' }, t.case.heading),
    h('p', {}, t.case.lead),
    rule,
    finder,
    running.dom,
    result,
    whatIf.dom,
  )
  if (isReady()) running.run()
  return {
    dom,
    run: () => running.run(),
    close: () => {
      running.cancel()
      whatIf.close()
    },
  }
}

/** Name, age, place and household, of a record that the client may read. */
function card(reference: string, record: Stored | undefined, on: string): HTMLElement[] {
  const value = parts(reference)?.value ?? reference
  if (!record) return [h('p', {}, h('strong', {}, h('bdi', {}, value)), ' ', h('code', { class: 'id' }, reference))]
  const groups = (record.group_membership ?? []).filter(({ inactive }) => !inactive)
  const members = (record.member ?? []).filter(({ inactive }) => !inactive)
  const of = (one: { display?: string; reference?: string } | undefined, role: string | undefined) =>
    h('li', {}, h('bdi', {}, one?.display ?? one?.reference ?? ''), role ? ` (${role})` : '')
  const related = [...groups.map(({ group, role }) => of(group, role?.display)), ...members.map(({ entity, role }) => of(entity, role?.display))]
  return [
    h('p', {}, h('strong', {}, h('bdi', {}, fullName(record) || value)), ' ', h('span', { class: 'hint' }, about(record, on)), ' ', h('code', { class: 'id', title: reference }, value)),
    ...(related.length > 0 ? [h('ul', { class: 'related' }, h('li', {}, `${t.case.household}:`), related)] : []),
  ]
}

/** `names` are those of the members, if they are known. */
function show(evaluated: Result, names: string[]): (HTMLElement | false | undefined)[] {
  const { outcome, explanation } = evaluated
  return [
    outcome && h('p', { class: 'answer' }, h('span', { class: `badge ${outcome}` }, t.answer[outcome])),
    evaluated.missing !== undefined && evaluated.missing.length > 0 && h('p', {}, `${t.case.missing}: `, evaluated.missing.map((fact, at) => [at > 0 && ' · ', factLabel(fact)])),
    ...(evaluated.errors ?? []).map(({ code, line, column }) => h('p', { class: 'problem' }, t.case.failed(code, line, column))),
    explanation &&
      h(
        'section',
        { 'aria-labelledby': 'changes' },
        h('h2', { id: 'changes' }, t.case.changes),
        outcome === 'eligible' ? h('p', {}, t.case.noChanges) : whatWould(explanation, names),
      ),
    explanation && tree(explanation, names),
  ]
}

function whatWould(explanation: Explanation, names: string[]): HTMLElement {
  const change = changes(explanation, true)
  if (!change) return h('p', {}, t.case.noneFound)
  const lead = change.kind === 'fixed' ? t.keep.whatIf.fixed : t.case.changesLead
  return h('div', {}, h('p', { class: 'hint' }, lead), h('ul', { class: 'changes' }, line(change, names)))
}

/** The advice to record a fact, in words and as the rule writes it. */
function recordLine(fact: string, names: string[]): Child {
  const words = wordsOf(fact)
  return h('li', {}, t.case.record(words || named(fact, names)), words && [' ', h('code', { class: 'id' }, named(fact, names))])
}

function line(change: Change, names: string[]): Child {
  const facts = (seen: Record<string, unknown>) =>
    Object.keys(seen).length > 0 &&
    h('span', { class: 'hint' }, ` (${Object.entries(seen).map(([fact, value]) => `${named(fact, names)} ${t.case.isNow(shown(value))}`).join('; ')})`)
  const member = (item: number | undefined, seen: Record<string, unknown>) => {
    if (item === undefined) return false
    const index = Object.keys(seen).map((fact) => /^members\[(\d+)\]/.exec(fact)?.[1]).find((found) => found !== undefined)
    return h('span', { class: 'item' }, itemName(item, index === undefined ? undefined : names[Number(index)]))
  }
  if (change.kind === 'record') return recordLine(change.fact, names)
  if (change.kind === 'fixed') return change.parts.map(({ text, item, seen }) => h('li', {}, member(item, seen), h('code', {}, text), facts(seen)))
  if (change.kind !== 'part') {
    const head = change.kind === 'all' ? t.case.allOf : t.case.oneOf
    return h('li', {}, h('span', { class: 'joined' }, `${head}:`), h('ul', {}, change.changes.map((one) => line(one, names))))
  }
  return h(
    'li',
    {},
    member(change.item, change.seen),
    h('code', {}, change.text),
    ` ${t.case.mustBe(change.wanted ? t.case.true : t.case.false)}`,
    facts(change.seen),
  )
}
