// The names of codes of an explanation in the language of the page: an explanation has those of the vocabulary's default
// language, in which a decision is recorded.

import type { Api } from '../api'
import { nameOf } from '../codes'
import { server } from '../i18n'
import type { Explanation } from './changes'

/** The most codes whose names are read. */
const CODES_MAX = 20

interface Coded {
  uri: string
  display?: string
}

/** Replaces the names; without the right to read vocabularies they stay. */
export async function withNames(api: Api, root: Explanation, signal: AbortSignal): Promise<void> {
  if (!server || !api.may('vocabulary:read')) return
  const codes = coded(root)
  const uris = [...new Set(codes.map(({ uri }) => uri))].slice(0, CODES_MAX)
  const names = await Promise.all(uris.map((uri) => nameOf(api, uri, signal).catch(() => undefined)))
  for (const code of codes) {
    const name = names[uris.indexOf(code.uri)]
    if (name !== undefined) code.display = name
  }
}

function coded(part: Explanation): Coded[] {
  const values = [part.value, ...Object.values(part.seen)].flatMap((value) => (Array.isArray(value) ? (value as unknown[]) : [value]))
  const own = values.filter((value): value is Coded => typeof (value as Coded | null)?.uri === 'string')
  return [...own, ...part.children.flatMap(coded)]
}
