// Completion: fields after a dot, helpers and keywords elsewhere, concept groups and codes in quotes, and codes by
// their names for words that are not part of the language.

import {
  type Completion,
  type CompletionContext,
  type CompletionResult,
  autocompletion,
  snippetCompletion,
} from '@codemirror/autocomplete'
import type { Extension } from '@codemirror/state'

import type { Api } from '../api'
import { conceptGroups, searchCodes, written } from '../codes'
import { currentLanguage } from '../i18n'
import { type Schema, type Subject, fieldsBelow } from './schema'
import { WORDS, type Word } from './words'

export interface Completed {
  api: Api
  subject: () => Subject
  schema: () => Schema | undefined
}

/** The minimum length of a word that is searched among the names of codes. */
const NAME_LETTERS_MIN = 4
/** The pause before that search, in milliseconds. */
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
  const before = context.matchBefore(/(\w+\(\s*|\w+\((?:[^()'"]|\([^()]*\))*,\s*)['"][^'"]*$/)
  if (before) return quoted(context, before.text, completed)
  const path = context.matchBefore(/[A-Za-z_]\w*(\.\w*)+$/)
  if (path) return fields(path, context, completed)
  const word = context.matchBefore(/[\p{L}_][\p{L}\p{N}_]*$/u)
  if (!word) return context.explicit ? { from: context.pos, options: words('') } : null
  const options = words('')
  const isKnown = options.some((option) => option.label.startsWith(word.text.toLowerCase()))
  if (isKnown || word.text.length < NAME_LETTERS_MIN) return { from: word.from, options, validFor: /^\w*$/ }
  return named(word, context, completed)
}

/** Keywords and helpers, and the methods of lists after a dot. */
function words(kind: 'method' | ''): Completion[] {
  return WORDS.filter((word) => (word.kind === 'method') === (kind === 'method')).map(option)
}

function option(word: Word): Completion {
  const says = word.says[currentLanguage() === 'fr' ? 'fr' : 'en']
  const completion: Completion = { label: word.name, type: word.kind, detail: word.form, info: says }
  if (!word.inserts.includes('|')) return { ...completion, apply: word.inserts }
  return snippetCompletion(word.inserts.replace('|', '${}'), completion)
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
    (field): Completion => ({ label: field.name, type: 'field', detail: field.type, info: field.says || '', boost: 1 }),
  )
  return { from, options: [...ofRecord, ...words('method')], validFor: /^\w*$/ }
}

/** In quotes: the values that the function accepts. */
async function quoted(context: CompletionContext, text: string, { api }: Completed): Promise<CompletionResult | null> {
  const name = /^\w+/.exec(text)?.[0]
  const inside = text.slice(Math.max(text.lastIndexOf("'"), text.lastIndexOf('"')) + 1)
  const from = context.pos - inside.length
  if (!api.may('vocabulary:read') || api.waitMs > 0) return null
  if (name === 'in_group') {
    const groups = await conceptGroups(api).catch(() => [])
    const options = groups.map(({ name, description }): Completion => ({ label: name, type: 'group', info: description }))
    return { from, options, validFor: /^\w*$/ }
  }
  if (name !== 'code' && name !== 'descends_from') return null
  const asked = inside.includes('#') ? inside.slice(inside.lastIndexOf('#') + 1) : inside
  const found = await search(context, asked, api)
  const options = found.map((code) => ({ ...shown(code), apply: code.uri }))
  return options.length ? { from, options, filter: false } : null
}

/** A word that may be the name of a code, which then replaces it. */
async function named(
  word: { from: number; text: string },
  context: CompletionContext,
  { api }: Completed,
): Promise<CompletionResult | null> {
  if (!api.may('vocabulary:read') || api.waitMs > 0) return null
  const found = await search(context, word.text, api)
  const options = found.map((code) => ({ ...shown(code), apply: written(code.uri) }))
  return options.length ? { from: word.from, options, filter: false } : null
}

async function search(context: CompletionContext, text: string, api: Api) {
  const stop = new AbortController()
  context.addEventListener('abort', () => stop.abort(), { onDocChange: true })
  if (!context.explicit) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
  if (context.aborted) return []
  return searchCodes(api, text, stop.signal).catch(() => [])
}

function shown(code: { uri: string; display: string; namespace: string; code: string }): Completion {
  return { label: code.display, type: 'code', detail: code.code, info: code.uri }
}
