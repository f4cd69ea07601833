// Adds the condition that a record has a code to a rule.

import { operator } from '../case/changes'
import { written } from '../codes'
import type { Field, Schema, Subject } from '../editor/schema'

/** The condition that the subject has a code, by the first field that has codes of its vocabulary. */
export function conditionOf(schema: Schema, subject: Subject, code: { uri: string; namespace: string }): string | undefined {
  const fields = subject === 'group' ? schema.group : schema.person
  return inFields([...fields.values()], 'me', code)
}

function inFields(fields: Field[], before: string, code: { uri: string; namespace: string }): string | undefined {
  const found = fields.find(({ vocabularies }) => vocabularies.includes(code.namespace))
  if (found) {
    const path = `${before}.${found.name}`
    return found.type === 'list' ? `${written(code.uri)} in ${path}` : `${path} == ${written(code.uri)}`
  }
  for (const { name, type, fields: below } of fields) {
    const path = `${before}.${name}`
    const inside = inFields([...below.values()], type === 'list' ? 'item' : path, code)
    if (inside) return type === 'list' ? `${path}.exists(item, ${inside})` : inside
  }
  return undefined
}

/** The rule with one more condition, which must be true too. */
export function withCondition(rule: string, condition: string): string {
  if (!rule.trim()) return condition
  const isAnd = operator(rule) === 'and' || !/\|\||\?|\bor\b/.test(rule)
  // The next line: a comment at the end of the rule ends there.
  return isAnd ? `${rule.trimEnd()}\n&& ${condition}` : `(${rule.trimEnd()}\n)\n&& ${condition}`
}
