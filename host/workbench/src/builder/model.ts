// The rows of the builder, and the rule that they mean. `read.ts` is the inverse.

import { written as codeText } from '../codes'

export const HELPERS = ['is_female', 'is_male', 'is_head', 'is_pregnant', 'is_alive'] as const
export type Helper = (typeof HELPERS)[number]

/** The part of a fact that is compared: itself, the years or days since a date, the length of a list, or a helper. */
export type Measure = 'value' | 'age_years' | 'days_since' | 'size' | Helper

export const COMPARISONS = ['==', '!=', '<', '<=', '>', '>='] as const
export type Comparison = (typeof COMPARISONS)[number]
export type Operator =
  | Comparison
  | 'between'
  | 'notBetween'
  | 'oneOf'
  | 'inGroup'
  | 'notInGroup'
  | 'below'
  | 'notBelow'
  | 'contains'
  | 'notContains'
  | 'recorded'
  | 'notRecorded'

/** The type of the values of a condition. */
export type Type = 'number' | 'date' | 'text' | 'code' | 'boolean'

export interface Fact {
  kind: 'fact'
  /** Such as `me.birth_date`; empty until it is chosen. */
  path: string
  measure: Measure
  operator: Operator
  type: Type
  /** Digits, days, texts, URIs, names of concept groups; `true` or `false` for a boolean and a helper. */
  values: string[]
}

export type Joined = 'all' | 'any'

export interface Group {
  kind: 'group'
  joined: Joined
  rows: Row[]
}

export type Quantifier = 'exists' | 'all' | 'none' | 'exists_one' | 'count'
export const QUANTIFIERS: Quantifier[] = ['exists', 'all', 'none', 'exists_one', 'count']

/** A condition on the items of a list, such as the members. */
export interface Items {
  kind: 'items'
  list: string
  variable: string
  quantifier: Quantifier
  /** The number of items is compared if it is the quantifier. */
  operator: Comparison
  count: string
  inner: Group
}

export type Row = Fact | Group | Items

/** The longest rule on one line. */
const LINE_MAX = 80

export const DIGITS = /^-?\d+(\.\d+)?$/
const DAY = /^\d{4}-\d{2}-\d{2}$/

/** The number of values that an operator needs; undefined for a list of at least one. */
export function valuesOf(operator: Operator): number | undefined {
  if (operator === 'recorded' || operator === 'notRecorded') return 0
  if (operator === 'between' || operator === 'notBetween') return 2
  return operator === 'oneOf' ? undefined : 1
}

export function isComplete(row: Row): boolean {
  if (row.kind === 'group') return row.rows.length > 0 && row.rows.every(isComplete)
  if (row.kind === 'items') return row.list !== '' && isComplete(row.inner) && (row.quantifier !== 'count' || DIGITS.test(row.count))
  const count = valuesOf(row.operator)
  if (row.path === '' || (count === undefined ? row.values.length === 0 : row.values.length !== count)) return false
  return row.values.every((value) => isValue(row, value))
}

export function isValue({ type, operator }: Fact, value: string): boolean {
  if (type === 'number') return DIGITS.test(value)
  if (type === 'date') return DAY.test(value)
  if (type === 'text' && operator !== 'inGroup') return !value.includes('\n')
  return value !== ''
}

/** The text of a rule; empty without rows. Only for complete rows. */
export function write({ joined, rows }: Group): string {
  const parts = rows.map((row) => writeRow(row, rows.length > 1))
  const symbol = joined === 'all' ? '&&' : '||'
  const line = parts.join(` ${symbol} `)
  return line.length <= LINE_MAX ? line : parts.join(`\n  ${symbol} `)
}

function writeRow(row: Row, isPart: boolean): string {
  if (row.kind === 'group') {
    const text = writeGroup(row)
    return isPart && row.rows.length > 1 ? `(${text})` : text
  }
  return row.kind === 'items' ? writeItems(row) : writeFact(row)
}

function writeGroup({ joined, rows }: Group): string {
  return rows.map((row) => writeRow(row, rows.length > 1)).join(joined === 'all' ? ' && ' : ' || ')
}

function writeItems({ list, variable, quantifier, operator, count, inner }: Items): string {
  const body = `(${variable}, ${writeGroup(inner)})`
  if (quantifier === 'count') return `${list}.filter${body}.size() ${operator} ${count}`
  return quantifier === 'none' ? `!${list}.exists${body}` : `${list}.${quantifier}${body}`
}

function writeFact(fact: Fact): string {
  const { path, operator, values } = fact
  const [first = '', second = ''] = values.map((value) => writeValue(fact, value))
  const measured = writeMeasured(fact)
  if (operator === 'recorded') return `has(${path})`
  if (operator === 'notRecorded') return `!has(${path})`
  if (fact.type === 'boolean') return values[0] === 'true' ? measured : `!${measured}`
  switch (operator) {
    case 'between':
    case 'notBetween':
      return `${operator === 'between' ? '' : '!'}between(${measured}, ${first}, ${second})`
    case 'oneOf':
      return `${measured} in [${values.map((value) => writeValue(fact, value)).join(', ')}]`
    case 'inGroup':
    case 'notInGroup':
      return `${operator === 'inGroup' ? '' : '!'}in_group(${path}, ${quotedText(values[0] ?? '')})`
    case 'below':
    case 'notBelow':
      return `${operator === 'below' ? '' : '!'}descends_from(${path}, ${quotedText(values[0] ?? '')})`
    case 'contains':
      return `${first} in ${path}`
    case 'notContains':
      return `!(${first} in ${path})`
    default:
      return `${measured} ${operator} ${first}`
  }
}

function writeMeasured({ path, measure }: Fact): string {
  if (measure === 'value') return path
  return measure === 'size' ? `${path}.size()` : `${measure}(${path})`
}

function writeValue({ type }: Fact, value: string): string {
  if (type === 'number') return value
  if (type === 'date') return `date('${value}')`
  return type === 'code' ? codeText(value) : quotedText(value)
}

function quotedText(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}
