// The view of one case: explains the outcome of the rule for one subject, and the changes that would affect it.

import { field, fill, h } from '../dom'
import { t } from '../i18n'
import { Running } from '../rule/running'
import type { Outcome } from '../rule/preview'
import type { View } from '../shell'
import { state } from '../state'
import { type Change, type Explanation, changes } from './changes'
import { tree } from './tree'
import { shown } from './values'

interface Result {
  subject: string
  outcome?: Outcome
  missing?: string[]
  errors?: { code: string; line: number; column: number }[]
  explanation?: Explanation
  error?: { status: number; detail: string }
}

export const oneCase: View = ({ api, say }) => {
  const result = h('div', { class: 'result' })
  const reference = h('input', {
    value: state.case,
    spellcheck: 'false',
    autocapitalize: 'off',
    on: {
      input: () => {
        state.case = reference.value
        running.enable(isReady())
      },
      keydown: (event) => {
        if (event.key === 'Enter') running.dom.querySelector('button')?.click()
      },
    },
  })
  const isReady = () => state.a.trim() !== '' && reference.value.trim() !== ''
  const running = new Running(t.case.run, async (signal) => {
    const body: Record<string, unknown> = { expression: state.a, subject: state.subject, subjects: [reference.value.trim()], explain: true }
    if (state.asOf) body['as_of'] = state.asOf
    const answer = await api.post<{ results: Result[] }>('Eligibility/$evaluate', body, signal)
    const evaluated = answer.results[0]
    if (!evaluated) return
    if (evaluated.error) throw new Error(evaluated.error.detail)
    fill(result, ...show(evaluated))
    if (evaluated.outcome) say(t.answer[evaluated.outcome])
  })
  running.enable(isReady())
  const dom = h(
    'section',
    { class: 'card', 'aria-labelledby': 'case' },
    h('h1', { id: 'case' }, t.case.heading),
    h('p', {}, t.case.lead),
    state.a.trim() ? h('pre', { class: 'rule', tabindex: '0', 'aria-label': t.rule.heading }, state.a) : h('p', { class: 'notice' }, t.case.noRule),
    field(t.case.reference, reference, t.case.referenceHint),
    running.dom,
    result,
  )
  if (isReady()) running.dom.querySelector('button')?.click()
  return { dom, close: () => running.cancel() }
}

function show(evaluated: Result): (HTMLElement | false | undefined)[] {
  const { outcome, explanation } = evaluated
  return [
    outcome && h('p', { class: 'answer' }, h('span', { class: `badge ${outcome}` }, t.answer[outcome]), ' ', h('code', {}, evaluated.subject)),
    evaluated.missing !== undefined && evaluated.missing.length > 0 && h('p', {}, `${t.case.missing}: `, evaluated.missing.map((fact) => h('code', {}, fact))),
    ...(evaluated.errors ?? []).map(({ code, line, column }) => h('p', { class: 'problem' }, t.case.failed(code, line, column))),
    explanation &&
      h(
        'section',
        { 'aria-labelledby': 'changes' },
        h('h2', { id: 'changes' }, t.case.changes),
        outcome === 'eligible' ? h('p', {}, t.case.noChanges) : whatWould(explanation),
      ),
    explanation && tree(explanation),
  ]
}

function whatWould(explanation: Explanation): HTMLElement {
  const change = changes(explanation, true)
  if (!change) return h('p', {}, t.case.noneFound)
  return h('div', {}, h('p', { class: 'hint' }, t.case.changesLead), h('ul', { class: 'changes' }, line(change)))
}

function line(change: Change): HTMLElement {
  if (change.kind === 'record') return h('li', {}, t.case.record(change.fact))
  if (change.kind !== 'part') {
    const head = change.kind === 'all' ? t.case.allOf : t.case.oneOf
    return h('li', {}, h('span', { class: 'joined' }, `${head}:`), h('ul', {}, change.changes.map(line)))
  }
  const seen = Object.entries(change.seen)
  return h(
    'li',
    {},
    change.item !== undefined && h('span', { class: 'item' }, t.case.item(change.item)),
    h('code', {}, change.text),
    ` ${t.case.mustBe(change.wanted ? t.case.true : t.case.false)}`,
    seen.length > 0 &&
      h('span', { class: 'hint' }, ` (${seen.map(([fact, value]) => `${fact} ${t.case.isNow(shown(value))}`).join('; ')})`),
  )
}
