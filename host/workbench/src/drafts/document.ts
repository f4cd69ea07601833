// The rule that is being edited with everything that belongs to it: its name, comment and cases, and the draft or program
// that it comes from.

import type { Case } from '../cases/rule-file'
import type { Subject } from '../editor/schema'

/** A case of the page. Facts of a person are not written to the storage of the browser. */
export interface OwnCase extends Case {
  isOfPerson?: boolean
}

export interface RuleDocument {
  title: string
  about: string
  needs: string
  cases: OwnCase[]
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
  return { title: '', about: '', needs: '', cases: [], casesAsOf: '', program: '', engine: '', draft: undefined }
}

/** Without the cases that contain facts of people in the register. */
export function withoutPeople(document: RuleDocument): RuleDocument {
  return { ...document, cases: document.cases.filter(({ isOfPerson }) => !isOfPerson) }
}

export function withoutMark({ isOfPerson: _, ...one }: OwnCase): Case {
  return one
}
