// The names of the codes in a rule.

import type { Api } from '../api'
import { nameOf } from '../codes'
import { type Tree, codeOf, textOf } from '../syntax/parse'

/** The most names that are read for one rule; each is cached. */
const NAMES_MAX = 40

/** The URIs of the codes in a rule. */
export function urisIn(tree: Tree): string[] {
  const found = new Set<string>()
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) value.forEach(visit)
    else if (typeof value === 'object' && value !== null) {
      const part = value as Tree
      const named = codeOf(part) ?? (part.kind === 'call' && part.name === 'descends_from' ? textOf(part.given[1]) : undefined)
      if (named?.includes('#')) found.add(named)
      Object.values(value).forEach(visit)
    }
  }
  visit(tree)
  return [...found]
}

/** The names of codes in the language of the page; a code without a readable name is left out. */
export async function namesOf(api: Api, uris: string[], signal?: AbortSignal): Promise<Map<string, string>> {
  const names = new Map<string, string>()
  if (!api.may('vocabulary:read')) return names
  await Promise.all(
    uris.slice(0, NAMES_MAX).map(async (uri) => {
      const name = await nameOf(api, uri, signal)
      if (name !== undefined) names.set(uri, name)
    }),
  )
  return names
}
