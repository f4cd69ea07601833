// The reading of a rule: its conditions as sentences in the language of the page. Any rule has one; a part without
// words of its own is shown as it is written.

import { currentLanguage, either, t } from '../i18n'
import { type Call, type Tree, codeOf, dayOf, numberOf, pathOf, textOf } from '../syntax/parse'
import { type Reading, type Scope, Terms, marked } from './terms'

/** A sentence, or the beginning of one that its parts complete. */
export interface Clause {
  text: string
  parts: Clause[]
  kind: 'all' | 'any' | 'other'
}

const KEYS = { '==': 'eq', '!=': 'ne', '<': 'lt', '<=': 'le', '>': 'gt', '>=': 'ge' } as const
type Operator = keyof typeof KEYS
const OPPOSITE: Record<Operator, Operator> = { '==': '!=', '!=': '==', '<': '>=', '<=': '>', '>': '<=', '>=': '<' }
const MIRRORED: Record<Operator, Operator> = { '==': '==', '!=': '!=', '<': '>', '<=': '>=', '>': '<', '>=': '<=' }
const HELPERS = ['is_female', 'is_male', 'is_head', 'is_pregnant', 'is_alive'] as const
const TEXT_TESTS = ['startsWith', 'endsWith', 'contains', 'matches'] as const

const leaf = (text: string): Clause => ({ text, parts: [], kind: 'other' })

/** The rule as one sentence with its conditions as parts. */
export function read(tree: Tree, reading: Reading): Clause {
  const clause = new Reader(reading).whole(tree)
  const isPeople = reading.subject === 'individual'
  const say = clause.kind === 'other' ? t.reading.eligibleIf : t.reading.eligibleIfList
  return { ...clause, text: say(isPeople, clause.text) }
}

/** One condition of the rule. */
export function readPart(tree: Tree, reading: Reading): Clause {
  return new Reader(reading).whole(tree)
}

/** A clause in one line. */
export function inLine(clause: Clause): string {
  if (clause.parts.length === 0) return clause.text
  const parts = clause.parts.map((part) => (part.kind === 'other' ? inLine(part) : `(${inLine(part)})`))
  if (clause.kind === 'other') return `${clause.text}${t.reading.colon} ${parts.join(' ')}`
  const type = clause.kind === 'all' ? 'conjunction' : 'disjunction'
  const joined = new Intl.ListFormat(currentLanguage(), { type }).format(parts)
  // A quantifier before the joined conditions stays.
  const heads = [t.reading.all, t.reading.any]
  return heads.includes(clause.text) ? joined : `${clause.text}${t.reading.colon} ${joined}`
}

class Reader {
  #terms: Terms

  constructor(reading: Reading) {
    this.#terms = new Terms(reading, (condition, scopes) => inLine(this.#clause(condition, scopes)))
  }

  whole(tree: Tree): Clause {
    return this.#clause(tree, this.#terms.start)
  }

  #clause(tree: Tree, scopes: Scope[], isNegated = false): Clause {
    if (tree.kind === 'unary' && tree.operator === '!') return this.#clause(tree.of, scopes, !isNegated)
    if (tree.kind === 'chain') {
      // The negation of a conjunction is a disjunction of negations, and vice versa.
      const kind = (tree.operator === '&&') !== isNegated ? 'all' : 'any'
      return { text: t.reading[kind], kind, parts: tree.parts.map((part) => this.#clause(part, scopes, isNegated)) }
    }
    if (tree.kind === 'choice') {
      const when = t.reading.ifTrue(inLine(this.#clause(tree.when, scopes)))
      const part = (text: string, of: Tree): Clause => ({ text, kind: 'other', parts: [this.#clause(of, scopes, isNegated)] })
      return { text: t.reading.all, kind: 'all', parts: [part(when, tree.then), part(t.reading.ifFalse, tree.otherwise)] }
    }
    if (tree.kind === 'binary') return this.#binary(tree, scopes, isNegated)
    if (tree.kind === 'call') return this.#call(tree, scopes, isNegated) ?? this.#unknown(tree, isNegated)
    if (tree.kind === 'literal' && tree.type === 'other') {
      if (tree.value === 'true' || tree.value === 'false') return leaf((tree.value === 'true') !== isNegated ? t.reading.always : t.reading.never)
    }
    if (pathOf(tree) && this.#terms.scopeOf(tree, scopes)) return this.#truth(tree, scopes, !isNegated)
    return this.#unknown(tree, isNegated)
  }

  #truth(tree: Tree, scopes: Scope[], isTrue: boolean): Clause {
    const x = this.#terms.term(tree, scopes)
    return leaf(isTrue ? t.reading.isTrue(x) : t.reading.isFalse(x))
  }

  #unknown(tree: Tree, isNegated: boolean): Clause {
    const part = this.#terms.text(tree)
    return leaf(isNegated ? t.reading.holdsNot(part) : t.reading.holds(part))
  }

  #binary(tree: Tree & { kind: 'binary' }, scopes: Scope[], isNegated: boolean): Clause {
    const { operator, left, right } = tree
    if (operator === 'in') return this.#in(left, right, scopes, isNegated)
    if (!(operator in KEYS)) return this.#unknown(tree, isNegated)
    const own = isNegated ? OPPOSITE[operator as Operator] : (operator as Operator)
    const isMirrored = this.#isConstant(left) && !this.#isConstant(right)
    return isMirrored ? this.#compared(MIRRORED[own], right, left, scopes) : this.#compared(own, left, right, scopes)
  }

  #isConstant(tree: Tree): boolean {
    return this.#terms.constant(tree) !== undefined || this.#terms.isToday(tree)
  }

  #compared(operator: Operator, left: Tree, right: Tree, scopes: Scope[]): Clause {
    const terms = this.#terms
    const key = KEYS[operator]
    if (right.kind === 'literal' && (right.value === 'true' || right.value === 'false') && right.type === 'other') {
      return this.#clause(left, scopes, (right.value === 'true') !== (operator === '=='))
    }
    if (numberOf(right) !== undefined) {
      const value = terms.constant(right, unitOf(left)) ?? terms.text(right)
      const addends = sumOf(left)
      if (addends.length > 1) {
        return { text: t.reading.number[key](t.reading.sum, value), kind: 'other', parts: addends.map((one) => leaf(terms.term(one, scopes))) }
      }
      return leaf(t.reading.number[key](terms.term(left, scopes), value))
    }
    const x = terms.term(left, scopes)
    if (dayOf(right) !== undefined) return leaf(t.reading.date[key](x, terms.term(right, scopes)))
    if (terms.isToday(right)) return leaf(t.reading.date[key](x, t.reading.todayValue))
    const v = terms.term(right, scopes)
    if (codeOf(right) !== undefined || textOf(right) !== undefined) {
      if (key === 'eq') return leaf(t.reading.isValue(x, v))
      if (key === 'ne') return leaf(t.reading.isNotValue(x, v))
    }
    return leaf((isDate(left) && isDate(right) ? t.reading.date : t.reading.term)[key](x, v))
  }

  #in(left: Tree, right: Tree, scopes: Scope[], isNegated: boolean): Clause {
    const terms = this.#terms
    const x = terms.term(left, scopes)
    if (right.kind === 'list' && right.items.length > 0) {
      const values = either(right.items.map((item) => terms.term(item, scopes)))
      return leaf(isNegated ? t.reading.isNotValue(x, values) : t.reading.isValue(x, values))
    }
    const list = terms.term(right, scopes)
    return leaf(isNegated ? t.reading.includesNot(list, x) : t.reading.includes(list, x))
  }

  #call(tree: Call, scopes: Scope[], isNegated: boolean): Clause | undefined {
    const terms = this.#terms
    const { name, of, given } = tree
    const [first, second] = given
    if (of) return this.#quantified(tree, of, scopes, isNegated) ?? this.#textTest(tree, of, scopes, isNegated)
    if (!first) return undefined
    if (name === 'between') return this.#between(given, scopes, isNegated)
    if (name === 'has') {
      const x = terms.term(first, scopes)
      return leaf(isNegated ? t.reading.notRecorded(x) : t.reading.recorded(x))
    }
    const helper = HELPERS.find((one) => one === name)
    const owner = helper && terms.scopeOf(first, scopes)?.owner
    if (helper && owner) {
      const x = t.reading.owner[owner]
      return leaf(isNegated ? t.reading[`not_${helper}`](x) : t.reading[helper](x))
    }
    const text = textOf(second)
    if (text === undefined) return undefined
    const x = terms.term(first, scopes)
    if (name === 'in_group') return leaf(isNegated ? t.reading.notInGroup(x, marked(text)) : t.reading.inGroup(x, marked(text)))
    if (name !== 'descends_from') return undefined
    return leaf(isNegated ? t.reading.notBelow(x, terms.code(text)) : t.reading.below(x, terms.code(text)))
  }

  #between([x, low, high]: Tree[], scopes: Scope[], isNegated: boolean): Clause | undefined {
    if (!x || !low || !high) return undefined
    const terms = this.#terms
    const key = isNegated ? 'notBetween' : 'between'
    const values = [low, high].map((one) => terms.constant(one, unitOf(x)))
    const [from, to] = values
    if (from !== undefined && to !== undefined) {
      const isDates = dayOf(low) !== undefined
      return leaf((isDates ? t.reading.date : t.reading.number)[key](terms.term(x, scopes), from, to))
    }
    return leaf(t.reading.term[key](terms.term(x, scopes), terms.term(low, scopes), terms.term(high, scopes)))
  }

  /** `list.exists(x, …)` and the like. */
  #quantified({ name, given }: Call, of: Tree, scopes: Scope[], isNegated: boolean): Clause | undefined {
    const [variable, condition] = given
    if (given.length !== 2 || variable?.kind !== 'name' || !condition) return undefined
    const list = this.#terms.list(of, scopes)
    const inner = [...scopes, { variable: variable.name, ...list.scope }]
    if (name === 'exists' && isNegated) return { text: list.none, kind: 'other', parts: [this.#clause(condition, inner)] }
    // Not all items meet a condition if one does not.
    if (name === 'all' && isNegated) return joined(list.one, this.#clause(condition, inner, true))
    const quantifier = { exists: list.one, all: list.every, exists_one: list.exactly }[name]
    if (quantifier === undefined) return undefined
    const clause = joined(quantifier, this.#clause(condition, inner))
    return isNegated ? { text: t.reading.not, kind: 'other', parts: [clause] } : clause
  }

  #textTest({ name, given }: Call, of: Tree, scopes: Scope[], isNegated: boolean): Clause | undefined {
    const test = TEXT_TESTS.find((one) => one === name)
    const [first] = given
    if (!test || !first || given.length !== 1) return undefined
    const clause = leaf(t.reading[test](this.#terms.term(of, scopes), this.#terms.term(first, scopes)))
    return isNegated ? { text: t.reading.not, kind: 'other', parts: [clause] } : clause
  }
}

function joined(quantifier: string, clause: Clause): Clause {
  return { ...clause, text: t.reading.joined(quantifier, clause.text) }
}

/** Whether a path is that of a date, by its name. */
function isDate(tree: Tree): boolean {
  return /^(?:.*_date|start|end)$/.test(pathOf(tree)?.at(-1) ?? '')
}

/** The function whose numbers are years or days. */
function unitOf(tree: Tree): string | undefined {
  return tree.kind === 'call' && !tree.of ? tree.name : undefined
}

function sumOf(tree: Tree): Tree[] {
  return tree.kind === 'binary' && tree.operator === '+' ? [...sumOf(tree.left), ...sumOf(tree.right)] : [tree]
}
