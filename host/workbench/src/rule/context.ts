// The line that says of what a result is the result: its day, its population with the filters, and its rule.

import { h } from '../dom'
import { day, t } from '../i18n'
import type { Question } from './preview'

export function contextLine(question: Question, asOf: string, total: number): HTMLElement {
  const isPeople = question.subject === 'individual'
  const filters = question.filter.split('\n').map((line) => line.trim()).filter(Boolean)
  const population = filters.length === 0 ? t.reach.everyone(isPeople) : t.reach.filtered(isPeople, filters.join(', '))
  return h('p', { class: 'context' }, [t.reach.on(day(asOf)), population, t.reach.evaluated(total)].join(' · '))
}
