// A record that is not in the register beside its result, which follows each change of the record.

import { isAbort, sentence } from '../api'
import { withNames } from '../case/names'
import { tree } from '../case/tree'
import { factLabel } from '../case/values'
import { fill, h, prose } from '../dom'
import { t } from '../i18n'
import type { Outcome } from '../rule/preview'
import type { Context } from '../shell'
import { type Evaluation, type Result, evaluate } from './evaluate'
import type { Facts } from './facts'
import { recordForm } from './form'
import type { Body } from './rule-file'

/** The pause after the last change, in milliseconds. */
const PAUSE_MS = 500

export interface Scenario {
  context: Context
  evaluation: Evaluation
  facts: Facts
  record: Body
  /** The members by name and role. */
  names: string[]
  /** The outcome of the stored record from which this one was made. */
  before?: Outcome
  /** Called with each result, and without one from a change until its result. */
  onResult?: (result: Result) => void
}

export interface ShownScenario {
  dom: HTMLElement
  close: () => void
}

export function scenario({ context, evaluation, facts, record, names, before, onResult }: Scenario): ShownScenario {
  const { api, say } = context
  const own = [...names]
  const result = h('div', { class: 'scenario-result', 'aria-live': 'polite' })
  let timer: ReturnType<typeof setTimeout> | undefined
  let asking: AbortController | undefined
  const ask = async () => {
    const { signal } = (asking = new AbortController())
    try {
      const { results } = await evaluate(api, { ...evaluation, explain: true }, [record], signal)
      const [found] = results
      if (!found) return
      if (found.explanation) await withNames(api, found.explanation, signal)
      signal.throwIfAborted()
      fill(result, ...shown(found, own, before))
      if (found.outcome) say(t.answer[found.outcome])
      onResult?.(found)
    } catch (error) {
      if (signal.aborted || isAbort(error)) return
      fill(result, h('p', { class: 'problem' }, prose(sentence(error))))
    }
    result.classList.remove('stale')
  }
  const changed = () => {
    clearTimeout(timer)
    // What was requested is a result of earlier facts.
    asking?.abort()
    result.classList.add('stale')
    onResult?.({})
    timer = setTimeout(() => void ask(), PAUSE_MS)
  }
  const form = recordForm({ api, subject: evaluation.subject, facts, record, names: own, onChange: changed })
  void ask()
  return {
    dom: h('div', { class: 'scenario' }, form, result),
    close: () => {
      clearTimeout(timer)
      asking?.abort()
    },
  }
}

function shown({ outcome, missing = [], errors = [], explanation, error }: Result, names: string[], before: Outcome | undefined): (HTMLElement | false | undefined)[] {
  const badge = (one: Outcome) => h('span', { class: `badge ${one}` }, t.answer[one])
  return [
    error && h('p', { class: 'problem' }, error.detail),
    outcome &&
      h('p', { class: 'answer' }, before && [t.keep.whatIf.stored, ' ', badge(before), ' ', t.keep.whatIf.now, ' '], badge(outcome)),
    missing.length > 0 && h('p', {}, `${t.case.missing}: `, missing.map((fact, at) => [at > 0 && ' · ', factLabel(fact)])),
    ...errors.map(({ code, line, column }) => h('p', { class: 'problem' }, t.case.failed(code, line, column))),
    explanation && tree(explanation, names, t.keep.whatIf.tree),
  ]
}
