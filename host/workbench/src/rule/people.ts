// Shows subjects by name, age and place where the client may read them, and by their identifier otherwise. The records
// are read in one batch, each again after a minute.

import type { Api } from '../api'
import { type Child, h } from '../dom'
import { t } from '../i18n'

interface Address {
  city?: string
  district?: string
  region?: string
}

interface Code {
  display?: string
  code?: string
}

/** The part of a record that is shown. */
export interface RecordShown {
  name?: string | { given?: string; middle?: string; family?: string; text?: string }
  birth_date?: string
  gender?: Code
  address?: Address[]
  quantity?: number
  identifier?: { system: string; value: string }[]
  group_membership?: { group?: { reference?: string; display?: string }; role?: Code; inactive?: boolean }[]
  member?: { entity?: { reference?: string; display?: string }; role?: Code; inactive?: boolean }[]
}

export const ELEMENTS = { Individual: 'name,birth_date,gender,address', Group: 'name,address,quantity' } as const
export type Kind = keyof typeof ELEMENTS

/** The requests that are left to the user when names are read. */
const RESERVE = 20
/** The time for which a record is reused, in milliseconds. */
const FRESH_MS = 60_000

interface Read {
  record: RecordShown
  readAt: number
}

/** The kind, system and value of a reference, `Individual/<system>|<value>`. */
export function parts(reference: string): { kind: Kind; identifier: string; value: string } | undefined {
  const found = /^(Individual|Group)\/(.+\|(.+))$/s.exec(reference)
  if (!found) return undefined
  return { kind: found[1] as Kind, identifier: found[2] ?? '', value: found[3] ?? '' }
}

export function fullName({ name }: RecordShown): string {
  if (name === undefined || typeof name === 'string') return name ?? ''
  return [name.given, name.middle, name.family].filter(Boolean).join(' ') || (name.text ?? '')
}

/** The completed years on a day; undefined without a date of birth or before it. */
export function age(birth: string | undefined, on: string): number | undefined {
  if (!birth || birth > on) return undefined
  const years = Number(on.slice(0, 4)) - Number(birth.slice(0, 4))
  return on.slice(5) >= birth.slice(5) ? years : years - 1
}

/** Age, gender and place, or the size and place of a group. */
export function about(record: RecordShown, on: string): string {
  const years = age(record.birth_date, on)
  const [address] = record.address ?? []
  const places = [address?.city ?? address?.district, address?.region].filter(Boolean).join(', ')
  const known = [
    years === undefined ? '' : t.person.age(years),
    record.gender?.display ?? '',
    record.quantity === undefined ? '' : t.person.members(record.quantity),
    places,
  ]
  return known.filter(Boolean).join(' · ')
}

export function mayRead(api: Api, kind: Kind): boolean {
  return api.may(kind === 'Group' ? 'group:read' : 'individual:read')
}

/** The path of a record. */
export function path({ kind, identifier }: { kind: Kind; identifier: string }): string {
  return `${kind}/${encodeURIComponent(identifier)}`
}

/** The records that were read, by the API object of the session and by reference. */
const known = new WeakMap<Api, Map<string, Read>>()

function recordsOf(api: Api): Map<string, Read> {
  let records = known.get(api)
  if (!records) known.set(api, (records = new Map()))
  return records
}

export function forgetPeople(api: Api): void {
  known.delete(api)
}

/** Reads the records of references; those that cannot be read are left out. */
export async function readPeople(api: Api, references: string[], signal?: AbortSignal): Promise<Map<string, Read>> {
  const records = recordsOf(api)
  for (const [reference, { readAt }] of records) if (Date.now() - readAt >= FRESH_MS) records.delete(reference)
  const wanted = references.flatMap((reference) => {
    const subject = parts(reference)
    return subject && !records.has(reference) && mayRead(api, subject.kind) ? [{ reference, subject }] : []
  })
  // Each read counts as a request: names are left out rather than that the user waits for them.
  if (wanted.length === 0 || (api.budget && api.budget.remaining < wanted.length + RESERVE)) return records
  const entry = wanted.map(({ subject }) => ({
    request: { method: 'GET', url: `${path(subject)}?_elements=${ELEMENTS[subject.kind]}` },
  }))
  const answer = await api.post<{ entry: { resource?: RecordShown }[] }>('$batch', { type: 'batch', entry }, signal)
  answer.entry.forEach(({ resource }, at) => {
    const reference = wanted[at]?.reference
    if (resource && reference !== undefined) records.set(reference, { record: resource, readAt: Date.now() })
  })
  return records
}

/** The name of a subject, what is known of it, and its identifier. */
export function described(api: Api, reference: string, on: string): { name: string; more: Child[] } {
  const value = parts(reference)?.value ?? reference
  const record = recordsOf(api).get(reference)?.record
  const name = record && fullName(record)
  if (!record || !name) return { name: value, more: record ? [h('span', { class: 'hint' }, about(record, on))] : [] }
  return { name, more: [h('span', { class: 'hint' }, about(record, on)), h('code', { class: 'id' }, value)] }
}
