// The shared state of the views: the two rules and their subject kind. Texts survive a reload of the page, in this tab
// only; responses of the server do not.

import { type Opened, type RuleDocument, emptyDocument, withoutPeople } from './drafts/document'
import type { Subject } from './editor/schema'
import type { Compared } from './compare/compared'
import type { Previewed, Question } from './rule/preview'

const KEY = 'daftar-workbench'
/** The stored values, by name. */
const STORED = ['subject', 'a', 'b', 'filter', 'asOf', 'engine', 'amount', 'currency'] as const

class State {
  subject: Subject = 'individual'
  a = ''
  b = ''
  filter = ''
  asOf = ''
  /** What belongs to rule A apart from its text. */
  document: RuleDocument = emptyDocument()
  /** The rule in whose place the current one was opened. */
  replaced: Opened | undefined
  /** The eligibility engine of the rules; empty for the active one. */
  engine = ''
  /** The last preview, with its request. */
  reach: { question: Question; result: Previewed } | undefined
  /** The position of the cursor in rule A. */
  cursor: number | undefined
  /** A code that is inserted there when the view of the rule opens. */
  inserted: { uri: string; code: string } | undefined
  /** Whether the preview and the comparison are requested again when their view opens: their view closed before the result,
   * or the language has changed. */
  isReachDue = false
  isComparisonDue = false
  /** The subject of the view of one case. */
  case = ''
  /** The request of the preview from which that subject was opened; by default the current rule. */
  caseQuestion: Question | undefined
  /** The amount per head of a comparison, and its currency. */
  amount = ''
  currency = ''
  /** The last comparison, with its rules and population. */
  compared: { question: Question & { b: string }; result: Compared } | undefined

  constructor() {
    try {
      const stored = JSON.parse(sessionStorage.getItem(KEY) ?? '{}') as Record<string, unknown>
      for (const name of STORED) if (typeof stored[name] === 'string') Object.assign(this, { [name]: stored[name] })
      if (this.subject !== 'group') this.subject = 'individual'
      if (typeof stored['document'] === 'object') Object.assign(this.document, stored['document'])
    } catch {
      // Unreadable values are ignored.
    }
  }

  save(): void {
    try {
      const texts = Object.fromEntries(STORED.map((name) => [name, this[name]]))
      sessionStorage.setItem(KEY, JSON.stringify({ ...texts, document: withoutPeople(this.document) }))
    } catch {
      // Without browser storage the page still works.
    }
  }

  /** Drops results with texts of the server in another language, which are requested again. */
  renew(): void {
    this.isReachDue ||= this.reach !== undefined
    this.isComparisonDue ||= this.compared !== undefined
    this.reach = undefined
    this.compared = undefined
  }

  /** Drops the cases that may contain facts of people: at the sign-out, and before another client uses the page. */
  dropPeople(): void {
    this.document = withoutPeople(this.document)
    if (this.replaced) this.replaced = { ...this.replaced, document: withoutPeople(this.replaced.document) }
  }

  /** Drops state derived from responses, at the end of a session. */
  forget(): void {
    this.reach = undefined
    this.compared = undefined
    this.isReachDue = false
    this.isComparisonDue = false
    this.case = ''
    this.caseQuestion = undefined
  }

  /** The request of a preview of rule A. */
  get question(): Question {
    return { expression: this.a, subject: this.subject, filter: this.filter, asOf: this.asOf, engine: this.engine }
  }

  /** The request of a comparison. */
  get comparison(): Question & { b: string } {
    return { ...this.question, b: this.b }
  }

  /** Whether the last comparison had other rules or another population than the next one would have. */
  get isComparisonStale(): boolean {
    return this.compared !== undefined && JSON.stringify(this.compared.question) !== JSON.stringify(this.comparison)
  }

  /** Whether the last preview had another request than the next one would have. */
  get isStale(): boolean {
    return this.reach !== undefined && JSON.stringify(this.reach.question) !== JSON.stringify(this.question)
  }
}

export const state = new State()
