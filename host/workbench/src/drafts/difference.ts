// The differences between two versions of a rule, by words: the longest common subsequence of both.

import { h } from '../dom'
import { t } from '../i18n'

export interface Part {
  kind: 'same' | 'added' | 'removed'
  text: string
}

/** The most cells of the table; longer texts are compared as a whole. */
const CELLS_MAX = 4_000_000

export function difference(before: string, after: string): Part[] {
  const [a, b] = [words(before), words(after)]
  let from = 0
  while (from < a.length && from < b.length && a[from] === b[from]) from += 1
  let end = 0
  while (end < a.length - from && end < b.length - from && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1
  const middle = between(a.slice(from, a.length - end), b.slice(from, b.length - end))
  const same = (text: string[]): Part => ({ kind: 'same', text: text.join('') })
  return merged([same(a.slice(0, from)), ...middle, same(a.slice(a.length - end))])
}

function words(text: string): string[] {
  return text.match(/[\p{L}\p{N}_]+|\s+|[^\s\p{L}\p{N}_]/gu) ?? []
}

function between(a: string[], b: string[]): Part[] {
  if (a.length * b.length > CELLS_MAX) {
    return [
      { kind: 'removed', text: a.join('') },
      { kind: 'added', text: b.join('') },
    ]
  }
  // The length of the longest common subsequence of the rests from each pair of positions on.
  const width = b.length + 1
  const lengths = new Uint16Array((a.length + 1) * width)
  const at = (i: number, j: number) => lengths[i * width + j] ?? 0
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      lengths[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1))
    }
  }
  const parts: Part[] = []
  let [i, j] = [0, 0]
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      parts.push({ kind: 'same', text: a[i] ?? '' })
      i += 1
      j += 1
    } else if (i < a.length && (j === b.length || at(i + 1, j) >= at(i, j + 1))) {
      parts.push({ kind: 'removed', text: a[i] ?? '' })
      i += 1
    } else {
      parts.push({ kind: 'added', text: b[j] ?? '' })
      j += 1
    }
  }
  return parts
}

function merged(parts: Part[]): Part[] {
  const all: Part[] = []
  for (const part of parts) {
    const last = all.at(-1)
    if (part.text === '') continue
    if (last?.kind === part.kind) last.text += part.text
    else all.push({ ...part })
  }
  return all
}

/** A rule with its differences from an earlier text, marked by more than colour. */
export function shownDifference(before: string, after: string): HTMLElement {
  const parts = difference(before, after)
  const hidden = (text: string) => h('span', { class: 'visually-hidden' }, ` ${text} `)
  return h(
    'pre',
    { class: 'rule difference', tabindex: '0' },
    parts.map(({ kind, text }) => {
      if (kind === 'same') return text
      return kind === 'added' ? h('ins', {}, hidden(t.keep.added), text) : h('del', {}, hidden(t.keep.removed), text)
    }),
  )
}
