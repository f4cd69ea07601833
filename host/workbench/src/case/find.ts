// Finds people and groups by words of their name, by a bare identifier, or by the whole reference.

import type { Api } from '../api'
import type { Page } from '../codes'
import { ELEMENTS, type Kind, type RecordShown, mayRead, parts } from '../rule/people'

export interface FoundSubject {
  reference: string
  record: RecordShown | undefined
}

/** The vocabulary of identifier systems. */
const SYSTEMS = 'urn:svc:vocab:id-type'
const FOUND_MAX = 8

export async function findSubjects(api: Api, kind: Kind, text: string, signal?: AbortSignal): Promise<FoundSubject[]> {
  const whole = parts(text)
  if (whole) return [{ reference: text, record: undefined }]
  if (!mayRead(api, kind)) return []
  const urls: string[] = []
  const search = (filter: string) => urls.push(`${kind}?${filter}&_count=${FOUND_MAX}&_elements=${ELEMENTS[kind]}`)
  if (text.includes('|')) {
    search(`identifier=${encodeURIComponent(text)}`)
  } else {
    if (/\p{L}/u.test(text)) search(`name=${encodeURIComponent(text)}`)
    if (/\d/.test(text)) {
      for (const system of await systemsOf(api)) search(`identifier=${encodeURIComponent(`${system}|${text}`)}`)
    }
  }
  if (urls.length === 0) return []
  const entry = urls.map((url) => ({ request: { method: 'GET', url } }))
  const answer = await api.post<{ entry: { resource?: { data?: RecordShown[] } }[] }>('$batch', { type: 'batch', entry }, signal)
  const found = new Map<string, FoundSubject>()
  for (const record of answer.entry.flatMap(({ resource }) => resource?.data ?? [])) {
    const identifier = record.identifier?.find(({ value }) => value === text) ?? record.identifier?.[0]
    if (!identifier) continue
    const reference = `${kind}/${identifier.system}|${identifier.value}`
    if (!found.has(reference)) found.set(reference, { reference, record })
  }
  return [...found.values()].slice(0, FOUND_MAX)
}

/** The systems in which a bare identifier is searched. */
async function systemsOf(api: Api): Promise<string[]> {
  if (!api.may('vocabulary:read')) return []
  const page = await api.get<Page<{ uri: string }>>(`Vocabulary/${encodeURIComponent(SYSTEMS)}/codes?_count=20`)
  return page.data.map(({ uri }) => uri)
}
