// Formats the values of an explanation.

import { type Child, h } from '../dom'
import { number, t } from '../i18n'
import { factName } from '../reading/terms'

export function shown(value: unknown): string {
  if (value === null || value === undefined) return t.case.unknown
  if (value === true) return t.case.true
  if (value === false) return t.case.false
  if (typeof value === 'number') return number(value, 6)
  if (typeof value === 'string') return value
  if (Array.isArray(value)) return value.map(shown).join(', ')
  const object = value as Record<string, unknown>
  if (typeof object['uri'] === 'string') return `${object['display'] ?? object['code']} (${object['code']})`
  if (typeof object['items_min'] === 'number') return t.case.items(object['items_min'], Number(object['items_max']))
  const keys = Object.keys(object)
  // A person is an object without content.
  return keys.length === 0 ? '…' : JSON.stringify(object)
}

/** The name of a fact with its items counted from 1, as everywhere else: the server's `members[0]` is the first. */
export function counted(fact: string): string {
  return fact.replaceAll(/\[(\d+)\]/g, (_, index: string) => `[${Number(index) + 1}]`)
}

/** A missing fact in words, and as rules write it. */
export function factLabel(fact: string, names: string[] = []): Child[] {
  const words = wordsOf(fact)
  return [words && `${words} `, h('code', { class: words ? 'id' : '' }, named(fact, names))]
}

/** A missing fact in words; empty if it has none. */
export function wordsOf(fact: string): string {
  const plain = fact.replaceAll(/\[\d+\]/g, '')
  const words = factName(plain)
  return words === plain ? '' : words
}

/** The same with the names of members, if they are known. */
export function named(fact: string, names: string[]): string {
  const member = /^members\[(\d+)\]/.exec(fact)
  const name = member && names[Number(member[1])]
  return name ? `${counted(fact)} · \u2068${name}\u2069` : counted(fact)
}

/** An item of a list, counted from 1; a member by name. */
export function itemName(index: number, member?: string): string {
  return member ? `${t.case.item(index)} · \u2068${member}\u2069` : t.case.item(index)
}
