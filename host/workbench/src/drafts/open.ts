// Opens a rule in place of the current one, which can be restored.

import { state } from '../state'
import { type Opened, emptyDocument } from './document'

function current(): Opened {
  const { document, a, subject, asOf, filter } = state
  return { document, expression: a, subject, asOf, filter }
}

export function openRule(given: Partial<Opened> & Pick<Opened, 'expression'>): void {
  const before = current()
  const { document, expression, subject, asOf, filter } = { ...before, document: emptyDocument(), ...given }
  // Filters of people are not those of groups.
  const kept = given.filter === undefined && subject !== before.subject ? '' : filter
  Object.assign(state, { document, a: expression, subject, asOf, filter: kept, caseQuestion: undefined })
  state.replaced = before.expression.trim() && before.expression !== expression ? before : undefined
  state.save()
}

/** Restores the rule that was replaced. */
export function restoreRule(): void {
  const { replaced } = state
  if (replaced) openRule(replaced)
  state.replaced = undefined
}
