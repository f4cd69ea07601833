// Opens a rule in place of the current one, which can be restored.

import { state } from '../state'
import { type Opened, emptyDocument, withoutMark } from './document'

function current(): Opened {
  const { document, a, subject, asOf, filter } = state
  return { document, expression: a, subject, asOf, filter }
}

export function openRule(given: Partial<Opened> & Pick<Opened, 'expression'>): void {
  const before = current()
  const opened = { ...before, document: emptyDocument(), ...given }
  // Filters of people are not those of groups.
  if (given.filter === undefined && opened.subject !== before.subject) opened.filter = ''
  const { document, expression, subject, asOf, filter } = opened
  Object.assign(state, { document, a: expression, subject, asOf, filter, caseQuestion: undefined })
  if (!isEmpty(before) && contentOf(before) !== contentOf(opened)) state.replaced = before
  state.save()
}

/** Restores the rule that was replaced, which the current one replaces. */
export function restoreRule(): void {
  const { replaced } = state
  state.replaced = undefined
  if (replaced) openRule(replaced)
}

function isEmpty({ document, expression }: Opened): boolean {
  return expression.trim() === '' && JSON.stringify(document) === JSON.stringify(emptyDocument())
}

/** Everything that would be lost, as text. */
function contentOf({ document, ...rule }: Opened): string {
  const cases = document.cases.map(withoutMark)
  return JSON.stringify([rule.expression, rule.subject, rule.asOf, rule.filter, { ...document, cases }])
}
