// Requests for codes and concept groups.

import { type Api, Refusal } from './api'

export interface FoundCode {
  uri: string
  code: string
  display: string
  namespace: string
  status?: string
  selectable?: boolean
}

/** A code of the definition of a concept group, with or without the codes below it. */
export interface GroupPart {
  namespace: string
  uri?: string
  display?: string
  descendants?: boolean
}

export interface ConceptGroup {
  name: string
  description: string
  defined_by: string
  unset: boolean
  definition: { text: string; include?: GroupPart[]; exclude?: GroupPart[] }
  code_count: number
}

export interface Page<T> {
  data: T[]
  total?: number
  meta: { total: number; count: number; offset: number }
}

const FOUND_MAX = 12

/** The codes that match a text, best match first. */
export async function searchCodes(api: Api, text: string, signal?: AbortSignal): Promise<FoundCode[]> {
  const asked = text.trim().slice(0, 200)
  if (!asked) return []
  const page = await api.get<Page<FoundCode>>(`Vocabulary/$search?q=${encodeURIComponent(asked)}&_count=${FOUND_MAX}`, signal)
  return page.data
}

/** The codes of some vocabularies that match a text, or their topmost ones without a text. */
export async function searchVocabularies(api: Api, namespaces: string[], text: string, signal?: AbortSignal): Promise<FoundCode[]> {
  const asked = text.trim().slice(0, 200)
  const query = asked ? `search?q=${encodeURIComponent(asked)}&_count=${FOUND_MAX}` : `codes?parent=&_count=${FOUND_MAX}`
  const pages = await Promise.all(
    namespaces.map((namespace) => api.get<Page<FoundCode>>(`Vocabulary/${encodeURIComponent(namespace)}/${query}`, signal)),
  )
  return pages.flatMap(({ data }) => data)
}

/** The concept groups that have codes of some vocabularies. */
export function groupsOf(groups: ConceptGroup[], namespaces: string[]): ConceptGroup[] {
  return groups.filter(({ definition }) => definition.include?.some(({ namespace }) => namespaces.includes(namespace)))
}

/** The name of a code; undefined if there is no such code. */
export async function nameOf(api: Api, uri: string, signal?: AbortSignal): Promise<string | undefined> {
  const at = uri.indexOf('#')
  const path = `Vocabulary/${encodeURIComponent(uri.slice(0, at))}/codes/${encodeURIComponent(uri.slice(at + 1))}`
  try {
    return (await api.get<{ display: string }>(path, signal)).display
  } catch (error) {
    if (error instanceof Refusal && error.status === 404) return undefined
    throw error
  }
}

export async function conceptGroups(api: Api): Promise<ConceptGroup[]> {
  return (await api.get<Page<ConceptGroup>>('ConceptGroup?_count=100')).data
}

/** A code in rule syntax. */
export function written(uri: string): string {
  return `code('${uri.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}')`
}
