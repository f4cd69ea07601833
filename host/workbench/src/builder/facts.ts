// The facts and lists that the builder offers: the fields of the rule schema, the age, the lengths of lists and the
// helpers, with their names in the language of the page.

import type { Field, Schema, Subject } from '../editor/schema'
import { currentLanguage, t } from '../i18n'
import { nameOf, pieces } from '../reading/terms'
import type { Strings } from '../strings/en'
import { type Fact, HELPERS, type Measure, type Operator, type Type } from './model'

/** A variable of the rule and the fields of its values. */
export interface Place {
  variable: string
  owner: keyof Strings['reading']['owner']
  /** The name of its list in the names of fields; empty for people and groups. */
  prefix: string
  fields: Map<string, Field>
  /** The vocabularies of an item that is a code itself. */
  vocabularies: string[]
}

export interface Choice {
  path: string
  measure: Measure
  label: string
  type: Type
  vocabularies: string[]
  /** Its possible values, if they are listed. */
  choices: string[]
  /** A list has codes that it contains; an object is only recorded or not. */
  shape: 'value' | 'list' | 'object'
}

/** The facts of one variable. */
export interface Choices {
  owner: string
  status: Choice[]
  facts: Choice[]
}

export interface ListChoice {
  path: string
  label: string
}

/** The article before the name of a fact, which a list of names omits. */
const ARTICLES: Record<string, RegExp> = {
  en: /^the /i,
  fr: /^(?:les? |la |l’)/i,
  es: /^(?:el|la|los|las) /i,
  pt: /^(?:os?|as?) /i,
}

/** The name of a fact as a label. */
export function labelOf(name: string): string {
  const bare = pieces(name).join('').replace(ARTICLES[currentLanguage()] ?? /^$/, '')
  return bare.replace(/^\p{Ll}/u, (first) => first.toUpperCase())
}

/** The place of the subject of the rule. */
export function start(schema: Schema, subject: Subject): Place {
  const isGroup = subject === 'group'
  return { variable: 'me', owner: isGroup ? 'group' : 'person', prefix: '', fields: isGroup ? schema.group : schema.person, vocabularies: [] }
}

/** The place of the items of a list. */
export function placeOf(schema: Schema, places: Place[], list: string, variable: string): Place {
  if (list === 'members') return { variable, owner: 'member', prefix: '', fields: schema.person, vocabularies: [] }
  if (list === 'programs') return { variable, owner: 'program', prefix: 'program', fields: schema.membership, vocabularies: [] }
  const [root, ...names] = list.split('.')
  const place = places.findLast((one) => one.variable === root)
  const field = place && fieldAt(place, names)
  const prefix = [place?.prefix, ...names].filter(Boolean).join('.')
  return { variable, owner: 'item', prefix, fields: field?.fields ?? new Map(), vocabularies: field?.vocabularies ?? [] }
}

function fieldAt({ fields }: Place, names: string[]): Field | undefined {
  let field: Field | undefined
  let below = fields
  for (const name of names) {
    field = below.get(name)
    below = field?.fields ?? new Map()
  }
  return field
}

/** The facts of a variable, those about its status first. */
export function choicesOf(place: Place): Choices {
  const isPerson = place.fields.has('birth_date')
  const choice = (path: string, measure: Measure, label: string, type: Type): Choice => ({ path, measure, label, type, vocabularies: [], choices: [], shape: 'value' })
  const status = isPerson ? HELPERS.map((helper) => choice(place.variable, helper, labelOf(t.builder.helpers[helper]), 'boolean')) : []
  const facts: Choice[] = []
  if (place.vocabularies.length > 0) {
    facts.push({ ...choice(place.variable, 'value', labelOf(t.reading.itself), 'code'), vocabularies: place.vocabularies })
  }
  if (isPerson) facts.push(choice(`${place.variable}.birth_date`, 'age_years', labelOf(t.reading.age), 'number'))
  if (place.variable === 'me') facts.push(choice('members', 'size', labelOf(t.reading.members.count), 'number'))
  const visit = (fields: Map<string, Field>, names: string[]) => {
    for (const field of fields.values()) {
      const path = [...names, field.name]
      facts.push(...ofField(place, field, path))
      if (field.type === 'object') visit(field.fields, path)
    }
  }
  visit(place.fields, [])
  return { owner: labelOf(t.reading.owner[place.owner]), status, facts }
}

function ofField(place: Place, field: Field, names: string[]): Choice[] {
  const path = [place.variable, ...names].join('.')
  const label = labelOf(nameOf([place.prefix, ...names].filter(Boolean)))
  const one: Choice = { path, measure: 'value', label, type: 'text', vocabularies: field.vocabularies, choices: field.choices ?? [], shape: 'value' }
  switch (field.type) {
    case 'list': {
      const size: Choice = { ...one, measure: 'size', label: `${label}: ${t.builder.size}`, type: 'number' }
      return field.vocabularies.length > 0 ? [{ ...one, type: 'code', shape: 'list' }, size] : [size]
    }
    case 'code':
    case 'date':
    case 'number':
    case 'boolean':
    case 'text':
      return [{ ...one, type: field.type }]
    default:
      // An object without known fields may be one of a module that is not installed.
      return field.fields.size > 0 && field.name !== 'extension' ? [{ ...one, shape: 'object' }] : []
  }
}

/** The lists of a variable, and for the subject its members and programs. */
export function listsOf(place: Place): ListChoice[] {
  const lists: ListChoice[] = []
  if (place.variable === 'me') {
    lists.push({ path: 'members', label: labelOf(t.reading.members.list) }, { path: 'programs', label: labelOf(t.reading.programs.list) })
  }
  const visit = (fields: Map<string, Field>, names: string[]) => {
    for (const field of fields.values()) {
      const all = [...names, field.name]
      if (field.type === 'list') lists.push({ path: [place.variable, ...all].join('.'), label: labelOf(nameOf([place.prefix, ...all].filter(Boolean))) })
      else if (field.type === 'object') visit(field.fields, all)
    }
  }
  visit(place.fields, [])
  return lists
}

/** The operators of a fact; the first is the default. */
export function operatorsOf({ type, measure, shape, choices }: Choice): Operator[] {
  if (shape === 'object') return ['recorded', 'notRecorded']
  if (shape === 'list') return ['contains', 'notContains', 'recorded', 'notRecorded']
  const recorded: Operator[] = measure === 'value' ? ['recorded', 'notRecorded'] : []
  if (type === 'number') return ['>=', '<', '>', '<=', 'between', 'notBetween', '==', '!=', ...recorded]
  if (type === 'date') return ['<', '<=', '>', '>=', 'between', 'notBetween', '==', '!=', ...recorded]
  if (type === 'code') return ['==', '!=', 'oneOf', 'below', 'notBelow', 'inGroup', 'notInGroup', ...recorded]
  if (type === 'boolean') return ['==', ...recorded]
  return choices.length > 0 ? ['==', '!=', ...recorded] : ['==', '!=', 'oneOf', ...recorded]
}

/** A new variable for the items of a list. */
export function freshVariable(list: string, places: Place[]): string {
  const name = list.split('.').at(-1) ?? ''
  const initial = name === 'members' ? 'm' : name === 'programs' ? 'p' : name === 'disability_codes' || name === 'health_conditions' ? 'c' : (/^[a-z]/.exec(name)?.[0] ?? 'x')
  const taken = new Set(places.map(({ variable }) => variable))
  for (let at = 1; ; at += 1) {
    const variable = at === 1 ? initial : `${initial}${at}`
    if (!taken.has(variable)) return variable
  }
}

/** The choice of a fact in the rows, also one that the schema does not have. */
export function chosen({ path, measure, type, operator }: Fact, known: Choice[]): Choice | undefined {
  if (path === '') return undefined
  const measures: Measure[] = measure === 'days_since' ? ['days_since', 'age_years'] : [measure]
  const found = known.find((one) => one.path === path && measures.includes(one.measure))
  // A comparison may be with a value of another type than that of the field; the server says so.
  if (found && (operator === 'recorded' || operator === 'notRecorded' || found.type === type)) return found
  const label = measure === 'value' ? path : `${measure}(${path})`
  return { path, measure, label, type, vocabularies: found?.vocabularies ?? [], choices: [], shape: found?.shape ?? 'value' }
}
