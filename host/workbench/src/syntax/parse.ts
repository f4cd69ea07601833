// The syntax tree of a rule: the grammar of CEL without message literals. The page describes and edits rules by it; the
// server checks them.

import { type Token, tokens } from './tokens'

export type Comparison = '==' | '!=' | '<' | '<=' | '>' | '>=' | 'in'

interface At {
  from: number
  to: number
}

export type Literal = At & { kind: 'literal'; type: 'text' | 'number' | 'other'; value: string }
export type Call = At & { kind: 'call'; name: string; of: Tree | undefined; given: Tree[] }
export type Binary = At & { kind: 'binary'; operator: string; left: Tree; right: Tree }
/** Conditions joined by `&&` or `||`; those of a nested chain of the same kind are parts of it. */
export type Chain = At & { kind: 'chain'; operator: '&&' | '||'; parts: Tree[] }
export type Choice = At & { kind: 'choice'; when: Tree; then: Tree; otherwise: Tree }

export type Tree =
  | Literal
  | Call
  | Binary
  | Chain
  | Choice
  | (At & { kind: 'name'; name: string })
  | (At & { kind: 'field'; of: Tree; name: string; isOptional: boolean })
  | (At & { kind: 'index'; of: Tree; at: Tree; isOptional: boolean })
  | (At & { kind: 'unary'; operator: '!' | '-'; of: Tree })
  | (At & { kind: 'list'; items: Tree[] })
  | (At & { kind: 'map'; entries: [Tree, Tree][] })

export interface Parsed {
  tree: Tree
  hasComments: boolean
}

/** The deepest nesting; the server accepts less. */
const DEPTH_MAX = 120
/** The binary operators by precedence, from the weakest. */
const LEVELS = [['==', '!=', '<', '<=', '>', '>=', 'in'], ['+', '-'], ['*', '/', '%']]

/** The tree of a rule; undefined if its text is not a complete expression. */
export function parse(text: string): Parsed | undefined {
  const found = tokens(text)
  if (!found || found.all.length === 0) return undefined
  try {
    return { tree: new Parser(found.all).whole(), hasComments: found.hasComments }
  } catch (error) {
    if (error instanceof Malformed) return undefined
    throw error
  }
}

class Malformed extends Error {}

class Parser {
  #at = 0
  #depth = 0

  constructor(private readonly all: Token[]) {}

  whole(): Tree {
    const tree = this.#expression()
    if (this.#at < this.all.length) throw new Malformed()
    return tree
  }

  #peek(): Token | undefined {
    return this.all[this.#at]
  }

  #is(...symbols: string[]): boolean {
    const token = this.#peek()
    if (!token) return false
    return symbols.includes(token.text) && (token.kind === 'operator' || (token.kind === 'name' && token.text === 'in'))
  }

  /** Consumes one of some symbols, if it is next. */
  #take(...symbols: string[]): Token | undefined {
    return this.#is(...symbols) ? this.#next() : undefined
  }

  #next(): Token {
    const token = this.all[this.#at]
    if (!token) throw new Malformed()
    this.#at += 1
    return token
  }

  #expect(symbol: string): Token {
    const token = this.#take(symbol)
    if (!token) throw new Malformed()
    return token
  }

  #expression(): Tree {
    this.#depth += 1
    if (this.#depth > DEPTH_MAX) throw new Malformed()
    const when = this.#chain('||')
    let tree = when
    if (this.#take('?')) {
      const then = this.#chain('||')
      this.#expect(':')
      const otherwise = this.#expression()
      tree = { kind: 'choice', when, then, otherwise, from: when.from, to: otherwise.to }
    }
    this.#depth -= 1
    return tree
  }

  #chain(operator: '&&' | '||'): Tree {
    const parts = [this.#part(operator)]
    while (this.#take(operator)) parts.push(this.#part(operator))
    const [first] = parts
    if (parts.length === 1 && first) return first
    const flat = parts.flatMap((part) => (part.kind === 'chain' && part.operator === operator ? part.parts : [part]))
    return { kind: 'chain', operator, parts: flat, from: first?.from ?? 0, to: parts.at(-1)?.to ?? 0 }
  }

  #part(operator: '&&' | '||'): Tree {
    return operator === '||' ? this.#chain('&&') : this.#binary(0)
  }

  #binary(level: number): Tree {
    const operators = LEVELS[level]
    if (!operators) return this.#unary()
    let left = this.#binary(level + 1)
    for (let token = this.#take(...operators); token; token = this.#take(...operators)) {
      const right = this.#binary(level + 1)
      left = { kind: 'binary', operator: token.text, left, right, from: left.from, to: right.to }
    }
    return left
  }

  #unary(): Tree {
    const operators: Token[] = []
    for (let token = this.#take('!', '-'); token; token = this.#take('!', '-')) operators.push(token)
    let tree = this.#member()
    for (const { text, from } of operators.reverse()) {
      if (text === '-' && tree.kind === 'literal' && tree.type === 'number' && !tree.value.startsWith('-')) {
        tree = { ...tree, value: `-${tree.value}`, from }
      } else tree = { kind: 'unary', operator: text === '-' ? '-' : '!', of: tree, from, to: tree.to }
    }
    return tree
  }

  #member(): Tree {
    let tree = this.#primary()
    for (;;) {
      if (this.#take('.')) {
        const isOptional = this.#take('?') !== undefined
        const token = this.#next()
        if (token.kind !== 'name') throw new Malformed()
        if (!isOptional && this.#take('(')) tree = this.#call(token.text, tree, tree.from)
        else tree = { kind: 'field', of: tree, name: token.text, isOptional, from: tree.from, to: token.to }
      } else if (this.#take('[')) {
        const isOptional = this.#take('?') !== undefined
        const at = this.#expression()
        const { to } = this.#expect(']')
        tree = { kind: 'index', of: tree, at, isOptional, from: tree.from, to }
      } else return tree
    }
  }

  #call(name: string, of: Tree | undefined, from: number): Tree {
    const given = this.#items(')')
    return { kind: 'call', name, of, given, from, to: this.#expect(')').to }
  }

  /** Expressions up to a closing symbol, which stays. */
  #items(end: string): Tree[] {
    const items: Tree[] = []
    while (!this.#is(end)) {
      this.#take('?')
      items.push(this.#expression())
      if (!this.#take(',')) break
    }
    return items
  }

  #primary(): Tree {
    const token = this.#next()
    const { kind, text, from, to } = token
    if (kind === 'number') return { kind: 'literal', type: 'number', value: text, from, to }
    if (kind === 'text') return { kind: 'literal', type: 'text', value: token.value ?? '', from, to }
    if (kind === 'bytes') return { kind: 'literal', type: 'other', value: text, from, to }
    if (kind === 'name') {
      if (['true', 'false', 'null'].includes(text)) return { kind: 'literal', type: 'other', value: text, from, to }
      return this.#take('(') ? this.#call(text, undefined, from) : { kind: 'name', name: text, from, to }
    }
    if (text === '(') {
      const inner = this.#expression()
      // The position includes the parentheses, so that the text of a part is complete.
      return { ...inner, from, to: this.#expect(')').to }
    }
    if (text === '[') return { kind: 'list', items: this.#items(']'), from, to: this.#expect(']').to }
    if (text === '{') return this.#map(from)
    throw new Malformed()
  }

  #map(from: number): Tree {
    const entries: [Tree, Tree][] = []
    while (!this.#is('}')) {
      this.#take('?')
      const key = this.#expression()
      this.#expect(':')
      entries.push([key, this.#expression()])
      if (!this.#take(',')) break
    }
    return { kind: 'map', entries, from, to: this.#expect('}').to }
  }
}

/** The path of a field such as `me.income.amount`; undefined for anything else. */
export function pathOf(tree: Tree): string[] | undefined {
  if (tree.kind === 'name') return [tree.name]
  if (tree.kind !== 'field' || tree.isOptional) return undefined
  const path = pathOf(tree.of)
  return path && [...path, tree.name]
}

/** The URI of `code('…')`. */
export function codeOf(tree: Tree | undefined): string | undefined {
  return tree?.kind === 'call' && tree.name === 'code' && !tree.of ? textOf(tree.given[0]) : undefined
}

export function textOf(tree: Tree | undefined): string | undefined {
  return tree?.kind === 'literal' && tree.type === 'text' ? tree.value : undefined
}

export function numberOf(tree: Tree | undefined): string | undefined {
  return tree?.kind === 'literal' && tree.type === 'number' ? tree.value : undefined
}

/** The day of `date('…')`. */
export function dayOf(tree: Tree | undefined): string | undefined {
  const day = tree?.kind === 'call' && tree.name === 'date' && !tree.of ? textOf(tree.given[0]) : undefined
  return day !== undefined && /^\d{4}-\d{2}-\d{2}$/.test(day) ? day : undefined
}

/** Whether two trees mean the same: positions, parentheses and spellings of the same value are ignored. */
export function isSame(one: Tree, other: Tree): boolean {
  return JSON.stringify(one, unplaced) === JSON.stringify(other, unplaced)
}

function unplaced(key: string, value: unknown): unknown {
  return key === 'from' || key === 'to' ? undefined : value
}
