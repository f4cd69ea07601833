// The changes that would make a rule true, derived from the explanation tree without further requests.

export interface Explanation {
  text: string
  value: unknown
  seen: Record<string, unknown>
  children: Explanation[]
  item?: number
  missing?: string[]
  error?: { code: string; line: number; column: number }
  truncated?: boolean
}

export type Change =
  | { kind: 'all' | 'any'; changes: Change[] }
  /** A part whose value must change; `seen` are its facts. */
  | { kind: 'part'; text: string; item: number | undefined; value: unknown; wanted: boolean; seen: Record<string, unknown> }
  /** A fact that is not recorded. */
  | { kind: 'record'; fact: string }
  /** Parts that only a change of unchangeable facts would make true. */
  | { kind: 'fixed'; parts: Part[] }

export interface Part {
  text: string
  item: number | undefined
  seen: Record<string, unknown>
}

/** Facts that do not change: advice to change them would be advice to record something false. */
const FIXED = /(^|\.)(birth_date|gender|deceased_date)$/

/** Parts omitted from a long choice: a household has many members, and each is an alternative. */
const CHOICES_MAX = 6

/** The changes that give a part that value; none if it has it already. */
export function changes(node: Explanation, wanted: boolean): Change | undefined {
  if (node.value === wanted) return undefined
  const shape = operator(node.text)
  const { children } = node
  if (shape === 'not' && children[0]) return changes(children[0], !wanted)
  if ((shape === 'and' || shape === 'or') && children.length > 0) {
    // All parts of an `and` must be true for it to be true, and one false part is enough for it to be false; for `or`
    // it is reversed.
    return join((shape === 'and') === wanted ? 'all' : 'any', children, wanted)
  }
  const items = children.filter((child) => child.item !== undefined && isOfItem(child, node.text))
  if ((shape === 'exists' || shape === 'all') && items.length > 0) {
    return join((shape === 'all') === wanted ? 'all' : 'any', items, wanted)
  }
  const missing = [...new Set(missingBelow(node))]
  if (node.value === null && missing.length > 0) {
    const facts = missing.map((fact): Change => ({ kind: 'record', fact }))
    return facts.length === 1 ? facts[0] : { kind: 'all', changes: facts }
  }
  const { text, item } = node
  const seen = seenBelow(node)
  const facts = Object.keys(seen)
  if (facts.length > 0 && facts.every((fact) => FIXED.test(fact))) return { kind: 'fixed', parts: [{ text, item, seen }] }
  return { kind: 'part', text, item, value: node.value, wanted, seen }
}

/**
 * Whether a part of `list.exists(m, …)` is the condition of an item. Within another list the list itself, and what it
 * depends on, have the number of the outer item, which an inner item may have too.
 */
function isOfItem({ text, value }: Explanation, whole: string): boolean {
  const at = whole.indexOf(text)
  const isList = /^[\s(]*$/.test(whole.slice(0, at)) && /^[\s)]*\.(exists|all)\(/.test(whole.slice(at + text.length))
  return !isList && (value === null || typeof value === 'boolean')
}

function join(kind: 'all' | 'any', nodes: Explanation[], wanted: boolean): Change | undefined {
  const found = nodes.map((node) => changes(node, wanted)).filter((change) => change !== undefined)
  // `a && (b && c)` is flattened to a list of three.
  const flat = withoutRepeated(found.flatMap((change) => (change.kind === kind ? change.changes : [change])))
  const fixed = flat.filter((change) => change.kind === 'fixed')
  // One part that cannot change is enough for `all`; for `any` there may be other ways.
  if (fixed.length > 0 && (kind === 'all' || fixed.length === flat.length)) {
    return { kind: 'fixed', parts: fixed.flatMap(({ parts }) => parts).slice(0, CHOICES_MAX) }
  }
  const possible = flat.filter((change) => change.kind !== 'fixed')
  const first = kind === 'any' ? possible.slice(0, CHOICES_MAX) : possible
  return first.length === 1 ? first[0] : first.length ? { kind, changes: first } : undefined
}

/** A fact that several parts read is recorded once. */
function withoutRepeated(all: Change[]): Change[] {
  const isFirst = (fact: string, at: number) => all.findIndex((one) => one.kind === 'record' && one.fact === fact) === at
  return all.filter((change, at) => change.kind !== 'record' || isFirst(change.fact, at))
}

function missingBelow(node: Explanation): string[] {
  return [...(node.missing ?? []), ...node.children.flatMap(missingBelow)]
}

function seenBelow(node: Explanation): Record<string, unknown> {
  return Object.assign({}, node.seen, ...node.children.map(seenBelow))
}

type Operator = 'and' | 'or' | 'not' | 'exists' | 'all' | 'other'

/** The outermost operator of an expression, ignoring its texts, parentheses and comments. */
export function operator(given: string): Operator {
  const text = given.trim()
  let depth = 0
  let found: Operator = 'other'
  let isChoice = false
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at] ?? ''
    if (letter === "'" || letter === '"') {
      at = endOfText(text, at)
    } else if ('([{'.includes(letter)) {
      depth += 1
    } else if (')]}'.includes(letter)) {
      depth -= 1
      if (depth === 0 && text.startsWith('(') && at === text.length - 1 && found === 'other') {
        return wraps(text) ? operator(text.slice(1, -1)) : last(text)
      }
    } else if (depth === 0) {
      const rest = text.slice(at)
      // The `?` of an optional field is not a ternary.
      if (letter === '?' && text[at - 1] !== '.') isChoice = true
      else if (rest.startsWith('||') || isWord(text, at, 'or')) found = 'or'
      else if (found !== 'or' && (rest.startsWith('&&') || isWord(text, at, 'and'))) found = 'and'
    }
  }
  if (isChoice) return 'other'
  if (found !== 'other') return found
  if (isNegated(text)) return 'not'
  return last(text)
}

function isNegated(text: string): boolean {
  const rest = /^(!(?!=)|not\b)\s*(.*)$/s.exec(text)?.[2]
  // `!a == b` compares; only `a` is negated.
  return rest !== undefined && !/[^=!<>]==|!=|<|>|\sin\s/.test(outside(rest))
}

/** The text outside all parentheses and literals. */
function outside(text: string): string {
  let kept = ''
  let depth = 0
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at] ?? ''
    if (letter === "'" || letter === '"') at = endOfText(text, at)
    else if ('([{'.includes(letter)) depth += 1
    else if (')]}'.includes(letter)) depth -= 1
    else if (depth === 0) kept += letter
  }
  return kept
}

/** Returns true if the first parenthesis is closed by the last. */
function wraps(text: string): boolean {
  return outside(text) === '' && !/^\([^()]*\)\s*\(/.test(text)
}

/** `list.exists(m, …)`, if it is the whole text. */
function last(text: string): Operator {
  const macro = text.endsWith(')') ? /^[\w.]*\.(exists|all)$/.exec(outside(text)) : null
  return macro ? (macro[1] as Operator) : 'other'
}

function isWord(text: string, at: number, word: string): boolean {
  return text.startsWith(word, at) && !/[\w.]/.test(text[at - 1] ?? ' ') && !/\w/.test(text[at + word.length] ?? ' ')
}

function endOfText(text: string, at: number): number {
  const quote = text[at]
  let end = at + 1
  while (end < text.length && text[end] !== quote) end += text[end] === '\\' ? 2 : 1
  return end
}
