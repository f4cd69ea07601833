// Evaluates records that are not in the register, and compares results with those that cases expect.

import type { Api } from '../api'
import type { Explanation } from '../case/changes'
import type { Subject } from '../editor/schema'
import type { Outcome } from '../rule/preview'
import { type Problem, problemText } from '../server/translate'
import type { Body, Case } from './rule-file'

export interface Result {
  outcome?: Outcome
  missing?: string[]
  errors?: { code: string; line: number; column: number }[]
  explanation?: Explanation
  error?: Problem & { status: number }
}

/** The part of a result that a case expects. */
export interface Expected {
  outcome: Outcome
  missing: string[]
  errors: string[]
}

export interface Evaluation {
  expression: string
  subject: Subject
  /** Empty: today. */
  asOf: string
  /** The eligibility engine; empty or absent: the active one. */
  engine?: string
  explain?: boolean
}

/** The most records of a request. */
export const RECORDS_MAX = 1_000

export async function evaluate(api: Api, { asOf, engine, ...rule }: Evaluation, records: Body[], signal?: AbortSignal): Promise<{ results: Result[]; asOf: string }> {
  const body: Record<string, unknown> = { ...rule, subjects: records }
  if (asOf) body['as_of'] = asOf
  if (engine) body['engine'] = engine
  const answer = await api.post<{ results: Result[]; decision?: { as_of?: string } }>('Eligibility/$evaluate', body, signal)
  const results = answer.results.map((one) => (one.error ? { ...one, error: { ...one.error, detail: problemText(one.error, one.error.status) } } : one))
  return { results, asOf: answer.decision?.as_of ?? asOf }
}

/** The result as a case expects it; undefined for a record without a result. */
export function expectedOf({ outcome, missing = [], errors = [] }: Result): Expected | undefined {
  return outcome && { outcome, missing, errors: errors.map(({ code }) => code) }
}

/** Whether a result is the expected one: by the same comparison as that of `daftar eval --cases`. */
export function isAsExpected({ outcome, missing = [], errors = [] }: Case, result: Result): boolean {
  const found = expectedOf(result)
  return found !== undefined && found.outcome === outcome && isSame(found.missing, missing) && isSame(found.errors, errors)
}

function isSame(one: string[], other: string[]): boolean {
  return one.length === other.length && one.every((item, at) => item === other[at])
}

/** A case that expects a result. */
export function caseOf(name: string, record: Body, { outcome, missing, errors }: Expected): Case {
  const lists = { ...(missing.length > 0 ? { missing } : {}), ...(errors.length > 0 ? { errors } : {}) }
  return { name, record: structuredClone(record), outcome, ...lists }
}
