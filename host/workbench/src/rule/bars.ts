// Bar charts of counts, as tables: each row has its numbers beside its bar, so that colour is not the only indicator.

import { scaleLinear } from 'd3-scale'
import { stack } from 'd3-shape'

import { freshId, h, svg } from '../dom'
import { number, percent, t } from '../i18n'
import { OUTCOMES, type Counts, type Outcome } from './preview'

export interface Row extends Counts {
  label: string
}

const HEIGHT = 16
/** The number of rows shown initially. */
const ROWS_MAX = 20

const layers = stack<unknown, Pick<Counts, Outcome>, Outcome>().keys(OUTCOMES)

/** The bar of one row; the longest row has the full width. */
function bar(row: Row, most: number, pattern: string): SVGElement {
  const x = scaleLinear([0, Math.max(most, 1)], [0, 100])
  const parts = layers([row]).flatMap(({ key, 0: at }) => {
    if (!at || at[1] === at[0]) return []
    const place = { x: `${x(at[0])}%`, width: `${x(at[1]) - x(at[0])}%`, y: 0, height: HEIGHT }
    const part = svg('rect', { ...place, class: `bar ${key}` })
    // Unknown values are hatched too.
    return key === 'undetermined' ? [part, svg('rect', { ...place, fill: `url(#${pattern})` })] : [part]
  })
  return svg('svg', { class: 'bars', height: HEIGHT, width: '100%', 'aria-hidden': 'true', focusable: 'false' }, hatching(pattern), ...parts)
}

export function hatching(id: string): SVGElement {
  const line = svg('path', { d: 'M0 6L6 0M-1 1L1 -1M5 7L7 5', class: 'hatch' })
  return svg('defs', {}, svg('pattern', { id, width: 6, height: 6, patternUnits: 'userSpaceOnUse' }, line))
}

export function bars(caption: string, head: string, rows: Row[]): HTMLElement {
  const most = Math.max(...rows.map((row) => row.total), 0)
  const body = h('tbody')
  const show = (count: number) => body.replaceChildren(...rows.slice(0, count).map((row) => line(row, most)))
  show(ROWS_MAX)
  const more = h(
    'button',
    {
      type: 'button',
      on: {
        click: () => {
          show(rows.length)
          more.remove()
        },
      },
    },
    t.reach.showAll(rows.length),
  )
  const heads = OUTCOMES.map((outcome) => h('th', { scope: 'col', class: 'number' }, t.outcome[outcome]))
  return h(
    'div',
    { class: 'breakdown' },
    h(
      'table',
      {},
      h('caption', {}, caption),
      h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, head), heads)),
      body,
    ),
    rows.length > ROWS_MAX && more,
  )
}

function line(row: Row, most: number): HTMLElement {
  const numbers = OUTCOMES.map((outcome) =>
    h(
      'td',
      { class: 'number', 'data-outcome': outcome },
      h('span', { class: 'short' }, t.outcome[outcome]),
      h('span', {}, number(row[outcome])),
      outcome === 'eligible' && h('small', {}, ` ${percent(row.eligible, row.total)}`),
    ),
  )
  const head = h('th', { scope: 'row' }, h('span', {}, row.label))
  head.append(bar(row, most, freshId('hatch')))
  return h('tr', {}, head, numbers)
}

/** The legend of the outcomes. */
export function legend(): HTMLElement {
  return h(
    'ul',
    { class: 'legend' },
    OUTCOMES.map((outcome) => h('li', {}, h('span', { class: `mark ${outcome}`, 'aria-hidden': 'true' }), t.outcome[outcome])),
  )
}
