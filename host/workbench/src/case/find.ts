// Finds people and groups by words of their name, by a bare identifier, or by the whole reference.

import type { Api } from '../api'
import type { Page } from '../codes'
import { ELEMENTS, type Kind, type RecordShown, mayRead, parts } from '../rule/people'
import { type Problem, problemText } from '../server/translate'

export interface FoundSubject {
  reference: string
  record: RecordShown | undefined
}

/** The response to one search. */
interface Found {
  response: { status: number }
  resource?: { data?: RecordShown[] }
  problem?: Problem
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
  const answer = await api.post<{ entry: Found[] }>('$batch', { type: 'batch', entry }, signal)
  const [first] = answer.entry
  if (first?.problem && answer.entry.every(({ problem }) => problem)) throw new Error(problemText(first.problem, first.response.status))
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
