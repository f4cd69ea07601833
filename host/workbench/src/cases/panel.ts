// The test cases beside a rule: evaluated after each change of the rule, with the differences from their expected results.

import { isAbort, sentence } from '../api'
import { counted } from '../case/values'
import { openDialog } from '../dialog'
import { field, fill, h, prose } from '../dom'
import { type OwnCase, withoutMark } from '../drafts/document'
import { t } from '../i18n'
import { OUTCOMES, type Outcome } from '../rule/preview'
import type { Context } from '../shell'
import { state } from '../state'
import { type Evaluation, RECORDS_MAX, type Result, caseOf, evaluate, expectedOf, isAsExpected } from './evaluate'
import { factsOfRule } from './facts'
import { scenario } from './scenario'

/** The requests that are left to the user when cases run by themselves. */
const RESERVE = 8

export class CasesPanel {
  readonly dom: HTMLDetailsElement
  #summary = h('summary', {})
  #body = h('div', {})
  // The controls stay when a result arrives, with the focus.
  #add = h('button', { type: 'button', on: { click: () => void this.#open() } }, t.keep.cases.add)
  #run = h('button', { type: 'button', on: { click: () => void this.run() } }, t.keep.cases.run)
  #asOf = h('input', { type: 'date', on: { change: () => this.#edit(() => (state.document.casesAsOf = this.#asOf.value)) } })
  #day = field(t.keep.cases.asOf, this.#asOf, t.rule.asOfHint)
  #results: Result[] = []
  #problem = ''
  #ran = ''
  #isValid = false
  #asking: AbortController | undefined

  constructor(private readonly context: Context) {
    this.dom = h('details', { class: 'cases', on: { toggle: () => this.#show() } }, this.#summary, this.#body, h('div', { class: 'row' }, this.#add, this.#run, this.#day))
    this.#show()
  }

  /** Called when the rule was validated: an invalid one is not evaluated. */
  validated(isValid: boolean): void {
    this.#isValid = isValid
    void this.run(true)
  }

  /** Called when the rule or its cases have changed: results of the previous one do not count. */
  changed(): void {
    this.#asking?.abort()
    this.#results = []
    this.#problem = ''
    this.#ran = ''
    this.#show()
  }

  /** Called when the day of the cases may have changed: those that ran on another day are evaluated again. */
  changedDay(): void {
    this.#show()
    void this.run(true)
  }

  close(): void {
    this.#asking?.abort()
  }

  get #evaluation(): Evaluation {
    return { expression: state.a, subject: state.subject, asOf: state.document.casesAsOf, engine: state.engine }
  }

  /** Evaluates all cases; by itself only while enough requests are left. */
  async run(isByItself = false): Promise<void> {
    const { api } = this.context
    const cases = state.document.cases.map(withoutMark)
    const asked = JSON.stringify([this.#evaluation, cases])
    if (!this.#isValid || !this.dom.isConnected || cases.length === 0 || (isByItself && asked === this.#ran)) return this.#show()
    if (isByItself && api.budget && api.budget.remaining < RESERVE) return this.#fail(t.keep.cases.budget(api.budget.remaining))
    this.#asking?.abort()
    const asking = (this.#asking = new AbortController())
    try {
      const { results } = await evaluate(api, this.#evaluation, cases.slice(0, RECORDS_MAX).map(({ record }) => record), asking.signal)
      if (asking.signal.aborted) return
      this.#ran = asked
      this.#problem = ''
      this.#results = results
      this.#show()
      this.context.say(this.#title())
    } catch (error) {
      if (!isAbort(error)) this.#fail(sentence(error))
    }
  }

  #fail(problem: string): void {
    this.#results = []
    this.#problem = problem
    this.#show()
  }

  #title(): string {
    const { cases } = state.document
    if (cases.length === 0) return t.keep.cases.heading
    if (this.#results.length === 0) return t.keep.cases.count(cases.length)
    return t.keep.cases.passed(cases.filter((one, at) => isAsExpected(one, this.#results[at] ?? {})).length, cases.length)
  }

  #show(): void {
    const { document } = state
    const failed = document.cases.some((one, at) => this.#results[at] && !isAsExpected(one, this.#results[at]))
    const mark = this.#results.length > 0 && h('span', { class: failed ? 'bad' : 'good', 'aria-hidden': 'true' }, failed ? '✗ ' : '✓ ')
    fill(this.#summary, mark, this.#title())
    // Also while the list is closed: its controls are visible before the event of its opening.
    this.#run.hidden = this.#day.hidden = document.cases.length === 0
    this.#run.disabled = !this.#isValid
    if (this.#asOf.value !== document.casesAsOf) this.#asOf.value = document.casesAsOf
    if (!this.dom.open) return
    fill(
      this.#body,
      this.#problem && h('p', { class: 'problem', role: 'alert' }, prose(this.#problem)),
      document.needs && h('p', { class: 'notice' }, t.keep.cases.needs, ' ', prose(document.needs)),
      document.cases.some(({ isOfPerson }) => isOfPerson) && h('p', { class: 'notice' }, t.keep.cases.ofPerson),
      document.cases.length === 0 && h('p', { class: 'hint' }, t.keep.cases.none),
      h('ul', { class: 'case-list' }, document.cases.map((one, at) => this.#line(one, at))),
    )
  }

  #line(one: OwnCase, at: number): HTMLElement {
    const result = this.#results[at]
    const isGood = result && isAsExpected(one, result)
    const remove = () => {
      this.#edit(() => state.document.cases.splice(at, 1))
      this.#add.focus()
    }
    return h(
      'li',
      { class: result ? (isGood ? 'passed' : 'failed') : '' },
      result && h('span', { class: isGood ? 'good' : 'bad' }, isGood ? t.keep.cases.pass : t.keep.cases.fail),
      h('button', { type: 'button', class: 'link', title: t.keep.cases.edit, on: { click: () => void this.#open(at) } }, h('bdi', {}, one.name)),
      h('span', { class: `badge ${one.outcome}` }, t.answer[one.outcome]),
      h('button', { type: 'button', class: 'link', 'aria-label': `${t.keep.remove}: ${one.name}`, on: { click: remove } }, t.keep.remove),
      result && !isGood && differences(one, result),
    )
  }

  #edit(change: () => void): void {
    change()
    state.save()
    this.changed()
    void this.run(true)
  }

  /** Opens a case, or a new one, with the facts that the rule reads. */
  async #open(at?: number): Promise<void> {
    const { api } = this.context
    const old = at === undefined ? undefined : state.document.cases[at]
    const dialog = openDialog(old ? t.keep.cases.edit : t.keep.cases.add, h('p', { class: 'hint' }, t.loading))
    try {
      const facts = await factsOfRule(api, state.a, state.subject)
      if (!facts) return fill(dialog.body, h('p', { class: 'problem' }, t.keep.whatIf.invalid))
      const type = state.subject === 'group' ? 'group' : 'individual'
      const record = structuredClone(old?.record ?? { type, ...(facts.members ? { members: [] } : {}), ...(facts.programs ? { programs: [] } : {}) })
      const edited: OwnCase = { ...(old ?? { name: '', outcome: 'eligible' as Outcome }), record }
      const form = new CaseForm(edited, (saved) => {
        this.#edit(() => state.document.cases.splice(at ?? state.document.cases.length, 1, saved))
        dialog.close()
      })
      const shown = scenario({ context: this.context, evaluation: this.#evaluation, facts, record, names: [], onResult: (result) => form.found(result) })
      dialog.signal.addEventListener('abort', shown.close)
      fill(dialog.body, form.dom, shown.dom)
      form.dom.querySelector('input')?.focus()
    } catch (error) {
      if (!isAbort(error)) fill(dialog.body, h('p', { class: 'problem', role: 'alert' }, sentence(error)))
    }
  }
}

function differences(one: OwnCase, result: Result): HTMLElement {
  const found = expectedOf(result)
  const lacking = (missing: string[] = [], errors: string[] = []) => [...missing, ...errors].map(counted)
  const line = (label: string, outcome: Outcome, facts: string[]) =>
    h('div', {}, h('dt', {}, label), h('dd', {}, t.answer[outcome], facts.length > 0 && [' ', h('code', {}, facts.join(', '))]))
  return h(
    'dl',
    { class: 'difference-of' },
    line(t.keep.cases.expected, one.outcome, lacking(one.missing, one.errors)),
    found ? line(t.keep.cases.found, found.outcome, lacking(found.missing, found.errors)) : h('div', {}, h('dd', { class: 'problem' }, result.error?.detail ?? '')),
  )
}

/** The name and the expected result of a case. */
class CaseForm {
  readonly dom: HTMLFormElement
  #name: HTMLInputElement
  #outcome: HTMLSelectElement
  #missing: HTMLInputElement
  #take: HTMLButtonElement
  #found: Result = {}

  constructor(edited: OwnCase, onSave: (saved: OwnCase) => void) {
    this.#name = h('input', { type: 'text', required: true, maxlength: 200, value: edited.name })
    this.#outcome = h('select', { value: edited.outcome, on: { change: () => this.#shape() } }, OUTCOMES.map((one) => h('option', { value: one }, t.answer[one])))
    this.#missing = h('input', { type: 'text', spellcheck: 'false', value: [...(edited.missing ?? []), ...(edited.errors ?? [])].join(' ') })
    this.#take = h('button', { type: 'button', disabled: true, on: { click: () => this.#expect() } }, t.keep.cases.take)
    const save = (event: Event) => {
      event.preventDefault()
      const words = this.#outcome.value === 'undetermined' ? this.#missing.value.split(/[\s,]+/).filter(Boolean) : []
      const isError = (word: string) => /^[a-z_]+$/.test(word) && !['members', 'programs'].includes(word)
      const expected = { outcome: this.#outcome.value as Outcome, missing: words.filter((word) => !isError(word)), errors: words.filter(isError) }
      const { isOfPerson } = edited
      onSave({ ...caseOf(this.#name.value.trim(), edited.record, expected), ...(isOfPerson ? { isOfPerson } : {}) })
    }
    const missing = field(t.case.missing, this.#missing, t.keep.cases.missingHint)
    this.dom = h(
      'form',
      { class: 'case-form', on: { submit: save } },
      field(t.keep.name, this.#name),
      h('div', { class: 'row' }, field(t.keep.cases.expected, this.#outcome), this.#take),
      missing,
      h('button', { type: 'submit', class: 'primary' }, t.keep.cases.save),
    )
    this.#shape()
  }

  /** Called with the result of the record as it is now; an empty one until it is there. */
  found(result: Result): void {
    this.#found = result
    this.#take.disabled = result.outcome === undefined
  }

  #expect(): void {
    const expected = expectedOf(this.#found)
    if (!expected) return
    this.#outcome.value = expected.outcome
    this.#missing.value = [...expected.missing, ...expected.errors].join(' ')
    this.#shape()
  }

  /** Only an undetermined result has missing facts. */
  #shape(): void {
    const place = this.#missing.closest<HTMLElement>('.field')
    if (place) place.hidden = this.#outcome.value !== 'undetermined'
  }
}
