// The fields that rules may use, read from the API description, which includes those of installed modules.

import type { Api } from '../api'
import { lookUp } from './words'

export interface Field {
  name: string
  /** The kind of its value: `code`, `date`, `text`, `number`, `boolean`, `list` or `object`. */
  type: string
  /** Its description and vocabularies. */
  says: string
  /** The namespaces of its codes, or of the codes in a list; empty if it has none or any. */
  vocabularies: string[]
  /** Its fields, by name. */
  fields: Map<string, Field>
  /** Its possible values, if they are listed. */
  choices?: string[]
}

type Fields = Map<string, Field>

export interface Schema {
  person: Fields
  group: Fields
  membership: Fields
}

interface Shape {
  $ref?: string
  type?: string | string[]
  format?: string
  description?: string
  enum?: (string | null)[]
  properties?: Record<string, Shape>
  items?: Shape
  anyOf?: Shape[]
}

/** Fields of records that rules cannot read. */
const UNREAD = new Set(['type', 'identifier', 'meta', 'photo', 'group_membership', 'member', 'relationship', 'quantity'])
/** Fields of memberships that rules can read. */
const MEMBERSHIP = ['program', 'status', 'enrollment_date', 'exit_date', 'exit_reason']
const DEPTH_MAX = 4
/** The most nested macros that are followed: two variables may refer to items of each other. */
const MACROS_MAX = 8

export async function readSchema(api: Api): Promise<Schema> {
  const document = await api.get<{ components: { schemas: Record<string, Shape> } }>('openapi.json')
  const shapes = document.components.schemas
  const resolve = (shape: Shape): Shape => {
    const name = shape.$ref?.split('/').pop()
    // A description beside a reference is more specific than that of its target.
    return name === undefined ? shape : { ...shapes[name], ...shape }
  }
  const fieldsOf = (shape: Shape, depth: number): Fields => {
    const properties = depth === 0 ? {} : (resolve(shape).properties ?? {})
    return new Map(Object.entries(properties).map(([name, inner]) => [name, fieldOf(name, inner, depth - 1)]))
  }
  const fieldOf = (name: string, given: Shape, depth: number): Field => {
    const shape = resolve(given)
    if (shape.items) {
      const item = fieldOf(name, shape.items, depth)
      return { ...item, type: 'list', says: shape.description ?? item.says }
    }
    const isCode = given.$ref?.endsWith('/Code') === true
    const says = shape.description ?? ''
    const vocabularies = isCode ? vocabulariesIn(says) : []
    const field = { name, type: isCode ? 'code' : typeOf(shape), says, vocabularies, fields: fieldsOf(shape, depth) }
    return shape.enum ? { ...field, choices: shape.enum.filter((choice) => choice !== null) } : field
  }
  const without = (fields: Fields): Fields => new Map([...fields].filter(([name]) => !UNREAD.has(name)))
  const named = (name: string): Fields => fieldsOf(shapes[name] ?? {}, DEPTH_MAX)
  const person = without(named('Individual'))
  const role = fieldsOf(shapes['Member'] ?? {}, 2).get('role')
  if (role) person.set('role', { ...role, says: role.says || 'The place in the household.' })
  const membership = new Map([...named('ProgramMembership')].filter(([name]) => MEMBERSHIP.includes(name)))
  return { person, group: without(named('Group')), membership }
}

/** The vocabularies in the description of a field: "A code of `urn:a` or `urn:b`." */
function vocabulariesIn(says: string): string[] {
  if (!says.startsWith('A code of ')) return []
  return [...says.matchAll(/`([^`]+)`/g)].map((found) => found[1] ?? '')
}

/** The fields of records, read once for a session. */
const schemas = new WeakMap<Api, Promise<Schema | undefined>>()

export function schemaOf(api: Api): Promise<Schema | undefined> {
  let reading = schemas.get(api)
  if (!reading) {
    // Without it completion knows no fields; everything else works.
    reading = readSchema(api).catch(() => undefined)
    schemas.set(api, reading)
    void reading.then((schema) => {
      if (!schema) schemas.delete(api)
    })
  }
  return reading
}

function typeOf(shape: Shape): string {
  if (shape.format === 'date') return 'date'
  const type = Array.isArray(shape.type) ? shape.type[0] : shape.type
  return type === 'string' ? 'text' : type === 'integer' ? 'number' : (type ?? 'object')
}

export type Subject = 'individual' | 'group'

/** The fields below a path such as `me.address`, or of a variable of a macro. */
export function fieldsBelow(
  schema: Schema,
  subject: Subject,
  text: string,
  path: string[],
  macros = MACROS_MAX,
): Fields | undefined {
  const [root, ...rest] = path
  if (root === undefined) return undefined
  let fields = rootFields(schema, subject, root) ?? variableFields(schema, subject, text, root, macros)
  for (const name of rest) fields = fields?.get(name)?.fields
  return fields
}

function rootFields(schema: Schema, subject: Subject, root: string): Fields | undefined {
  if (root === 'me') return subject === 'group' ? schema.group : schema.person
  return undefined
}

/** The meaning of a variable: an item of the list whose macro declares it, `members.exists(m, …)`. */
function variableFields(
  schema: Schema,
  subject: Subject,
  text: string,
  variable: string,
  macros: number,
): Fields | undefined {
  if (macros === 0 || !/^\w+$/.test(variable)) return undefined
  const path = listOf(text, variable)
  if (!path) return undefined
  if (path[0] === 'members') return schema.person
  if (path[0] === 'programs') return schema.membership
  return fieldsBelow(schema, subject, text, path, macros - 1)
}

/** The path of the list whose macro declares a variable. */
function listOf(text: string, variable: string): string[] | undefined {
  const macro = new RegExp(`\\.(?:exists|all|exists_one|filter|map)\\(\\s*${variable}\\s*,`).exec(text)
  if (!macro) return undefined
  const chain = chainBefore(text, macro.index)
  // `map` may change the type of items; `filter` does not.
  if (chain.includes('map')) return undefined
  return chain.filter((name) => name !== 'filter')
}

/** The names of a chain that ends at a position, without the content of parentheses: `members.filter(…)` is `members`, `filter`. */
function chainBefore(text: string, end: number): string[] {
  let chain = ''
  let depth = 0
  for (let at = end - 1; at >= 0; at -= 1) {
    const letter = text[at] ?? ''
    if (letter === ')') depth += 1
    else if (letter === '(') {
      depth -= 1
      if (depth < 0) break
    } else if (depth === 0) {
      if (!/[\w.]/.test(letter)) break
      chain = letter + chain
    }
  }
  return chain.split('.')
}

/** The field of a path such as `me.birth_date`. */
export function findField(schema: Schema, subject: Subject, text: string, path: string[]): Field | undefined {
  const name = path.at(-1)
  if (name === undefined || path.length < 2 || lookUp(path[0] ?? '')?.kind === 'function') return undefined
  return fieldsBelow(schema, subject, text, path.slice(0, -1))?.get(name)
}

/** The field whose values a path has: `me.gender`, or a variable for the items of a list of codes. */
export function valueField(schema: Schema, subject: Subject, text: string, path: string): Field | undefined {
  const names = path.split('.')
  if (names.length > 1) return findField(schema, subject, text, names)
  if (lookUp(path) || !/^\w+$/.test(path)) return undefined
  const list = listOf(text, path)
  return list && findField(schema, subject, text, list)
}
