// Validates a rule by the server while it is edited: after a pause, once per text, and not before the rate limit
// permits it.

import { linter, type Diagnostic as Mark } from '@codemirror/lint'
import { type EditorState, type Extension, StateEffect, type Text } from '@codemirror/state'
import { EditorView } from '@codemirror/view'

import { type Api, type Diagnostic, isAbort, sentence } from '../api'
import { nameOf } from '../codes'
import { h, prose } from '../dom'
import { leftToRight, t } from '../i18n'
import { localWarnings, merged } from './local'
import { diagnosticText } from '../server/translate'
import { state } from '../state'
import { type Subject, schemaOf } from './schema'

export interface Validated {
  valid: boolean
  result_type: string | null
  references: string[]
  cost: { steps_min: number; steps_max: number | null; list_items: number } | null
  diagnostics: Diagnostic[]
}

export type Verdict =
  | { kind: 'empty' }
  | { kind: 'checking' }
  | { kind: 'validated'; validated: Validated }
  | { kind: 'failed'; message: string }

/** Repeats the validation of the same text, because the subject kind has changed. */
export const askAgain = StateEffect.define<null>()

/** The pause after the last key, in milliseconds. */
const PAUSE_MS = 600

export interface Checked {
  api: Api
  subject: () => Subject
  onVerdict: (verdict: Verdict) => void
}

export function diagnostics({ api, subject, onVerdict }: Checked): Extension {
  let last: { asked: string; validated: Validated } | undefined
  const check = async (view: EditorView): Promise<Mark[]> => {
    const expression = view.state.doc.toString()
    if (!expression.trim()) {
      onVerdict({ kind: 'empty' })
      return []
    }
    const request = () => `${state.engine} ${subject()} ${view.state.doc.toString()}`
    const asked = request()
    if (last?.asked !== asked) {
      onVerdict({ kind: 'checking' })
      const validated = await validate(api, expression, subject())
      // The text, subject kind or engine may have changed in the meantime; then another validation is pending.
      if (request() !== asked) return []
      if ('message' in validated) {
        onVerdict({ kind: 'failed', message: validated.message })
        return []
      }
      last = { asked, validated }
    }
    onVerdict({ kind: 'validated', validated: last.validated })
    return last.validated.diagnostics.map((diagnostic) => mark(view.state, diagnostic))
  }
  // From the first keystroke on: diagnostics refer to the previous text.
  const changed = EditorView.updateListener.of(({ docChanged, state }) => {
    if (docChanged) onVerdict({ kind: state.doc.toString().trim() ? 'checking' : 'empty' })
  })
  const checks = linter(check, {
    delay: PAUSE_MS,
    needsRefresh: (update) => update.transactions.some(({ effects }) => effects.some((effect) => effect.is(askAgain))),
  })
  return [changed, checks]
}

async function validate(api: Api, expression: string, subject: Subject): Promise<Validated | { message: string }> {
  try {
    const body = { expression, subject, ...(state.engine && { engine: state.engine }) }
    const validated = await api.post<Validated>('Eligibility/$validate', body)
    const translated = validated.diagnostics.map((one) => ({ ...one, message: diagnosticText(one) }))
    return { ...validated, diagnostics: await completed(api, expression, subject, translated) }
  } catch (error) {
    // After a sign-out the rule is validated again by the next client.
    return { message: isAbort(error) ? t.rule.checking : sentence(error) }
  }
}

/** Adds the warnings of the page, and the names of suggested codes. Without vocabularies the diagnostics are as they are. */
async function completed(api: Api, expression: string, subject: Subject, diagnostics: Diagnostic[]): Promise<Diagnostic[]> {
  const schema = await schemaOf(api)
  if (!api.may('vocabulary:read') || !schema) return diagnostics
  try {
    const all = merged(diagnostics, await localWarnings(api, schema, subject, expression))
    return await Promise.all(all.map((diagnostic) => withName(api, diagnostic)))
  } catch (error) {
    if (isAbort(error)) throw error
    return diagnostics
  }
}

async function withName(api: Api, diagnostic: Diagnostic): Promise<Diagnostic> {
  const uri = /^(?:code\(['"])?([^'"()\s]+#[^'"()]+)(?:['"]\))?$/.exec(diagnostic.suggestion ?? '')?.[1]
  const name = uri === undefined ? undefined : await nameOf(api, uri)
  return name === undefined ? diagnostic : { ...diagnostic, name }
}

function mark(state: EditorState, diagnostic: Diagnostic): Mark {
  const { from, to } = range(state.doc, diagnostic)
  const replacement = suggested(state.doc, diagnostic)
  const action = replacement && {
    name: t.rule.use(leftToRight(replacement.text), diagnostic.name ?? ''),
    apply: (view: EditorView) =>
      view.dispatch({ changes: { from: replacement.from, to: replacement.to, insert: replacement.text } }),
  }
  const { severity, message } = diagnostic
  return { from, to, severity, message, renderMessage: () => h('span', { dir: 'auto' }, prose(message)), actions: action ? [action] : [] }
}

/** The position of a diagnostic. The server counts characters; the editor counts UTF-16 code units. */
export function range(doc: Text, { line, column, length }: Diagnostic): { from: number; to: number } {
  const found = doc.line(Math.min(Math.max(line, 1), doc.lines))
  const rest = [...doc.sliceString(found.from)]
  const units = (count: number) => rest.slice(0, count).join('').length
  const from = Math.min(found.from + units(column - 1), found.to)
  const to = Math.min(found.from + units(column - 1 + length), doc.length)
  if (to > from) return { from, to }
  // An empty range is shown by the letter at it, or the one before the end.
  return from < doc.length ? { from, to: from + 1 } : { from: Math.max(0, from - 1), to: from }
}

/** The replacement of a suggestion. A name or a URI in place of a text stays between its quotation marks; an expression
 * such as `code('…')` replaces them too. */
export function suggested(doc: Text, diagnostic: Diagnostic): { from: number; to: number; text: string } | undefined {
  const { suggestion } = diagnostic
  if (suggestion === undefined || diagnostic.length === 0) return undefined
  const { from, to } = range(doc, diagnostic)
  const quote = doc.sliceString(from, from + 1)
  const isQuoted = (quote === "'" || quote === '"') && to - from > 1 && doc.sliceString(to - 1, to) === quote
  const isText = isQuoted && !/['"]/.test(suggestion)
  return { from, to, text: isText ? `${quote}${suggestion}${quote}` : suggestion }
}
