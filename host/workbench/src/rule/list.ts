// The list behind a number, in a dialog: its first rows, and all of it as CSV. The preview is repeated with a line per
// subject.

import { isAbort, sentence } from '../api'
import { openDialog } from '../dialog'
import { fill, h } from '../dom'
import { t } from '../i18n'
import { Csv, save } from './csv'
import { type Decided, type Question, preview } from './preview'
import { type Listed, items } from './subjects'

/** The rows that are shown at a time, and at most. */
const PAGE = 20
const SHOWN_MAX = 500

export interface Listing extends Listed {
  title: string
  /** The preview that is requested, if it is not that of the question: one that compares two rules. */
  requested?: Question
  /** Returns true for the subjects of the list. */
  isOf: (decided: Decided) => boolean
}

export function openList(listing: Listing): void {
  const status = h('p', { role: 'status', class: 'hint' }, t.list.reading)
  const { body, close, signal } = openDialog(listing.title, h('div', { class: 'row' }, status))
  void read(listing, signal, (progress) => (status.textContent = progress))
    .then(({ rows, csv, count }) => {
      status.textContent = count > rows.length ? t.list.shown(rows.length, count) : count > 0 ? t.list.found(count) : t.list.none
      if (count > 0) show(body, { ...listing, onOpen: close }, rows, csv, signal)
    })
    .catch((error: unknown) => {
      if (!isAbort(error)) fill(body, h('p', { class: 'problem', role: 'alert' }, sentence(error)))
    })
}

interface Read {
  rows: Decided[]
  csv: Csv
  count: number
}

async function read({ context, question, requested, isOf }: Listing, signal: AbortSignal, say: (progress: string) => void): Promise<Read> {
  let found: Read = { rows: [], csv: new Csv(), count: 0 }
  await preview(context.api, requested ?? question, {
    signal,
    onProgress: (done, total) => say(`${t.list.reading} ${t.reach.progress(done, total)}`),
    onRestart: () => (found = { rows: [], csv: new Csv(), count: 0 }),
    onSubject: (decided) => {
      if (!isOf(decided)) return
      const { compared, ...one } = decided
      // The missing facts are those of the first rule.
      const shown = compared ? { ...one, outcome: compared, missing: [] } : one
      found.count += 1
      found.csv.add(shown)
      if (found.rows.length < SHOWN_MAX) found.rows.push(shown)
    },
  })
  return found
}

/** Adds the first rows, a page at a time, and the download of all. */
function show(body: HTMLElement, listing: Listing, rows: Decided[], csv: Csv, signal: AbortSignal): void {
  const list = h('ul', { class: 'sample' })
  let shown = 0
  const more = h('button', { type: 'button', on: { click: () => add() } })
  const add = () => {
    const page = rows.slice(shown, shown + PAGE)
    list.append(...items(page, listing, signal))
    shown += page.length
    const left = Math.min(PAGE, rows.length - shown)
    more.hidden = left === 0
    more.textContent = t.list.more(left)
  }
  add()
  body.firstElementChild?.append(h('button', { type: 'button', on: { click: () => save(csv.file(), `${t.reach.csvFile}.csv`) } }, t.list.csv))
  body.append(list, more)
}

/** The same request for a part of its population. */
export function narrowed(question: Question, ...filters: string[]): Question {
  return { ...question, filter: [question.filter.trim(), ...filters].filter(Boolean).join('\n') }
}

/** The filters of an age in completed years on a day. */
export function ageFilters({ from, to }: { from: number | null; to: number | null }, asOf: string): string[] | undefined {
  if (from === null) return undefined
  const before = (years: number) => `${String(Number(asOf.slice(0, 4)) - years).padStart(4, '0')}${asOf.slice(4).replace('-02-29', '-02-28')}`
  const youngest = `birth_date=le${before(from)}`
  return to === null ? [youngest] : [youngest, `birth_date=gt${before(to + 1)}`]
}
