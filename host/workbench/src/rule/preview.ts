// A preview: a rule over all subjects that match the filters, streamed line by line.

import { type Api, Interrupted, Refusal } from '../api'
import type { Subject } from '../editor/schema'
import { t } from '../i18n'
import type { Decision } from './provenance'
import { type Problem, problemText } from '../server/translate'

export interface Counts {
  total: number
  eligible: number
  not_eligible: number
  undetermined: number
  errors: number
}

export type Outcome = 'eligible' | 'not_eligible' | 'undetermined'
export const OUTCOMES: Outcome[] = ['eligible', 'not_eligible', 'undetermined']

export interface Decided {
  subject: string
  outcome: Outcome
  missing: string[]
  /** The outcome by the second rule, if two are compared. */
  compared?: Outcome
}

/** The number of subjects with an outcome by the first rule and one by the second. */
export interface Cell {
  a: Outcome
  b: Outcome
  count: number
}

export interface Comparison {
  cells: Cell[]
  by_gender?: { code: string | null; display: string | null; cells: Cell[] }[]
  by_age_band?: { from: number | null; to: number | null; cells: Cell[] }[]
  by_region?: { region: string | null; cells: Cell[] }[]
}

export interface Previewed extends Counts {
  by_gender?: (Counts & { code: string | null; display: string | null })[]
  by_age_band?: (Counts & { from: number | null; to: number | null })[]
  by_region?: (Counts & { region: string | null })[]
  missing: { field: string; count: number }[]
  sample: Decided[]
  withheld: string[]
  decision: Decision
  /** If two rules are compared. */
  comparison?: Comparison
}

export interface Question {
  expression: string
  /** A second rule, evaluated for the same subjects. */
  compare?: string
  subject: Subject
  filter: string
  asOf: string
  /** The name of the eligibility engine; the active one by default. */
  engine?: string
}

/** Whether two requests decide a subject by the same rule on the same day. One without a day is of today. */
export function isSameDecision(one: Question, other: Question, today: string): boolean {
  const own = ({ expression, subject, engine = '', asOf }: Question) => JSON.stringify([expression, subject, engine, asOf || today])
  return own(one) === own(other)
}

interface Line {
  progress?: { done: number; total: number }
  error?: Problem & { status: number }
  subject?: string
  total?: number
}

export interface Watching {
  signal: AbortSignal
  sample?: number
  onProgress: (done: number, total: number) => void
  /** Called when a response was interrupted and the request is sent again. */
  onRestart?: () => void
  /** Called for each subject, if a list is requested. */
  onSubject?: (decided: Decided) => void
}

/** The number of requests of a preview whose response is interrupted each time. */
const ATTEMPTS_MAX = 3

/** Parses filters with one `name=value` per line; a repeated name has several values. */
export function readFilter(text: string): Record<string, string | string[]> {
  const filter: Record<string, string | string[]> = {}
  for (const line of text.split('\n').map((line) => line.trim()).filter(Boolean)) {
    const at = line.indexOf('=')
    if (at < 1) throw new Error(t.reach.badFilter(line))
    const [name, value] = [line.slice(0, at).trim(), line.slice(at + 1).trim()]
    const known = filter[name]
    filter[name] = known === undefined ? value : [known, value].flat()
  }
  return filter
}

export async function preview(api: Api, question: Question, watching: Watching): Promise<Previewed> {
  const { expression, subject, asOf, engine } = question
  const body: Record<string, unknown> = { expression, subject, filter: readFilter(question.filter) }
  if (asOf) body['as_of'] = asOf
  if (question.compare !== undefined) body['compare'] = question.compare
  if (engine) body['engine'] = engine
  if (watching.sample) body['sample'] = watching.sample
  if (watching.onSubject) body['subjects'] = true
  for (let attempt = 1; ; attempt += 1) {
    let result: Previewed | undefined
    try {
      await api.lines('Eligibility/$preview', body, watching.signal, (line: Line) => {
        if (line.progress) watching.onProgress(line.progress.done, line.progress.total)
        else if (line.error) throw new Refusal(line.error.status, problemText(line.error, line.error.status))
        else if (line.subject !== undefined) watching.onSubject?.(line as unknown as Decided)
        else if (line.total !== undefined) result = line as unknown as Previewed
      })
      if (result) return result
      throw new Interrupted()
    } catch (error) {
      if (!(error instanceof Interrupted) || attempt === ATTEMPTS_MAX) throw error
      watching.onRestart?.()
    }
  }
}
