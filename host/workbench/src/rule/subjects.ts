// A list of subjects with their outcomes. Names appear when they have been read.

import { fill, h } from '../dom'
import { t } from '../i18n'
import type { Context } from '../shell'
import { state } from '../state'
import { described, readPeople } from './people'
import type { Decided, Question } from './preview'

export interface Listed {
  context: Context
  /** The request that decided them: a case is explained by the same rule, on the same day. */
  question: Question
  asOf: string
  onOpen?: () => void
}

/** The items of some subjects. */
export function items(decided: Decided[], listed: Listed, signal: AbortSignal): HTMLElement[] {
  const { context, question, asOf } = listed
  const rows = decided.map((one) => ({ one, row: h('li', {}) }))
  const show = () => rows.forEach(({ one, row }) => fill(row, ...content(one)))
  const content = ({ subject, outcome, missing }: Decided) => {
    const { name, more } = described(context.api, subject, asOf)
    const open = () => {
      state.case = subject
      state.caseQuestion = question
      listed.onOpen?.()
      context.go('case')
    }
    return [
      h('button', { type: 'button', class: 'link', title: subject, on: { click: open } }, h('bdi', {}, name)),
      more,
      h('span', { class: `badge ${outcome}` }, t.answer[outcome]),
      missing.length > 0 && h('code', { class: 'id' }, missing.join(', ')),
    ]
  }
  show()
  const focused = () => rows.findIndex(({ row }) => row.contains(document.activeElement))
  void readPeople(context.api, decided.map(({ subject }) => subject), signal).then(
    () => {
      const at = focused()
      show()
      if (at >= 0) rows[at]?.row.querySelector('button')?.focus()
    },
    // Without names the identifiers stay.
    () => {},
  )
  return rows.map(({ row }) => row)
}
