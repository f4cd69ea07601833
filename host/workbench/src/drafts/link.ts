// A link that contains a rule, its subject kind, its day and its filters in the fragment, which browsers do not send to
// servers. It contains no data of the register.

import type { Subject } from '../editor/schema'

export interface Linked {
  expression: string
  subject: Subject
  asOf: string
  filter: string
}

export function linkOf(page: string, { expression, subject, asOf, filter }: Linked): string {
  const content = new URLSearchParams({ rule: expression, subject })
  if (asOf) content.set('as_of', asOf)
  if (filter.trim()) content.set('filter', filter)
  return `${page.split('#')[0]}#rule?${content}`
}

/** The content of a fragment such as `#rule?rule=…`; undefined if it has none. */
export function linked(fragment: string): Linked | undefined {
  const at = fragment.indexOf('?')
  if (at < 0) return undefined
  const content = new URLSearchParams(fragment.slice(at + 1))
  const expression = content.get('rule')
  if (expression === null) return undefined
  const asOf = content.get('as_of') ?? ''
  return {
    expression,
    subject: content.get('subject') === 'group' ? 'group' : 'individual',
    asOf: /^\d{4}-\d\d-\d\d$/.test(asOf) ? asOf : '',
    filter: content.get('filter') ?? '',
  }
}
