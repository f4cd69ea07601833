// Reads a rule into the rows of the builder, if it has exactly the forms that `model.ts` writes.

import { type Binary, type Call, type Tree, codeOf, dayOf, isSame, numberOf, parse, pathOf, textOf } from '../syntax/parse'
import { COMPARISONS, type Comparison, DIGITS, type Fact, type Group, HELPERS, type Items, type Operator, type Row, type Type, write } from './model'

export type Rows =
  | { kind: 'rows'; group: Group }
  | { kind: 'invalid' }
  /** A rule with a part that the builder has no form for, or with comments, which it would lose. */
  | { kind: 'rich'; part: string | undefined }

/** Thrown at a part that the builder has no form for. */
class Rich extends Error {
  constructor(readonly tree: Tree) {
    super()
  }
}

export function readRows(text: string): Rows {
  if (!text.trim()) return { kind: 'rows', group: { kind: 'group', joined: 'all', rows: [] } }
  const parsed = parse(text)
  if (!parsed) return { kind: 'invalid' }
  if (parsed.hasComments) return { kind: 'rich', part: undefined }
  try {
    const group = readGroup(parsed.tree, ['me'])
    const again = parse(write(group))
    // A spelling that the rows would change is left alone.
    if (!again || !isSame(again.tree, parsed.tree)) throw new Rich(parsed.tree)
    return { kind: 'rows', group }
  } catch (error) {
    if (!(error instanceof Rich)) throw error
    return { kind: 'rich', part: text.slice(error.tree.from, error.tree.to) }
  }
}

/** The conditions of a tree as one group. */
function readGroup(tree: Tree, variables: string[]): Group {
  if (tree.kind !== 'chain') return { kind: 'group', joined: 'all', rows: [readRow(tree, variables)] }
  return { kind: 'group', joined: tree.operator === '&&' ? 'all' : 'any', rows: tree.parts.map((part) => readRow(part, variables)) }
}

function readRow(tree: Tree, variables: string[]): Row {
  if (tree.kind === 'chain') return readGroup(tree, variables)
  const isNegated = tree.kind === 'unary' && tree.operator === '!'
  const inner = isNegated ? tree.of : tree
  const row = readItems(inner, variables, isNegated) ?? readFact(inner, variables, isNegated)
  if (!row) throw new Rich(tree)
  return row
}

function readItems(tree: Tree, variables: string[], isNegated: boolean): Items | undefined {
  if (tree.kind === 'binary') return isNegated ? undefined : readCount(tree, variables)
  if (tree.kind !== 'call') return undefined
  const quantifier = ({ exists: 'exists', all: 'all', exists_one: 'exists_one' } as const)[tree.name]
  if (!quantifier || (isNegated && quantifier !== 'exists')) return undefined
  const items = readMacro(tree, variables)
  return items && { ...items, quantifier: isNegated ? 'none' : quantifier }
}

/** `list.filter(x, …).size() >= 2` */
function readCount({ operator, left, right }: Binary, variables: string[]): Items | undefined {
  const count = numberOf(right)
  if (left.kind !== 'call' || left.name !== 'size' || left.of?.kind !== 'call' || left.of.name !== 'filter') return undefined
  if (count === undefined || !isComparison(operator)) return undefined
  const items = readMacro(left.of, variables)
  return items && { ...items, quantifier: 'count', operator, count }
}

function readMacro({ of, given }: Call, variables: string[]): Items | undefined {
  const [variable, condition] = given
  const list = of && readList(of, variables)
  if (!list || given.length !== 2 || variable?.kind !== 'name' || !condition) return undefined
  const inner = readGroup(condition, [...variables, variable.name])
  return { kind: 'items', list, variable: variable.name, quantifier: 'exists', operator: '>=', count: '1', inner }
}

function readList(tree: Tree, variables: string[]): string | undefined {
  if (tree.kind === 'name') return ['members', 'programs'].includes(tree.name) ? tree.name : undefined
  return readPath(tree, variables)
}

/** The path of a field, or a variable for an item that is a value itself. */
function readPath(tree: Tree | undefined, variables: string[]): string | undefined {
  const path = tree && pathOf(tree)
  if (!path || !variables.includes(path[0] ?? '')) return undefined
  return path.length > 1 || path[0] !== 'me' ? path.join('.') : undefined
}

function readFact(tree: Tree, variables: string[], isNegated: boolean): Fact | undefined {
  const path = tree.kind === 'field' ? readPath(tree, variables) : undefined
  if (path) return { kind: 'fact', path, measure: 'value', operator: '==', type: 'boolean', values: [String(!isNegated)] }
  if (tree.kind === 'call') return readCall(tree, variables, isNegated)
  if (tree.kind !== 'binary') return undefined
  if (tree.operator === 'in') return readIn(tree, variables, isNegated)
  return isNegated ? undefined : readComparison(tree, variables)
}

function readCall(tree: Call, variables: string[], isNegated: boolean): Fact | undefined {
  const [first, second] = tree.given
  if (tree.of || !first) return undefined
  const helper = HELPERS.find((one) => one === tree.name)
  if (helper) {
    if (first.kind !== 'name' || !variables.includes(first.name) || tree.given.length > 1) return undefined
    return { kind: 'fact', path: first.name, measure: helper, operator: '==', type: 'boolean', values: [String(!isNegated)] }
  }
  if (tree.name === 'between') return readBetween(tree.given, variables, isNegated)
  const path = readPath(first, variables)
  if (!path) return undefined
  const fact = { kind: 'fact', path, measure: 'value' } as const
  if (tree.name === 'has') return { ...fact, operator: isNegated ? 'notRecorded' : 'recorded', type: 'text', values: [] }
  const operators = ({ in_group: ['inGroup', 'notInGroup'], descends_from: ['below', 'notBelow'] } as Record<string, [Operator, Operator]>)[tree.name]
  const text = textOf(second)
  if (!operators || text === undefined) return undefined
  return { ...fact, operator: operators[isNegated ? 1 : 0], type: 'code', values: [text] }
}

function readBetween([measured, low, high]: Tree[], variables: string[], isNegated: boolean): Fact | undefined {
  const subject = readMeasured(measured, variables)
  const values = [readValue(low), readValue(high)]
  const [from, to] = values
  if (!subject || !from || !to || from.type !== to.type || (from.type !== 'number' && from.type !== 'date')) return undefined
  return { kind: 'fact', ...subject, operator: isNegated ? 'notBetween' : 'between', type: from.type, values: [from.value, to.value] }
}

function readIn({ left, right }: Binary, variables: string[], isNegated: boolean): Fact | undefined {
  const uri = codeOf(left)
  const list = readPath(right, variables)
  if (uri !== undefined && list) {
    return { kind: 'fact', path: list, measure: 'value', operator: isNegated ? 'notContains' : 'contains', type: 'code', values: [uri] }
  }
  const path = readPath(left, variables)
  if (isNegated || !path || right.kind !== 'list' || right.items.length === 0) return undefined
  const values = right.items.map(readValue)
  const type = values[0]?.type
  if ((type !== 'code' && type !== 'text') || values.some((one) => one?.type !== type)) return undefined
  return { kind: 'fact', path, measure: 'value', operator: 'oneOf', type, values: values.flatMap((one) => (one ? [one.value] : [])) }
}

function readComparison({ operator, left, right }: Binary, variables: string[]): Fact | undefined {
  const subject = readMeasured(left, variables)
  const value = readValue(right)
  if (!subject || !value || !isComparison(operator)) return undefined
  // Codes and texts have no order here.
  if ((value.type === 'code' || value.type === 'text') && operator !== '==' && operator !== '!=') return undefined
  if (subject.measure !== 'value' && value.type !== 'number') return undefined
  return { kind: 'fact', ...subject, operator, type: value.type, values: [value.value] }
}

function readMeasured(tree: Tree | undefined, variables: string[]): Pick<Fact, 'path' | 'measure'> | undefined {
  if (tree?.kind !== 'call') {
    const path = readPath(tree, variables)
    return path === undefined ? undefined : { path, measure: 'value' }
  }
  const [first] = tree.given
  if (tree.name === 'size' && tree.of && tree.given.length === 0) {
    const list = readList(tree.of, variables)
    return list === undefined ? undefined : { path: list, measure: 'size' }
  }
  const path = !tree.of && tree.given.length === 1 ? readPath(first, variables) : undefined
  if (path === undefined || (tree.name !== 'age_years' && tree.name !== 'days_since')) return undefined
  return { path, measure: tree.name }
}

function readValue(tree: Tree | undefined): { type: Type; value: string } | undefined {
  const digits = numberOf(tree)
  if (digits !== undefined) return DIGITS.test(digits) ? { type: 'number', value: digits } : undefined
  const text = textOf(tree)
  // A text of several lines has no input field.
  if (text !== undefined) return text.includes('\n') ? undefined : { type: 'text', value: text }
  const uri = codeOf(tree)
  if (uri !== undefined) return { type: 'code', value: uri }
  const day = dayOf(tree)
  return day === undefined ? undefined : { type: 'date', value: day }
}

function isComparison(operator: string): operator is Comparison {
  return (COMPARISONS as readonly string[]).includes(operator)
}
