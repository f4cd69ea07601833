// Compares two rules by four previews: A, B, and two combinations of both. The subjects eligible by both are exactly
// those of `(A) && (B)`; those that A makes eligible and B refuses are those of `(A) && !(B)`, so for the others of A the
// outcome of B is undetermined; the gained ones are those of B without those of both. This holds in every breakdown.

import type { Api } from '../api'
import { t } from '../i18n'
import type { Decision } from '../rule/provenance'
import { type Previewed, type Question, preview } from '../rule/preview'

/** The numbers of subjects whose outcome differs, and of those eligible by both. */
export interface Moves {
  label: string
  gained: number
  /** Eligible by A and not by B. */
  refused: number
  /** Eligible by A; undetermined by B. */
  undetermined: number
  kept: number
}

export const MOVES = ['gained', 'refused', 'undetermined', 'kept'] as const
export type Move = (typeof MOVES)[number]

export interface Compared {
  a: number
  b: number
  total: number
  asOf: string
  /** The decisions of both rules. */
  decisions: [Decision, Decision]
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

export const STEPS = 4

export async function compare(api: Api, a: string, b: string, about: Omit<Question, 'expression'>, watching: Watching): Promise<Compared> {
  // A comment at the end of a rule must not include the parenthesis.
  const [inA, inB] = [`(${a}\n)`, `(${b}\n)`]
  const expressions = [a, b, `${inA} && ${inB}`, `${inA} && !${inB}`]
  const bytes = Math.max(...expressions.map((text) => new TextEncoder().encode(text).length))
  if (bytes > BYTES_MAX) throw new Error(t.compare.too_long)
  const previews: Previewed[] = []
  for (const [at, expression] of expressions.entries()) {
    const question = { ...about, expression }
    const onProgress = (done: number, total: number) => watching.onProgress(at + 1, done, total)
    previews.push(await preview(api, question, { signal: watching.signal, onProgress }))
  }
  return joined(previews as [Previewed, Previewed, Previewed, Previewed])
}

export function joined(previews: [Previewed, Previewed, Previewed, Previewed]): Compared {
  const [byA, byB, byBoth] = previews
  const gender = (row: { display: string | null; code: string | null }) => row.display ?? row.code ?? t.reach.unknown
  const age = (row: { from: number | null; to: number | null }) => (row.from === null ? t.reach.unknown : t.reach.years(row.from, row.to))
  return {
    a: byA.eligible,
    b: byB.eligible,
    total: byA.total,
    asOf: byA.decision.as_of,
    decisions: [byA.decision, byB.decision],
    all: moves(t.reach.all, previews.map((one) => one.eligible)),
    byGender: rows(previews.map((one) => counted(one.by_gender ?? [], gender))),
    byAge: rows(previews.map((one) => counted(one.by_age_band ?? [], age))),
    isSteady: previews.every(({ total }) => total === byA.total) && byBoth.eligible <= Math.min(byA.eligible, byB.eligible),
  }
}

function counted<R extends { eligible: number }>(rows: R[], label: (row: R) => string): Map<string, number> {
  return new Map(rows.map((row) => [label(row), row.eligible]))
}

function rows(counts: Map<string, number>[]): Moves[] {
  const labels = new Set(counts.flatMap((one) => [...one.keys()]))
  return [...labels].map((label) => moves(label, counts.map((one) => one.get(label) ?? 0)))
}

function moves(label: string, [a = 0, b = 0, both = 0, refused = 0]: number[]): Moves {
  // If a subject was registered between two previews, the parts may differ by one; they are never negative.
  return { label, gained: Math.max(b - both, 0), refused, undetermined: Math.max(a - both - refused, 0), kept: both }
}
