// The words of the parts of a rule that are not conditions: facts, values, lists and numbers.

import type { Subject } from '../editor/schema'
import { currentLanguage, day, number, t } from '../i18n'
import type { Strings } from '../strings/en'
import { type Binary, type Tree, codeOf, dayOf, numberOf, pathOf, textOf } from '../syntax/parse'

type Owner = keyof Strings['reading']['owner']

/** A variable of the rule: the subject, or an item of the list whose macro declares it. */
export interface Scope {
  variable: string
  owner: Owner
  /** The name of the list in the names of its fields; empty for people and groups. */
  prefix: string
}

export interface Reading {
  source: string
  subject: Subject
  /** The names of codes by URI. */
  codes: ReadonlyMap<string, string>
}

/** The phrases about a list. */
interface List {
  one: string
  exactly: string
  every: string
  none: string
  list: string
  count: string
  scope: Omit<Scope, 'variable'>
}

/** A part of the rule in its own text, between marks that the view replaces by an element. */
const MARKS = ['\ue000', '\ue001'] as const

export function marked(text: string): string {
  return `${MARKS[0]}${text.replaceAll(/\s+/g, ' ')}${MARKS[1]}`
}

/** The pieces of a text; every second one is a part of the rule. */
export function pieces(text: string): string[] {
  return text.split(/\ue000([^\ue001]*)\ue001/)
}

/** Whether a text is one part of the rule and nothing else. */
function isPart(text: string): boolean {
  const [before, , after, ...more] = pieces(text)
  return before === '' && after === '' && more.length === 0
}

/** A value between quotation marks, with its own direction. */
export function quoted(text: string): string {
  return t.reading.quote(`\u2068${text}\u2069`)
}

export class Terms {
  constructor(
    private readonly reading: Reading,
    /** The words of a condition inside of a term. */
    private readonly inline: (condition: Tree, scopes: Scope[]) => string,
  ) {}

  get start(): Scope[] {
    return [{ variable: 'me', owner: this.reading.subject === 'group' ? 'group' : 'person', prefix: '' }]
  }

  text({ from, to }: Tree): string {
    return marked(this.reading.source.slice(from, to))
  }

  /** The variable that a path begins with. */
  scopeOf(tree: Tree | undefined, scopes: Scope[]): Scope | undefined {
    const root = tree && pathOf(tree)?.[0]
    return scopes.findLast(({ variable }) => variable === root)
  }

  /** A fact, a value or a calculation. */
  term(tree: Tree, scopes: Scope[]): string {
    const value = this.constant(tree)
    if (value !== undefined) return value
    if (pathOf(tree)) return this.#noun(tree, scopes)
    if (tree.kind === 'call') return this.#call(tree, scopes)
    if (tree.kind === 'choice') return t.reading.either(this.inline(tree.when, scopes), this.#inner(tree.then, scopes), this.#inner(tree.otherwise, scopes))
    if (tree.kind === 'binary' && SYMBOLS[tree.operator]) return this.#calculation(tree, scopes)
    if (tree.kind === 'list' && tree.items.length > 0) return new Intl.ListFormat(currentLanguage(), { type: 'conjunction' }).format(tree.items.map((item) => this.term(item, scopes)))
    return this.text(tree)
  }

  /** A value that the rule contains; `unit` is the function whose numbers are years or days. */
  constant(tree: Tree, unit?: string): string | undefined {
    const digits = numberOf(tree)
    if (digits !== undefined) return counted(digits, unit)
    const text = textOf(tree)
    if (text !== undefined) return quoted((t.reading.values as Record<string, string>)[text] ?? text)
    const uri = codeOf(tree)
    if (uri !== undefined) return this.code(uri)
    const date = dayOf(tree)
    return date === undefined ? undefined : t.reading.day(day(date))
  }

  code(uri: string): string {
    const name = this.reading.codes.get(uri)
    return name === undefined ? marked(uri) : quoted(name)
  }

  isToday(tree: Tree): boolean {
    return (tree.kind === 'name' && tree.name === 'as_of') || (tree.kind === 'call' && tree.name === 'today' && !tree.of)
  }

  list(tree: Tree, scopes: Scope[]): List {
    if (tree.kind === 'name' && tree.name === 'members') return { ...t.reading.members, scope: { owner: 'member', prefix: '' } }
    if (tree.kind === 'name' && tree.name === 'programs') return { ...t.reading.programs, scope: { owner: 'program', prefix: 'program' } }
    if (tree.kind === 'call' && tree.name === 'filter' && tree.of) return this.#filtered(tree.of, tree.given, scopes) ?? this.#among(this.text(tree))
    const path = pathOf(tree)
    const scope = path && this.scopeOf(tree, scopes)
    if (!scope) return this.#among(this.text(tree))
    return this.#among(this.#noun(tree, scopes), [scope.prefix, ...path.slice(1)].filter(Boolean).join('.'))
  }

  #among(list: string, prefix = ''): List {
    const { one, exactly, every, none, count } = t.reading.among
    return { one: one(list), exactly: exactly(list), every: every(list), none: none(list), list, count: count(list), scope: { owner: 'item', prefix } }
  }

  #filtered(of: Tree, [variable, condition]: Tree[], scopes: Scope[]): List | undefined {
    if (variable?.kind !== 'name' || !condition) return undefined
    const base = this.list(of, scopes)
    const inner = this.inline(condition, [...scopes, { variable: variable.name, ...base.scope }])
    const list = t.reading.filtered(base.list, inner)
    return { ...this.#among(list), count: t.reading.filtered(base.count, inner), scope: base.scope }
  }

  #noun(tree: Tree, scopes: Scope[]): string {
    if (this.isToday(tree)) return t.reading.today
    const [root = '', ...names] = pathOf(tree) ?? []
    if (names.length === 0 && (root === 'members' || root === 'programs')) return t.reading[root].list
    const scope = this.scopeOf(tree, scopes)
    if (!scope) return this.text(tree)
    if (names.length === 0) return scope.owner === 'item' ? t.reading.itself : t.reading.owner[scope.owner]
    const known = nameOf([scope.prefix, ...names].filter(Boolean))
    return scope === scopes.at(-1) ? known : `${known} ${t.reading.of[scope.owner]}`
  }

  #call(tree: Tree & { kind: 'call' }, scopes: Scope[]): string {
    const [first] = tree.given
    if (this.isToday(tree)) return t.reading.today
    if (!tree.of && first && (tree.name === 'age_years' || tree.name === 'days_since')) return this.#since(tree.name, first, scopes)
    if (!tree.of && first && tree.name === 'double') return this.term(first, scopes)
    const sized = tree.name === 'size' ? (tree.of ?? first) : undefined
    if (sized) return this.list(sized, scopes).count
    if (tree.name === 'filter') return this.list(tree, scopes).list
    return this.text(tree)
  }

  /** The years or days since a date: an age, if it is the date of birth. */
  #since(name: 'age_years' | 'days_since', date: Tree, scopes: Scope[]): string {
    const isYears = name === 'age_years'
    const path = pathOf(date)
    const scope = this.scopeOf(date, scopes)
    if (path?.length === 2 && path[1] === 'birth_date' && scope) {
      const age = isYears ? t.reading.age : t.reading.ageInDays
      return scope === scopes.at(-1) ? age : `${age} ${t.reading.of[scope.owner]}`
    }
    const since = this.term(date, scopes)
    return isYears ? t.reading.yearsSince(since) : t.reading.daysSince(since)
  }

  #calculation({ operator, left, right }: Binary, scopes: Scope[]): string {
    return `${this.#inner(left, scopes)} ${SYMBOLS[operator]} ${this.#inner(right, scopes)}`
  }

  /** A part of a calculation, in parentheses if it has parts itself. */
  #inner(tree: Tree, scopes: Scope[]): string {
    const term = this.term(tree, scopes)
    return pathOf(tree) || this.constant(tree) !== undefined || isPart(term) ? term : `(${term})`
  }
}

const SYMBOLS: Record<string, string> = { '+': '+', '-': '−', '*': '×', '/': '÷', '%': '%' }

function counted(digits: string, unit?: string): string | undefined {
  const value = Number(digits.replace(/u$/, ''))
  if (!Number.isFinite(value)) return undefined
  const count = number(value, 6)
  return unit === 'age_years' ? t.reading.years(value, count) : unit === 'days_since' ? t.reading.days(value, count) : count
}

/** The name of a field by its path; a part of a code, such as `.display`, follows in parentheses. */
export function nameOf(path: string[]): string {
  const fields = t.reading.fields as Record<string, string>
  const known = fields[path.join('.')]
  if (known !== undefined) return known
  const part = (t.reading.parts as Record<string, string>)[path.at(-1) ?? '']
  if (part === undefined) return marked(path.join('.'))
  const name = path.length === 1 ? t.reading.itself : nameOf(path.slice(0, -1))
  return `${name} (${part})`
}

/** The name of a missing fact, such as `members.gender`, in plain text. */
export function factName(fact: string): string {
  const [root = '', ...names] = fact.replaceAll('[]', '').split('.')
  const plain = (text: string) => pieces(text).join('')
  if (root === 'me' && names.length > 0) return plain(nameOf(names))
  if (root === 'members') return names.length > 0 ? plain(`${nameOf(names)} ${t.reading.of.member}`) : t.reading.members.list
  if (root === 'programs') return names.length > 0 ? plain(nameOf(['program', ...names])) : t.reading.programs.list
  return fact
}
