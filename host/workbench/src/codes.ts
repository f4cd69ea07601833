// Requests for codes and concept groups.

import type { Api } from './api'

export interface FoundCode {
  uri: string
  code: string
  display: string
  namespace: string
  status?: string
  selectable?: boolean
}

export interface ConceptGroup {
  name: string
  description: string
  defined_by: string
  unset: boolean
  definition: { text: string }
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

export async function conceptGroups(api: Api): Promise<ConceptGroup[]> {
  return (await api.get<Page<ConceptGroup>>('ConceptGroup?_count=100')).data
}

/** A code in rule syntax. */
export function written(uri: string): string {
  return `code('${uri.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}')`
}
