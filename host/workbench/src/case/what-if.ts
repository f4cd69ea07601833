// Other facts than those of a case, and families that do not exist: their outcome, evaluated without a change of the
// register.

import { isAbort, sentence } from '../api'
import { evaluate, caseOf, expectedOf } from '../cases/evaluate'
import { type Facts, factsOfRule } from '../cases/facts'
import type { Body } from '../cases/rule-file'
import { type ShownScenario, scenario } from '../cases/scenario'
import { describe } from '../cases/stored'
import { field, fill, h, reveal } from '../dom'
import { t } from '../i18n'
import type { Outcome, Question } from '../rule/preview'
import type { Context } from '../shell'
import { state } from '../state'

/** A case that is shown. */
export interface ShownCase {
  reference: string
  outcome: Outcome
}

export class WhatIf {
  readonly dom = h('section', { class: 'what-if', 'aria-labelledby': 'what-if' })
  #place = h('div', {})
  #change: HTMLButtonElement
  #form: ShownScenario | undefined
  #case: ShownCase | undefined
  /** The case whose facts the form has; undefined for an invented record. */
  #formOf: string | undefined
  /** Counts the forms: one that is requested late does not replace another. */
  #forms = 0

  constructor(
    private readonly context: Context,
    private readonly question: () => Question,
  ) {
    const button = (label: string, act: () => void) => h('button', { type: 'button', on: { click: act } }, label)
    this.#change = button(t.keep.whatIf.change, () => this.#changeFacts())
    this.#change.hidden = true
    const invent = button(t.keep.whatIf.invent, () => void this.#open((facts) => Promise.resolve(invented(this.question(), facts))))
    fill(this.dom, h('h2', { id: 'what-if' }, t.keep.whatIf.heading), h('div', { class: 'row' }, this.#change, invent), this.#place)
  }

  /** Called when a case was explained. A form that is open stays, unless it has the facts of another case. */
  show(shown: ShownCase | undefined): void {
    this.#case = shown
    this.#change.hidden = shown === undefined
    if (this.#formOf !== undefined && this.#formOf !== shown?.reference) this.close()
  }

  /** Called when another case, or the same by another rule, is requested. */
  clear(): void {
    this.show(undefined)
    this.close()
  }

  close(): void {
    this.#forms += 1
    this.#form?.close()
    this.#formOf = undefined
    fill(this.#place)
  }

  #changeFacts(): void {
    const shown = this.#case
    if (shown) void this.#open((facts) => describe(this.context.api, shown.reference, facts), shown)
  }

  async #open(from: (facts: Facts) => Promise<{ record: Body; names: string[] }>, shown?: ShownCase): Promise<void> {
    const { context } = this
    const { expression, subject, asOf, engine = '' } = this.question()
    this.close()
    this.#formOf = shown?.reference
    const own = this.#forms
    const isLate = () => own !== this.#forms
    fill(this.#place, h('p', { class: 'hint', role: 'status' }, t.loading))
    try {
      if (!expression.trim()) throw new Error(t.case.noRule)
      const facts = await factsOfRule(context.api, expression, subject)
      if (!facts) throw new Error(t.keep.whatIf.invalid)
      const { record, names } = await from(facts)
      if (isLate()) return
      const evaluation = { expression, subject, asOf, engine }
      this.#form = scenario({ context, evaluation, facts, record, names, ...(shown ? { before: shown.outcome } : {}) })
      const lead = shown ? t.keep.whatIf.changeLead : t.keep.whatIf.inventLead
      fill(this.#place, h('p', { class: 'hint' }, lead), this.#form.dom, this.#keep(record, shown !== undefined))
      reveal(this.dom)
      this.#place.querySelector<HTMLElement>('input:not(:disabled), select')?.focus()
    } catch (error) {
      if (!isAbort(error) && !isLate()) fill(this.#place, h('p', { class: 'problem', role: 'alert' }, sentence(error)))
    }
  }

  /** Adds the record to the cases of the rule, which expect its present result. */
  #keep(record: Body, isOfPerson: boolean): HTMLElement {
    const { context } = this
    const name = h('input', { type: 'text', required: true, maxlength: 200 })
    const result = h('p', { role: 'status', class: 'hint' })
    const keep = async (called: string) => {
      // The form may change while the outcome is requested.
      const facts = structuredClone(record)
      const { expression, subject, asOf, engine = '' } = this.question()
      const { document } = state
      // A case without a day would expect another result on another day.
      const on = document.casesAsOf || asOf || new Date().toISOString().slice(0, 10)
      try {
        const { results } = await evaluate(context.api, { expression, subject, asOf: on, engine }, [facts])
        const expected = results[0] && expectedOf(results[0])
        if (!expected) throw new Error(results[0]?.error?.detail ?? t.keep.whatIf.invalid)
        document.casesAsOf = on
        document.cases.push({ ...caseOf(called, facts, expected), ...(isOfPerson ? { isOfPerson } : {}) })
        state.save()
        result.textContent = t.keep.whatIf.kept(called)
      } catch (error) {
        if (!isAbort(error)) result.textContent = sentence(error)
        name.value ||= called
      }
    }
    const submit = (event: Event) => {
      event.preventDefault()
      const called = name.value.trim()
      // Sent twice, the form adds one case.
      name.value = ''
      if (called) void keep(called)
    }
    return h(
      'form',
      { on: { submit } },
      h('div', { class: 'row' }, field(t.keep.whatIf.caseName, name), h('button', { type: 'submit' }, t.keep.whatIf.keep)),
      isOfPerson && h('p', { class: 'hint' }, t.keep.whatIf.facts),
      result,
    )
  }
}

/** A record without facts, whose members and programs are known to be none. */
function invented({ subject }: Question, facts: Facts): { record: Body; names: string[] } {
  const record: Body = { type: subject === 'group' ? 'group' : 'individual' }
  if (facts.members) record['members'] = [{}]
  if (facts.programs) record['programs'] = []
  return { record, names: [] }
}
