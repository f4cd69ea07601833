// Completion: fields after a dot, helpers and keywords elsewhere, and where a coded field is compared or tested the codes
// and concept groups of its vocabularies. A word that is not part of the language is searched among the names of codes.

import {
  type Completion,
  type CompletionContext,
  type CompletionResult,
  autocompletion,
  snippetCompletion,
} from '@codemirror/autocomplete'
import type { Extension } from '@codemirror/state'

import type { Api } from '../api'
import { type FoundCode, conceptGroups, groupsOf, searchCodes, searchVocabularies, written } from '../codes'
import { h, prose } from '../dom'
import { t } from '../i18n'
import { fieldText, groupText } from '../server/translate'
import { type Expected, expected } from './expected'
import { type Schema, type Subject, fieldsBelow, valueField } from './schema'
import { WORDS, type Word, says } from './words'

export interface Completed {
  api: Api
  subject: () => Subject
  schema: () => Schema | undefined
}

/** The minimum length of a word that is searched among the names of all codes. */
const NAME_LETTERS_MIN = 4
/** The pause before a search, in milliseconds. */
const PAUSE_MS = 300

export function completion(completed: Completed): Extension {
  return autocompletion({
    override: [(context) => complete(context, completed)],
    icons: false,
    closeOnBlur: true,
    optionClass: (option) => `is-${option.type ?? 'other'}`,
  })
}

async function complete(context: CompletionContext, completed: Completed): Promise<CompletionResult | null> {
  const doc = context.state.doc
  const value = expected(doc.sliceString(0, context.pos), doc.sliceString(context.pos, context.pos + 200))
  const known = value && knownField(value, doc.toString(), completed)
  if (value && value.form !== 'code') return quoted(context, value, known, completed)
  if (value && known) return compared(context, value, known, completed)
  const path = context.matchBefore(/[A-Za-z_]\w*(\.\w*)+$/)
  if (path) return fields(path, context, completed)
  const word = context.matchBefore(/[\p{L}_][\p{L}\p{N}_]*$/u)
  if (!word) return context.explicit ? { from: context.pos, options: words('') } : null
  const options = words('')
  const isKnown = options.some((option) => option.label.startsWith(word.text.toLowerCase()))
  // Where a field is compared that has no codes, a word is not the name of one.
  if (isKnown || value?.path || word.text.length < NAME_LETTERS_MIN) return { from: word.from, options, validFor: /^\w*$/ }
  return named(word, context, completed)
}

export interface CodedField {
  path: string
  vocabularies: string[]
}

/** The coded field whose codes are expected; undefined if it is not known which. */
export function knownField({ path }: Expected, text: string, { schema, subject }: Pick<Completed, 'schema' | 'subject'>): CodedField | undefined {
  const fields = schema()
  const field = path && fields ? valueField(fields, subject(), text, path) : undefined
  return field && path && field.vocabularies.length > 0 ? { path, vocabularies: field.vocabularies } : undefined
}

/** The text that inserts a code. */
export function inserted({ form }: Pick<Expected, 'form'>, code: { uri: string; code: string }): string {
  return form === 'code' ? written(code.uri) : form === 'part' ? code.code : code.uri
}

/** Keywords and helpers, and the methods of lists after a dot. */
function words(kind: 'method' | ''): Completion[] {
  return WORDS.filter((word) => (word.kind === 'method') === (kind === 'method')).map(option)
}

/** A description in the direction of its language: the editor is from left to right. */
function described(text: string): () => HTMLElement {
  return () => h('div', { dir: 'auto' }, prose(text))
}

function option(word: Word): Completion {
  const completion: Completion = { label: word.name, type: word.kind, detail: word.form, info: described(says(word)) }
  if (!word.inserts.includes('|')) return { ...completion, apply: word.inserts }
  return snippetCompletion(word.inserts.replaceAll('|', '${}'), completion)
}

function fields(
  path: { from: number; text: string },
  context: CompletionContext,
  { schema, subject }: Completed,
): CompletionResult | null {
  const known = schema()
  const names = path.text.split('.')
  const from = context.pos - (names.at(-1)?.length ?? 0)
  const below = known && fieldsBelow(known, subject(), context.state.doc.toString(), names.slice(0, -1))
  const ofRecord = [...(below?.values() ?? [])].map(
    (field): Completion => {
      const info = fieldText([...names.slice(1, -1), field.name], field.vocabularies, field.says)
      return { label: field.name, type: 'field', detail: t.kinds[field.type] ?? field.type, ...(info && { info: described(info) }), boost: 1 }
    },
  )
  return { from, options: [...ofRecord, ...words('method')], validFor: /^\w*$/ }
}

/** In quotes: the values that the function or the comparison accepts. */
async function quoted(
  context: CompletionContext,
  value: Expected,
  known: CodedField | undefined,
  { api }: Completed,
): Promise<CompletionResult | null> {
  if (!api.may('vocabulary:read') || api.waitMs > 0) return null
  if (value.form === 'group') {
    const all = await conceptGroups(api).catch(() => [])
    const groups = known ? groupsOf(all, known.vocabularies) : all
    const options = groups.map(({ name, description }): Completion => ({ label: name, type: 'group', info: described(groupText(name, description) || name) }))
    return { from: value.from, options, validFor: /^\w*$/ }
  }
  const asked = value.written.includes('#') ? value.written.slice(value.written.lastIndexOf('#') + 1) : value.written
  const found = await search(context, asked, api, known)
  const options = found.map((code) => ({ ...shown(code), apply: inserted(value, code) }))
  return options.length ? { from: value.from, options, filter: false } : null
}

/** Where a coded field is compared: its codes, and the words of the language that begin so. */
async function compared(
  context: CompletionContext,
  value: Expected,
  known: CodedField,
  { api }: Completed,
): Promise<CompletionResult | null> {
  const text = value.written
  const isQuoted = value.from < context.pos - text.length
  const others = text && !isQuoted ? words('').filter(({ label }) => label.startsWith(text.toLowerCase())) : []
  const canSearch = api.may('vocabulary:read') && api.waitMs === 0
  const found = canSearch ? await search(context, text, api, known) : []
  const codes = found.map((code): Completion => ({ ...shown(code), apply: replacing(inserted(value, code)) }))
  const options = [...codes, ...others]
  return options.length ? { from: value.from, options, filter: false } : null
}

/** Inserts a code; a quotation mark that the editor closed by itself is replaced too. */
function replacing(text: string): Completion['apply'] {
  return (view, _completion, from, to) => {
    const opening = view.state.sliceDoc(from, from + 1)
    const isClosed = /['"]/.test(opening) && view.state.sliceDoc(to, to + 1) === opening
    const end = isClosed ? to + 1 : to
    view.dispatch({ changes: { from, to: end, insert: text }, selection: { anchor: from + text.length }, userEvent: 'input.complete' })
  }
}

/** A word that may be the name of a code, which then replaces it. */
async function named(
  word: { from: number; text: string },
  context: CompletionContext,
  { api }: Completed,
): Promise<CompletionResult | null> {
  if (!api.may('vocabulary:read') || api.waitMs > 0) return null
  const found = await search(context, word.text, api, undefined)
  const options = found.map((code) => ({ ...shown(code), apply: written(code.uri) }))
  return options.length ? { from: word.from, options, filter: false } : null
}

async function search(context: CompletionContext, text: string, api: Api, known: CodedField | undefined): Promise<FoundCode[]> {
  const stop = new AbortController()
  context.addEventListener('abort', () => stop.abort(), { onDocChange: true })
  if (!context.explicit && text) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
  if (context.aborted) return []
  const found = known ? searchVocabularies(api, known.vocabularies, text, stop.signal) : searchCodes(api, text, stop.signal)
  return found.catch(() => [])
}

function shown(code: { uri: string; display: string; namespace: string; code: string }): Completion {
  return { label: code.display, type: 'code', detail: code.code, info: code.uri }
}
