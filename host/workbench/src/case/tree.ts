// The explanation tree: the value of each part of the rule, and the facts it read.

import { freshId, h } from '../dom'
import { t } from '../i18n'
import type { Explanation } from './changes'
import { counted, itemName, named, shown } from './values'

/** The depth that is open initially. */
const OPEN_DEPTH = 3

/** `names` are those of the members, in the order in which the rule counts them. */
export function tree(root: Explanation, names: string[] = [], heading = t.case.tree): HTMLElement {
  const id = freshId('tree')
  const list = h('ul', { class: 'tree' }, node(root, 0, names))
  const set = (isOpen: boolean) => {
    for (const details of list.querySelectorAll('details')) details.open = isOpen
  }
  return h(
    'section',
    { 'aria-labelledby': id },
    h(
      'div',
      { class: 'row' },
      h('h2', { id }, heading),
      h('button', { type: 'button', on: { click: () => set(true) } }, t.case.expand),
      h('button', { type: 'button', on: { click: () => set(false) } }, t.case.collapse),
    ),
    root.truncated === true && h('p', { class: 'notice' }, t.case.truncated),
    list,
  )
}

/** `member` is the member of the group that the part is about, by name. */
function node(part: Explanation, depth: number, names: string[], member?: string): HTMLElement {
  const seen = Object.entries(part.seen)
  const isOfList = /^[\w.]+\.(exists|all|exists_one|filter|map)\(/.test(part.text)
  const children = () => part.children.map((child) => node(child, depth + 1, names, isOfList ? memberOf(part, child, names) : member))
  const head = [
    part.item !== undefined && h('span', { class: 'item' }, itemName(part.item, member)),
    h('code', {}, part.text),
    h('span', { class: `value ${kind(part.value)}` }, shown(part.value)),
  ]
  const below = [
    seen.length > 0 &&
      h(
        'dl',
        { class: 'seen' },
        seen.map(([fact, value]) => h('div', {}, h('dt', {}, h('code', {}, named(fact, names))), h('dd', {}, shown(value)))),
      ),
    part.missing && part.missing.length > 0 && h('p', { class: 'missing' }, `${t.case.missing}: `, part.missing.map((fact, at) => [at > 0 && ', ', h('code', {}, counted(fact))])),
    part.error && h('p', { class: 'problem' }, t.case.failed(part.error.code, part.error.line, part.error.column)),
  ]
  if (part.children.length === 0) return h('li', {}, h('div', { class: 'part' }, head), below)
  const inside = h('ul', {})
  const details = h('details', { on: { toggle: () => open() } }, h('summary', { class: 'part' }, head), below, inside)
  // A household's tree has thousands of parts: those below a closed one are created when it is opened.
  const open = () => {
    if (details.open && inside.childElementCount === 0) inside.append(...children())
  }
  if (depth < OPEN_DEPTH) {
    details.open = true
    inside.append(...children())
  }
  return h('li', {}, details)
}

function kind(value: unknown): string {
  return value === true ? 'yes' : value === false ? 'no' : value === null ? 'unknown' : 'other'
}

/** The member that an item of a list is about: the list may be filtered, so the number of the item is not enough. */
function memberOf(part: Explanation, item: Explanation, names: string[]): string | undefined {
  const index = part.text.startsWith('members.') ? memberSeen(item) : undefined
  return index === undefined ? undefined : names[index]
}

function memberSeen({ seen, missing = [], children }: Explanation): number | undefined {
  const found = [...Object.keys(seen), ...missing].map((fact) => /^members\[(\d+)\]/.exec(fact)).find((match) => match !== null)
  if (found) return Number(found[1])
  return children.map(memberSeen).find((index) => index !== undefined)
}
