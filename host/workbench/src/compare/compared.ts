// Compares two rules by three previews: A, B, and both together. The subjects eligible by both are exactly those of
// `(A) && (B)`, so the gained ones are those of B without these, and the lost ones those of A without these, in every
// breakdown.

import type { Api } from '../api'
import { t } from '../i18n'
import { type Previewed, type Question, preview } from '../rule/preview'

export interface Moves {
  label: string
  gained: number
  lost: number
  kept: number
}

export interface Compared {
  a: number
  b: number
  all: Moves
  byGender: Moves[]
  byAge: Moves[]
  /** Whether the previews have the same number of subjects. */
  isSteady: boolean
}

/** The longest expression that the server accepts, in bytes. */
const BYTES_MAX = 8_192

export interface Watching {
  signal: AbortSignal
  onProgress: (step: number, done: number, total: number) => void
}

export async function compare(api: Api, a: string, b: string, about: Omit<Question, 'expression'>, watching: Watching): Promise<Compared> {
  // A comment at the end of a rule must not include the parenthesis.
  const both = `(${a}\n) && (${b}\n)`
  if (new TextEncoder().encode(both).length > BYTES_MAX) throw new Error(t.compare.too_long)
  const ask = (step: number, expression: string) =>
    preview(api, { ...about, expression }, {
      signal: watching.signal,
      onProgress: (done, total) => watching.onProgress(step, done, total),
    })
  const byA = await ask(1, a)
  const byB = await ask(2, b)
  const byBoth = await ask(3, both)
  return joined(byA, byB, byBoth)
}

export function joined(byA: Previewed, byB: Previewed, byBoth: Previewed): Compared {
  const gender = (row: { display: string | null; code: string | null }) => row.display ?? row.code ?? t.reach.unknown
  const age = (row: { from: number | null; to: number | null }) => (row.from === null ? t.reach.unknown : t.reach.years(row.from, row.to))
  const lists = [byA, byB, byBoth] as const
  return {
    a: byA.eligible,
    b: byB.eligible,
    all: moves(t.reach.all, byA.eligible, byB.eligible, byBoth.eligible),
    byGender: rows(lists.map((one) => counted(one.by_gender ?? [], gender))),
    byAge: rows(lists.map((one) => counted(one.by_age_band ?? [], age))),
    isSteady: byA.total === byB.total && byB.total === byBoth.total && byBoth.eligible <= Math.min(byA.eligible, byB.eligible),
  }
}

function counted<R extends { eligible: number }>(rows: R[], label: (row: R) => string): Map<string, number> {
  return new Map(rows.map((row) => [label(row), row.eligible]))
}

function rows([a, b, both]: Map<string, number>[]): Moves[] {
  const labels = new Set([...(a?.keys() ?? []), ...(b?.keys() ?? [])])
  return [...labels].map((label) => moves(label, a?.get(label) ?? 0, b?.get(label) ?? 0, both?.get(label) ?? 0))
}

function moves(label: string, a: number, b: number, both: number): Moves {
  // If a subject was registered between two previews, the parts may differ by one; they are never negative.
  return { label, gained: Math.max(b - both, 0), lost: Math.max(a - both, 0), kept: both }
}
