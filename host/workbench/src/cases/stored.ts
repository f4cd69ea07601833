// A stored person or group as a record of a request, with the facts that a rule reads and that the client may see.

import type { Api } from '../api'
import { t } from '../i18n'
import { type Kind, type RecordShown, parts, path } from '../rule/people'
import { type Facts, selected } from './facts'
import type { Body } from './rule-file'

/** A member of a group, as the record of the group has it. */
interface Listed {
  entity?: { reference?: string; display?: string }
  role?: { uri?: string; display?: string }
  inactive?: boolean
}

export interface Stored extends Omit<RecordShown, 'member'> {
  group_type?: { code?: string }
  member?: Listed[]
}

export interface Described {
  record: Body
  /** The members by name and role, in the order of the record. */
  names: string[]
}

/** The most members that are read. */
const MEMBERS_MAX = 60
const MEMBERSHIPS_MAX = 100

/** The facts are read as they are now, beside an outcome that is: nothing is taken from the cache. */
export async function describe(api: Api, reference: string, facts: Facts): Promise<Described> {
  const subject = parts(reference)
  if (!subject) throw new Error(t.case.notFound)
  const read = (path: string) => api.read<Stored>(path)
  const stored = await read(path(subject))
  const isGroup = subject.kind === 'Group'
  const record: Body = { type: isGroup ? 'group' : 'individual', ...selected(stored as Body, facts.me) }
  let names: string[] = []
  const readsRole = facts.me.some(({ path: [name] }) => name === 'role')
  if (facts.members || (readsRole && !isGroup)) {
    const group = isGroup ? stored : await household(read, stored)
    const listed = active(group?.member ?? [])
    // Several households are unknown to a rule, none has no members.
    if (facts.members && group !== null) {
      record['members'] = group ? await members(api, listed, facts) : []
      names = listed.map(labelled)
    }
    const own = listed.find(({ entity }) => entity?.reference === reference)
    if (readsRole && own?.role?.uri) record['role'] = own.role.uri
  }
  if (facts.programs) record['programs'] = await memberships(api, reference, facts)
  return { record, names }
}

/** The names of the members of a subject's group, in the order in which rules count them; empty if they are not visible. */
export async function memberNames(api: Api, kind: Kind, stored: Stored, signal?: AbortSignal): Promise<string[]> {
  if (!api.may('group:read')) return []
  const group = kind === 'Group' ? stored : await household((path) => api.read<Stored>(path, signal), stored)
  return active(group?.member ?? []).map(labelled)
}

function active<T extends { inactive?: boolean }>(all: T[]): T[] {
  return all.filter(({ inactive }) => inactive !== true)
}

/** A member by name and role. */
function labelled({ entity, role }: Listed): string {
  const name = entity?.display ?? (entity?.reference && parts(entity.reference)?.value) ?? ''
  return role?.display ? `${name} (${role.display})` : name
}

/** The one active household of a person; undefined if there is none, null if there are several. */
async function household(read: (path: string) => Promise<Stored>, person: Stored): Promise<Stored | undefined | null> {
  const found: Stored[] = []
  for (const { group } of active(person.group_membership ?? [])) {
    const subject = group?.reference === undefined ? undefined : parts(group.reference)
    const stored = subject && (await read(path(subject)))
    if (stored?.group_type?.code === 'household') found.push(stored)
  }
  return found.length > 1 ? null : found[0]
}

async function members(api: Api, listed: Listed[], facts: Facts): Promise<Body[]> {
  if (listed.length > MEMBERS_MAX) throw new Error(t.keep.whatIf.tooMany(MEMBERS_MAX))
  const wanted = facts.members ?? []
  const own = wanted.filter(({ path: [name] }) => name !== 'role')
  const role = (one: Listed): Body => (wanted.length > own.length && one.role?.uri ? { role: one.role.uri } : {})
  if (own.length === 0 || listed.length === 0) return listed.map(role)
  const elements = [...new Set(own.map(({ path: [name] }) => name))].join(',')
  const entry = listed.map(({ entity }) => {
    const subject = parts(entity?.reference ?? '')
    return { request: { method: 'GET', url: subject ? `${path(subject)}?_elements=${elements}` : '' } }
  })
  const answer = await api.post<{ entry: { resource?: Body }[] }>('$batch', { type: 'batch', entry })
  return listed.map((one, at) => ({ ...selected(answer.entry[at]?.resource ?? {}, own), ...role(one) }))
}

async function memberships(api: Api, reference: string, facts: Facts): Promise<Body[]> {
  const query = `ProgramMembership?beneficiary=${encodeURIComponent(reference)}&_count=${MEMBERSHIPS_MAX}`
  const { data } = await api.read<{ data: Body[] }>(query)
  return data.map((one) => ({ program: one['program'], ...selected(one, facts.programs ?? []) }))
}
