// Compares two rules by one preview, which evaluates both for the same subjects in the same snapshot.

import { type Api, isAbort } from '../api'
import { t } from '../i18n'
import type { Decision } from '../rule/provenance'
import { type Cell, OUTCOMES, type Outcome, type Previewed, type Question, type Watching, preview } from '../rule/preview'

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
  /** The numbers of undetermined subjects. */
  undetermined: { a: number; b: number }
  asOf: string
  /** The number of subjects for each pair of outcomes. */
  cells: Cell[]
  /** The decisions of both rules. */
  decisions: [Decision, Decision]
  all: Moves
  byGender: Moves[]
  byAge: Moves[]
  byRegion: Moves[]
}

export async function compare(api: Api, question: Question & { b: string }, watching: Watching): Promise<Compared> {
  const { b, ...first } = question
  const previewed = await preview(api, { ...first, compare: b }, watching)
  const { as_of: asOf } = previewed.decision
  const ofSecond = await decisionOf(api, { ...first, expression: b, asOf }, watching.signal).catch((error: unknown): Decision => {
    if (isAbort(error)) throw error
    // The comparison is complete; only the digest of the second rule is missing.
    return { as_of: asOf }
  })
  return compared(previewed, ofSecond)
}

/** The decision of the second rule: that of the preview is about the first. */
async function decisionOf(api: Api, { expression, subject, asOf, engine }: Question, signal: AbortSignal): Promise<Decision> {
  const body = { expression, subject, as_of: asOf, subjects: [{ type: subject }], ...(engine ? { engine } : {}) }
  return (await api.post<{ decision: Decision }>('Eligibility/$evaluate', body, signal)).decision
}

export function compared(previewed: Previewed, ofSecond: Decision): Compared {
  const { comparison } = previewed
  // A server that does not know the request reports the rule alone.
  if (!comparison) throw new Error(t.compare.none)
  const { cells, by_gender = [], by_age_band = [], by_region = [] } = comparison
  const regions = by_region.filter(({ region }) => region !== null)
  return {
    a: count(cells, (a) => a === 'eligible'),
    b: count(cells, (_, b) => b === 'eligible'),
    total: previewed.total,
    undetermined: { a: count(cells, (a) => a === 'undetermined'), b: count(cells, (_, b) => b === 'undetermined') },
    asOf: previewed.decision.as_of,
    cells,
    decisions: [previewed.decision, ofSecond],
    all: moves(t.reach.all, cells),
    byGender: by_gender.map((row) => moves(row.display ?? row.code ?? t.reach.unknown, row.cells)),
    byAge: by_age_band.map((row) => moves(row.from === null ? t.reach.unknown : t.reach.years(row.from, row.to), row.cells)),
    // A register without regions has a single row, which is not informative.
    byRegion: regions.length > 0 ? by_region.map((row) => moves(row.region ?? t.reach.unknown, row.cells)) : [],
  }
}

/** The subjects with an outcome by A, by each outcome by B. */
export function row(cells: Cell[], outcome: Outcome): number[] {
  return OUTCOMES.map((other) => count(cells, (a, b) => a === outcome && b === other))
}

function count(cells: Cell[], isOf: (a: Outcome, b: Outcome) => boolean): number {
  return cells.reduce((sum, { a, b, count }) => (isOf(a, b) ? sum + count : sum), 0)
}

function moves(label: string, cells: Cell[]): Moves {
  const lost = (outcome: Outcome) => count(cells, (a, b) => a === 'eligible' && b === outcome)
  const gained = count(cells, (a, b) => a !== 'eligible' && b === 'eligible')
  return { label, gained, refused: lost('not_eligible'), undetermined: lost('undetermined'), kept: lost('eligible') }
}
