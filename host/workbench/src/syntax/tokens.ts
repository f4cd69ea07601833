// The tokens of a rule, with their positions in UTF-16 code units. `and`, `or` and `not` are operators.

export interface Token {
  kind: 'name' | 'number' | 'text' | 'bytes' | 'operator'
  /** The token as it is written; an operator in its symbolic form. */
  text: string
  /** The value of a text. */
  value?: string
  from: number
  to: number
}

export interface Tokens {
  all: Token[]
  hasComments: boolean
}

const SPACE = /\s+|\/\/[^\n]*/y
const NAME = /[A-Za-z_][A-Za-z0-9_]*|`[A-Za-z0-9_.\-/ ]+`/y
const NUMBER = /0x[0-9a-fA-F]+u?|(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?u?/y
const TEXT = /([bB]?[rR]?|[rR][bB])("""[\s\S]*?(?<!\\)"""|'''[\s\S]*?(?<!\\)'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')/y
const RAW = /([bB]?[rR]|[rR][bB])("""[\s\S]*?"""|'''[\s\S]*?'''|"[^"\n]*"|'[^'\n]*')/y
const OPERATOR = /&&|\|\||[=!<>]=|[!<>+\-*/%?:.,()[\]{}]/y
const WORDS: Record<string, string> = { and: '&&', or: '||', not: '!' }

/** The tokens of a text; undefined if a part of it is not one. */
export function tokens(text: string): Tokens | undefined {
  const all: Token[] = []
  let hasComments = false
  let from = 0
  const next = (pattern: RegExp) => {
    pattern.lastIndex = from
    return pattern.exec(text)
  }
  while (from < text.length) {
    const space = next(SPACE)
    if (space) {
      hasComments ||= space[0].startsWith('//')
      from += space[0].length
      continue
    }
    const token = quoted(next(RAW) ?? next(TEXT)) ?? plain(next(NUMBER), 'number') ?? plain(next(NAME), 'name') ?? plain(next(OPERATOR), 'operator')
    if (!token) return undefined
    const to = from + token.text.length
    const word = token.kind === 'name' && all.at(-1)?.text !== '.' ? WORDS[token.text] : undefined
    all.push({ ...token, ...(word ? { kind: 'operator', text: word } : {}), from, to })
    from = to
  }
  return { all, hasComments }
}

type Found = Pick<Token, 'kind' | 'text' | 'value'>

function plain(found: RegExpExecArray | null, kind: Token['kind']): Found | undefined {
  return found ? { kind, text: found[0] } : undefined
}

function quoted(found: RegExpExecArray | null): Found | undefined {
  if (!found) return undefined
  const [text, prefix = '', body = ''] = found
  const quote = /^("""|''')/.test(body) ? 3 : 1
  const inner = body.slice(quote, -quote)
  const kind = /[bB]/.test(prefix) ? 'bytes' : 'text'
  return { kind, text, value: /[rR]/.test(prefix) ? inner : unescaped(inner) }
}

const ESCAPES: Record<string, string> = { a: '\x07', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' }

function unescaped(text: string): string {
  return text.replaceAll(/\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|[\s\S])/g, (_, code: string) => {
    if (code.length === 1) return ESCAPES[code] ?? code
    const point = /^[xuU]/.test(code) ? parseInt(code.slice(1), 16) : parseInt(code, 8)
    return point <= 0x10ffff ? String.fromCodePoint(point) : ''
  })
}
