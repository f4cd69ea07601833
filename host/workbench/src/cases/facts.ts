// The facts that a rule reads, as the inputs of a form, and their values in the body of a record.

import { type Api, Refusal } from '../api'
import type { Validated } from '../editor/diagnostics'
import { type Field, type Schema, type Subject, schemaOf } from '../editor/schema'
import type { Body } from './rule-file'

/** A fact, or a list of objects with facts of their own. */
export interface Fact {
  /** The names from the record on. */
  path: string[]
  field: Field
  /** The facts of each object of a list. */
  items: Fact[]
}

/** The facts that a rule reads, by where they are recorded. */
export interface Facts {
  me: Fact[]
  /** Undefined if the rule does not read them. */
  members: Fact[] | undefined
  programs: Fact[] | undefined
}

const ROOTS = ['members', 'programs'] as const

/** The facts of a rule by its references, such as `me.gender`, `members` and `me.address[].district`. */
export function factsOf(references: string[], schema: Schema, subject: Subject): Facts {
  const fields = { me: subject === 'group' ? schema.group : schema.person, members: schema.person, programs: schema.membership }
  const below = (root: keyof typeof fields) => {
    const paths = references.filter((one) => one.startsWith(`${root}.`)).map((one) => one.slice(root.length + 1))
    return facts(paths.map((path) => path.split('.')), fields[root], [])
  }
  const reads = (root: string) => references.some((one) => one === root || one.startsWith(`${root}.`))
  const [members, programs] = ROOTS.map((root) => (reads(root) ? below(root) : undefined))
  return { me: below('me'), members, programs }
}

/** Groups paths by their first name; `address[]` is a list of objects. */
function facts(paths: string[][], fields: Map<string, Field>, before: string[]): Fact[] {
  const names = [...new Set(paths.map(([name = '']) => name.replace('[]', '')))]
  return names.flatMap((name): Fact[] => {
    const rests = paths.filter(([first]) => first?.replace('[]', '') === name).map((path) => path.slice(1)).filter((rest) => rest.length > 0)
    const field = fields.get(name)
    if (!field) return []
    const path = [...before, name]
    const isObjects = field.type === 'list' && field.fields.size > 0 && !isCoded(field)
    if (isObjects) return [{ path, field, items: facts(rests, field.fields, []) }]
    if (field.type === 'object') {
      // Without a part, such as in `has(me.income)`, all of it can be recorded.
      const inside = rests.length > 0 ? rests : [...field.fields.keys()].map((part) => [part])
      return facts(inside, field.fields, path)
    }
    return [{ path, field, items: [] }]
  })
}

/** Whether the values of a field, or the items of its list, are codes. */
export function isCoded({ type, fields }: Field): boolean {
  return type === 'code' || (fields.has('uri') && fields.has('namespace'))
}

export function valueAt(record: Body, path: string[]): unknown {
  let value: unknown = record
  for (const name of path) value = typeof value === 'object' && value !== null ? (value as Body)[name] : undefined
  return value
}

/** Records a value, or removes it; objects without content are removed too. */
export function record(body: Body, [name = '', ...rest]: string[], value: unknown): void {
  if (rest.length > 0) {
    const inside = (body[name] ?? {}) as Body
    record(inside, rest, value)
    value = Object.keys(inside).length > 0 ? inside : undefined
  }
  if (value === undefined) delete body[name]
  else body[name] = value
}

/** A value as a create request has it: a coded value is its URI. */
export function sent(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sent)
  if (typeof value !== 'object' || value === null) return value
  const object = value as Body
  if (typeof object['uri'] === 'string') return object['uri']
  return Object.fromEntries(Object.entries(object).map(([name, inside]) => [name, sent(inside)]))
}

/** The facts of a stored record, without any other of its content. */
export function selected(stored: Body, facts: Fact[]): Body {
  const body: Body = {}
  for (const { path, items } of facts) {
    const value = valueAt(stored, path)
    if (value === undefined || value === null) continue
    const objects = items.length > 0 && Array.isArray(value) ? value.map((one) => selected(one as Body, items)) : sent(value)
    record(body, path, objects)
  }
  return body
}

const read = new WeakMap<Api, Map<string, Promise<Validated>>>()

/** The facts that a rule reads; undefined if it is not valid, or if the fields are not known. */
export async function factsOfRule(api: Api, expression: string, subject: Subject): Promise<Facts | undefined> {
  let known = read.get(api)
  if (!known) read.set(api, (known = new Map()))
  const key = `${subject} ${expression}`
  let validating = known.get(key)
  if (!validating) {
    validating = api.post<Validated>('Eligibility/$validate', { expression, subject })
    known.set(key, validating)
    void validating.catch((error: unknown) => {
      if (!(error instanceof Refusal && error.status === 422)) known.delete(key)
    })
  }
  const [validated, schema] = await Promise.all([validating, schemaOf(api)])
  return validated.valid && schema ? factsOf(validated.references, schema, subject) : undefined
}
