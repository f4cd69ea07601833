// Syntax highlighting of rules: keywords, helpers, texts, numbers and comments. The server reports errors.

import { HighlightStyle, StreamLanguage, syntaxHighlighting, type StringStream } from '@codemirror/language'
import { tags } from '@lezer/highlight'

import { lookUp } from './words'

const CLASSES = { function: 'function', method: 'method', root: 'root', keyword: 'keyword' } as const

function token(stream: StringStream): string | null {
  if (stream.eatSpace()) return null
  if (stream.match('//')) {
    stream.skipToEnd()
    return 'comment'
  }
  if (stream.match(/^[bB]?[rR]?("""|''')/)) return text(stream, stream.current().slice(-3))
  if (stream.match(/^[bB]?[rR]?["']/)) return text(stream, stream.current().slice(-1))
  if (stream.match(/^(0x[0-9a-fA-F]+|\d+(\.\d+)?([eE][+-]?\d+)?)u?/)) return 'number'
  if (stream.match(/^[A-Za-z_][A-Za-z0-9_]*/)) {
    const known = lookUp(stream.current())
    return known ? CLASSES[known.kind] : 'name'
  }
  if (stream.match(/^(&&|\|\||[=!<>]=|[!<>+\-*/%?:])/)) return 'operator'
  stream.next()
  return null
}

function text(stream: StringStream, quote: string): string {
  while (!stream.eol()) {
    if (stream.match(quote)) return 'string'
    if (stream.next() === '\\') stream.next()
  }
  return 'string'
}

const rules = StreamLanguage.define<null>({
  name: 'rule',
  token,
  tokenTable: {
    function: tags.function(tags.variableName),
    method: tags.function(tags.propertyName),
    root: tags.special(tags.variableName),
    keyword: tags.keyword,
    name: tags.propertyName,
  },
  languageData: { commentTokens: { line: '//' }, closeBrackets: { brackets: ['(', '[', "'", '"'] } },
})

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: 'var(--code-keyword)', fontWeight: 'bold' },
  { tag: [tags.function(tags.variableName), tags.function(tags.propertyName)], color: 'var(--code-function)' },
  { tag: tags.special(tags.variableName), color: 'var(--code-root)' },
  { tag: tags.string, color: 'var(--code-string)' },
  { tag: tags.number, color: 'var(--code-number)' },
  { tag: tags.comment, color: 'var(--muted)', fontStyle: 'italic' },
  { tag: tags.operator, color: 'var(--code-keyword)' },
])

export const language = [rules, syntaxHighlighting(colours)]
