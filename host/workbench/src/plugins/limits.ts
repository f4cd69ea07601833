// The limits of a plugin, and its peak use of them.

import { h } from '../dom'
import { number, percent, t } from '../i18n'
import type { Plugin } from './view'

export function limits({ use }: Plugin): HTMLElement {
  return h(
    'div',
    { class: 'breakdown' },
    h(
      'table',
      {},
      h('caption', {}, t.plugins.use),
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          h('th', { scope: 'col' }, t.plugins.name),
          h('th', { scope: 'col', class: 'number' }, t.plugins.limit),
          h('th', { scope: 'col', class: 'number' }, t.plugins.most),
        ),
      ),
      h('tbody', {}, Object.entries(use).map(([name, amounts]) => line(name, amounts))),
    ),
  )
}

function line(name: string, { peak = 0, limit, peak_share: share, base, per_row: perRow }: Plugin['use'][string]): HTMLElement {
  // Fuel has no single limit: a base plus an amount per row.
  const most = limit ?? 1
  const used = share ?? peak / Math.max(most, 1)
  const text = limit === undefined ? t.plugins.fuel(base ?? 0, perRow ?? 0) : amount(name, limit)
  return h(
    'tr',
    {},
    h('th', { scope: 'row' }, h('code', {}, name), h('meter', { class: 'gained', min: 0, max: 1, value: used, 'aria-hidden': 'true' })),
    h('td', { class: 'number' }, text),
    h('td', { class: 'number' }, amount(name, peak), h('small', {}, ` ${percent(used, 1)}`)),
  )
}

function amount(name: string, value: number): string {
  if (name.endsWith('_bytes')) return value >= 1024 ? `${number(value / 1024)} KiB` : `${number(value)} B`
  return name.endsWith('_ms') ? `${number(value, 1)} ms` : number(value)
}
