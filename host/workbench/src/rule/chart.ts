// One compact chart of the outcomes by gender and by age: a column is as high as its number of people, its eligible part
// is at the bottom. Every column has its numbers as its name, and opens its list.

import { freshId, h, svg } from '../dom'
import { percent, t } from '../i18n'
import { hatching } from './bars'
import { type Counts, OUTCOMES, type Previewed } from './preview'

const HEIGHT = 84

export interface Column extends Counts {
  /** Its name in words, and the short one below it. */
  label: string
  short: string
  open?: () => void
}

/** The columns of a preview; `open` returns the action for a row, if its list can be requested. */
export interface Openers {
  gender: (row: { code: string | null; display: string | null }) => (() => void) | undefined
  age: (row: { from: number | null; to: number | null }) => (() => void) | undefined
}

export function chart(result: Previewed, openers: Openers): HTMLElement | false {
  const genders = (result.by_gender ?? []).map((row): Column => {
    const label = row.display ?? row.code ?? t.reach.unknown
    return { ...row, label, short: label, ...opening(openers.gender(row)) }
  })
  const ages = (result.by_age_band ?? []).map((row): Column => {
    const label = row.from === null ? t.reach.unknown : t.reach.years(row.from, row.to)
    const short = row.from === null ? '?' : row.to === null ? `${row.from}+` : String(row.from)
    return { ...row, label, short, ...opening(openers.age(row)) }
  })
  if (genders.length === 0 && ages.length === 0) return false
  const id = freshId('chart')
  return h(
    'section',
    { class: 'chart', 'aria-labelledby': id },
    h('h3', { id }, t.reach.chart),
    h('div', { class: 'groups' }, columns(t.reach.gender, 'wide', genders), columns(t.reach.age, 'narrow', ages)),
  )
}

function opening(open: (() => void) | undefined): { open?: () => void } {
  return open ? { open } : {}
}

function columns(label: string, width: string, all: Column[]): HTMLElement | false {
  if (all.length === 0) return false
  const most = Math.max(...all.map((column) => column.total), 1)
  return h(
    'div',
    { role: 'group', 'aria-label': label, class: `columns-of ${width}` },
    h('div', { class: 'bars-of' }, all.map((one) => column(one, most))),
    h('p', { class: 'axis', 'aria-hidden': 'true' }, label),
  )
}

function column(one: Column, most: number): HTMLElement {
  const name = t.reach.bar(one.label, one.eligible, one.total, one.undetermined)
  const inside = [
    h('span', { class: 'visually-hidden' }, name),
    h('span', { class: 'share', 'aria-hidden': 'true' }, one.eligible > 0 ? percentOf(one) : '\u00a0'),
    bar(one, most),
    h('span', { class: 'short-name', 'aria-hidden': 'true' }, one.short),
  ]
  if (!one.open || one.total === 0) return h('div', { class: 'column', title: name }, inside)
  return h('button', { type: 'button', class: 'column', title: name, on: { click: one.open } }, inside)
}

/** The share without a fraction: the columns are narrow. */
function percentOf({ eligible, total }: Counts): string {
  return percent(Math.max(Math.round((eligible / total) * 100), 1), 100)
}

function bar(one: Column, most: number): SVGElement {
  const pattern = freshId('hatch')
  let bottom = HEIGHT
  const rects = OUTCOMES_UPWARDS.flatMap((outcome) => {
    const height = (one[outcome] / most) * HEIGHT
    if (height === 0) return []
    bottom -= height
    const place = { x: 0, width: '100%', y: bottom, height }
    const rect = svg('rect', { ...place, class: `bar ${outcome}` })
    return outcome === 'undetermined' ? [rect, svg('rect', { ...place, fill: `url(#${pattern})` })] : [rect]
  })
  return svg('svg', { height: HEIGHT, width: '100%', 'aria-hidden': 'true', focusable: 'false' }, hatching(pattern), ...rects)
}

const OUTCOMES_UPWARDS = [...OUTCOMES].sort((one, other) => order(one) - order(other))

function order(outcome: string): number {
  return outcome === 'eligible' ? 0 : outcome === 'undetermined' ? 1 : 2
}
