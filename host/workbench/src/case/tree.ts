// The explanation tree: the value of each part of the rule, and the facts it read.

import { h } from '../dom'
import { t } from '../i18n'
import type { Explanation } from './changes'
import { counted, shown } from './values'

/** The depth that is open initially. */
const OPEN_DEPTH = 3

export function tree(root: Explanation): HTMLElement {
  const list = h('ul', { class: 'tree' }, node(root, 0))
  const set = (isOpen: boolean) => {
    for (const details of list.querySelectorAll('details')) details.open = isOpen
  }
  return h(
    'section',
    { 'aria-labelledby': 'tree' },
    h(
      'div',
      { class: 'row' },
      h('h2', { id: 'tree' }, t.case.tree),
      h('button', { type: 'button', on: { click: () => set(true) } }, t.case.expand),
      h('button', { type: 'button', on: { click: () => set(false) } }, t.case.collapse),
    ),
    root.truncated === true && h('p', { class: 'notice' }, t.case.truncated),
    list,
  )
}

function node(part: Explanation, depth: number): HTMLElement {
  const seen = Object.entries(part.seen)
  const head = [
    part.item !== undefined && h('span', { class: 'item' }, t.case.item(part.item)),
    h('code', {}, part.text),
    h('span', { class: `value ${kind(part.value)}` }, shown(part.value)),
  ]
  const below = [
    seen.length > 0 &&
      h(
        'dl',
        { class: 'seen' },
        seen.map(([fact, value]) => h('div', {}, h('dt', {}, h('code', {}, counted(fact))), h('dd', {}, shown(value)))),
      ),
    part.missing && part.missing.length > 0 && h('p', { class: 'missing' }, `${t.case.missing}: ${part.missing.map(counted).join(', ')}`),
    part.error && h('p', { class: 'problem' }, t.case.failed(part.error.code, part.error.line, part.error.column)),
  ]
  if (part.children.length === 0) return h('li', {}, h('div', { class: 'part' }, head), below)
  const inside = h('ul', {})
  const details = h('details', { on: { toggle: () => open() } }, h('summary', { class: 'part' }, head), below, inside)
  // A household's tree has thousands of parts: those below a closed one are created when it is opened.
  const open = () => {
    if (details.open && inside.childElementCount === 0) inside.append(...part.children.map((child) => node(child, depth + 1)))
  }
  if (depth < OPEN_DEPTH) {
    details.open = true
    inside.append(...part.children.map((child) => node(child, depth + 1)))
  }
  return h('li', {}, details)
}

function kind(value: unknown): string {
  return value === true ? 'yes' : value === false ? 'no' : value === null ? 'unknown' : 'other'
}
