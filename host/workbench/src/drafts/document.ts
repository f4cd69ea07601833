// The rule that is being edited with everything that belongs to it: its name, comment and cases, and the draft or program
// that it comes from.

import type { Case } from '../cases/rule-file'
import type { Subject } from '../editor/schema'

/** A case of the page. */
export interface OwnCase extends Case {
  /** Whether it may contain facts of a person in the register, which are not written to the storage of the browser. */
  isOfPerson?: boolean
}

export interface RuleDocument {
  title: string
  about: string
  needs: string
  cases: OwnCase[]
  /** How many cases were dropped because they may contain facts of people. */
  dropped: number
  /** The day on which the cases are evaluated; empty: today. */
  casesAsOf: string
  /** The program whose rule it is or will be. */
  program: string
  /** The eligibility engine of the program, if it names one. */
  engine: string
  /** The saved draft, with the entity tag of the version that was opened. */
  draft: { id: string; tag: string; version: number } | undefined
}

/** A rule that can take the place of the current one. */
export interface Opened {
  document: RuleDocument
  expression: string
  subject: Subject
  asOf: string
  filter: string
}

export function emptyDocument(): RuleDocument {
  return { title: '', about: '', needs: '', cases: [], dropped: 0, casesAsOf: '', program: '', engine: '', draft: undefined }
}

/** Cases of a draft or a chosen file: neither of them records whether its facts are those of a person. */
export function ofPeople(cases: Case[]): OwnCase[] {
  return cases.map((one) => ({ ...one, isOfPerson: true }))
}

/** Without the cases that may contain facts of people in the register; they are counted. */
export function withoutPeople(document: RuleDocument): RuleDocument {
  const cases = document.cases.filter(({ isOfPerson }) => !isOfPerson)
  return { ...document, cases, dropped: document.dropped + document.cases.length - cases.length }
}

export function withoutMark({ isOfPerson: _, ...one }: OwnCase): Case {
  return one
}

/** A case in two versions of a rule; one that only one of them has is absent in the other. */
export interface CasePair {
  name: string
  before?: Case | undefined
  after?: Case | undefined
}

/** The cases in which two versions of a rule differ, paired by name. */
export function changedCases(before: OwnCase[], after: OwnCase[]): CasePair[] {
  const added = [...after]
  const paired = before.map((one): CasePair => {
    const at = added.findIndex(({ name }) => name === one.name)
    return { name: one.name, before: one, after: at < 0 ? undefined : added.splice(at, 1)[0] }
  })
  return [...paired, ...added.map((one): CasePair => ({ name: one.name, after: one }))].filter((pair) => caseText(pair.before) !== caseText(pair.after))
}

/** A case as text, with its members in the order of their names. */
export function caseText(one: OwnCase | undefined): string {
  return one ? JSON.stringify(sorted(withoutMark(one)), null, 1) : ''
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1)).map(([name, inner]) => [name, sorted(inner)]))
}
