// Drafts of rules on the server, with their versions.

import { type Api, Refusal } from '../api'
import type { Page } from '../codes'
import { type Case, readCase } from '../cases/rule-file'
import type { Subject } from '../editor/schema'
import { type Opened, type RuleDocument, changedCases, emptyDocument, ofPeople, withoutMark } from './document'
import { state } from '../state'

export type DraftStatus = 'open' | 'accepted' | 'rejected'

/** What a client writes. */
export interface DraftBody {
  name: string
  expression: string
  subject: Subject
  comment?: string
  program?: string
  engine?: string
  /** The day of the evaluation, if it is set; otherwise each evaluation is on its own day. */
  as_of?: string
  cases?: Case[]
}

export interface Draft extends DraftBody {
  id: string
  version: number
  author: { client?: string; organization?: string }
  status: DraftStatus
  /** Why it was rejected. */
  reason?: string
  created_at: string
  last_updated: string
}

/** A version of a draft, with the entity tag that a change of it requires. */
export interface Tagged {
  draft: Draft
  tag: string
}

const PAGE = 50

const path = (id: string) => `RuleDraft/${encodeURIComponent(id)}`

export async function listDrafts(api: Api, name: string): Promise<Draft[]> {
  const search = name.trim() ? `&name=${encodeURIComponent(name.trim())}` : ''
  return (await api.read<Page<Draft>>(`RuleDraft?_count=${PAGE}${search}`)).data
}

export async function readDraft(api: Api, id: string): Promise<Tagged> {
  const { body, tag } = await api.tagged<Draft>('GET', path(id))
  return { draft: body, tag }
}

/** Saves a new draft, or the next version of one; a version that is no longer current is 412. */
export async function saveDraft(api: Api, body: DraftBody, version?: { id: string; tag: string }): Promise<Tagged> {
  const saved = version ? await api.tagged<Draft>('PUT', path(version.id), body, version.tag) : await api.tagged<Draft>('POST', 'RuleDraft', body)
  return { draft: saved.body, tag: saved.tag }
}

/** Deletes a draft if the given version is the current one; otherwise 412. The version is also its entity tag. */
export async function deleteDraft(api: Api, { id, version }: Pick<Draft, 'id' | 'version'>): Promise<void> {
  await api.remove(path(id), `"${version}"`)
}

/** The versions of a draft, the newest first. */
export async function versionsOf(api: Api, id: string): Promise<Draft[]> {
  return (await api.read<Page<Draft>>(`${path(id)}/history?_count=${PAGE}`)).data
}

/** Whether the version that was opened is no longer current. */
export function isConflict(error: unknown): boolean {
  return error instanceof Refusal && error.status === 412
}

/** Whether a draft is no longer open; limits and concurrent changes have the same status with other codes. */
export function isClosed(error: unknown): boolean {
  return error instanceof Refusal && error.status === 409 && error.code === 'conflict'
}

/** The current rule as a draft. */
export function currentBody(name: string, comment: string, program: string): DraftBody {
  const { document, a, subject, asOf } = state
  const cases = document.cases.map(withoutMark)
  const engine = state.engine || (program === document.program ? document.engine : '')
  return {
    name,
    expression: a,
    subject,
    ...(comment ? { comment } : {}),
    ...(program ? { program } : {}),
    ...(engine ? { engine } : {}),
    ...(asOf ? { as_of: asOf } : {}),
    ...(cases.length > 0 ? { cases } : {}),
  }
}

/** A draft, or the content of one of its versions, as the current rule. The next save replaces the current version. */
export function openedDraft({ draft, tag }: Tagged, content: Draft = draft): Omit<Opened, 'filter'> {
  const { name, expression, subject, comment = '', program = '', engine = '', as_of: asOf = '', cases = [] } = content
  const own = ofPeople(cases.map((one, at) => readCase(one, `cases[${at + 1}]`)))
  // Without a day the cases are evaluated on the one on which the draft was created, so that their results do not change by
  // themselves.
  const casesAsOf = own.length > 0 ? asOf || content.created_at.slice(0, 10) : ''
  const current = { id: draft.id, tag, version: draft.version }
  const document = { ...emptyDocument(), title: name, about: comment, program, engine, cases: own, casesAsOf, draft: current }
  return { expression, subject, asOf, document }
}

/** Adds the cases of the saved draft that a rule lacks since some were dropped. */
export async function readCasesAgain(api: Api, document: RuleDocument): Promise<void> {
  if (!document.draft) return
  const { document: saved } = openedDraft(await readDraft(api, document.draft.id))
  const lacking = changedCases(document.cases, saved.cases).filter(({ before }) => !before)
  document.cases.push(...ofPeople(lacking.flatMap(({ after }) => after ?? [])))
  document.casesAsOf ||= saved.casesAsOf
  document.dropped = 0
  state.save()
}
