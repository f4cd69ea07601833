// What the views share: the two rules and about whom they are asked. Texts outlive a reload of the page, in this tab alone; what the
// register answered does not.

import type { Subject } from './editor/schema'
import type { Previewed, Question } from './rule/preview'

const KEY = 'daftar-workbench'
/** What is kept, by its name. */
const KEPT = ['subject', 'a', 'b', 'filter', 'asOf'] as const

class State {
  subject: Subject = 'individual'
  a = ''
  b = ''
  filter = ''
  asOf = ''
  /** The last preview, with the question that it answers. */
  reach: { question: Question; result: Previewed } | undefined
  /** The subject of the view of one case. */
  case = ''

  constructor() {
    try {
      const kept = JSON.parse(sessionStorage.getItem(KEY) ?? '{}') as Record<string, unknown>
      for (const name of KEPT) if (typeof kept[name] === 'string') Object.assign(this, { [name]: kept[name] })
      if (this.subject !== 'group') this.subject = 'individual'
    } catch {
      // What cannot be read is as good as nothing.
    }
  }

  save(): void {
    try {
      sessionStorage.setItem(KEY, JSON.stringify(Object.fromEntries(KEPT.map((name) => [name, this[name]]))))
    } catch {
      // A browser that keeps nothing is no reason to stop.
    }
  }

  /** What the answers of the register are about; they go when somebody else signs in. */
  forget(): void {
    this.reach = undefined
    this.case = ''
  }

  /** What a preview of rule A asks. */
  get question(): Question {
    return { expression: this.a, subject: this.subject, filter: this.filter, asOf: this.asOf }
  }

  /** Whether the last preview answered another question than the one that would be asked now. */
  get isStale(): boolean {
    return this.reach !== undefined && JSON.stringify(this.reach.question) !== JSON.stringify(this.question)
  }
}

export const state = new State()
