// The current rule as a rule file, and rule files as the current rule.

import { type RuleFile, writeRuleFile } from '../cases/rule-file'
import { state } from '../state'
import { emptyDocument, withoutMark } from './document'
import { openRule } from './open'

/** Opens an example, or a file whose cases are marked as those of people. */
export function openFile(file: RuleFile): void {
  const { title, about, needs, cases, asOf, expression, subject } = file
  openRule({ expression, subject, document: { ...emptyDocument(), title, about, needs, cases, casesAsOf: asOf } })
}

/** The current rule as the text of a rule file. */
export function fileText(today: string): string {
  const { document, a, subject } = state
  const cases = document.cases.map(withoutMark)
  const asOf = document.casesAsOf || today
  return writeRuleFile({ title: document.title, about: document.about, needs: document.needs, subject, asOf, expression: a, cases })
}

/** A name for the file of a rule. */
export function fileName(title: string): string {
  const name = title.toLowerCase().normalize('NFKD').replaceAll(/\p{M}/gu, '').replaceAll(/[^\p{L}\p{N}]+/gu, '-').replaceAll(/^-|-$/g, '')
  return `${name.slice(0, 60) || 'rule'}.toml`
}
