// The rule editor. It is in a shadow root, where its styles are constructed style sheets, which the content security
// policy permits, unlike style elements.

import { acceptCompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { bracketMatching } from '@codemirror/language'
import { forceLinting, lintKeymap } from '@codemirror/lint'
import { EditorState, Prec } from '@codemirror/state'
import { EditorView, drawSelection, keymap, placeholder } from '@codemirror/view'

import type { Api } from '../api'
import { h } from '../dom'
import { t } from '../i18n'
import { type CodedField, completion, inserted, knownField } from './completion'
import { type Verdict, askAgain, diagnostics } from './diagnostics'
import { hover } from './hover'
import { language } from './language'
import { expected } from './expected'
import { type Schema, type Subject, schemaOf } from './schema'

export interface EditorSettings {
  api: Api
  label: string
  text: string
  subject: () => Subject
  onChange: (text: string) => void
  onVerdict: (verdict: Verdict) => void
  /** The initial position of the cursor; by default the end. */
  cursor?: number | undefined
  onCursor?: (position: number) => void
}

export interface RuleEditor {
  dom: HTMLElement
  view: EditorView
  /** The coded field whose code is expected at the cursor. */
  fieldAtCursor: () => CodedField | undefined
  /** Inserts a code at the cursor, in the form that is expected there. */
  insertCode: (code: { uri: string; code: string }) => void
  replace: (from: number, to: number, text: string) => void
  goTo: (from: number, to: number) => void
  /** Repeats the validation, for example after a change of the subject kind. */
  recheck: () => void
}

const theme = EditorView.theme({
  '&': { backgroundColor: 'var(--field)', color: 'var(--text)', fontSize: '1rem', borderRadius: '4px' },
  '&.cm-focused': { outline: '2px solid var(--focus)', outlineOffset: '-1px' },
  ':host(.quiet) &.cm-focused': { outlineWidth: '1px' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.6', minHeight: '7.5rem' },
  '.cm-content': { caretColor: 'var(--text)', padding: '0.5rem 0' },
  '.cm-line': { padding: '0 0.75rem' },
  '.cm-cursor, .cm-dropCursor': { borderLeftColor: 'var(--text)' },
  '.cm-placeholder': { color: 'var(--muted)' },
  '& > .cm-scroller > .cm-selectionLayer .cm-selectionBackground': { backgroundColor: 'var(--selection) !important' },
  '&.cm-focused .cm-matchingBracket': { backgroundColor: 'var(--selection)' },
  // A wavy line instead of an image, thick enough to be visible without its colour.
  '.cm-lintRange': { backgroundImage: 'none', paddingBottom: '2px' },
  '.cm-lintRange-error': { backgroundImage: 'none', textDecoration: 'underline wavy var(--bad) 1.5px', textUnderlineOffset: '3px' },
  '.cm-lintRange-warning': { backgroundImage: 'none', textDecoration: 'underline dotted var(--warn) 2px', textUnderlineOffset: '3px' },
  '.cm-tooltip': { backgroundColor: 'var(--raised)', color: 'var(--text)', border: '1px solid var(--line)', borderRadius: '6px', maxWidth: 'min(30rem, 90vw)', boxShadow: '0 4px 16px rgb(0 0 0 / 20%)' },
  '.cm-tooltip code': { fontFamily: 'var(--mono)', unicodeBidi: 'isolate', direction: 'ltr' },
  '.cm-tooltip .description': { padding: '0.4rem 0.6rem', fontFamily: 'var(--sans)', fontSize: '0.875rem' },
  '.cm-tooltip .description p': { margin: '0.2rem 0 0' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul': { fontFamily: 'var(--mono)', fontSize: '0.875rem', maxHeight: '16rem' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li': { padding: '0.3rem 0.6rem', whiteSpace: 'normal' },
  '.cm-tooltip-autocomplete ul li[aria-selected]': { backgroundColor: 'var(--accent)', color: 'var(--on-accent)' },
  '.cm-completionDetail': { color: 'inherit', fontStyle: 'normal', opacity: '0.85' },
  '.cm-completionMatchedText': { textDecoration: 'underline' },
  '.cm-tooltip.cm-completionInfo': { padding: '0.4rem 0.6rem', fontFamily: 'var(--sans)', fontSize: '0.875rem' },
  // On a narrow screen below the list, whose options it would cover.
  '.cm-tooltip.cm-completionInfo-left-narrow, .cm-tooltip.cm-completionInfo-right-narrow': { top: '100% !important', bottom: 'auto !important', left: '0 !important', right: '0 !important', maxWidth: 'none !important' },
  '.cm-diagnostic': { fontFamily: 'var(--sans)', fontSize: '0.875rem', padding: '0.4rem 0.6rem' },
  '.cm-diagnostic-error': { borderLeftColor: 'var(--bad)' },
  '.cm-diagnostic-warning': { borderLeftColor: 'var(--warn)' },
  '.cm-diagnosticAction': { backgroundColor: 'var(--accent)', color: 'var(--on-accent)', padding: '0.15rem 0.5rem', fontSize: 'inherit' },
})

/** Replaces a selection by typed text. The browser would keep the colour of the selection in a style attribute, which the
 * content security policy forbids. */
const replacesSelection = EditorView.domEventHandlers({
  beforeinput: (event, view) => {
    const { data: text, inputType } = event
    const { from, to, empty } = view.state.selection.main
    if (inputType !== 'insertText' || text === null || empty || view.composing) return false
    const insert = () => view.state.update(view.state.replaceSelection(text), { userEvent: 'input.type', scrollIntoView: true })
    const isHandled = view.state.facet(EditorView.inputHandler).some((handle) => handle(view, from, to, text, insert))
    if (!isHandled) view.dispatch(insert())
    return true
  },
})

export function makeEditor(settings: EditorSettings): RuleEditor {
  const { api, subject } = settings
  let known: Schema | undefined
  void schemaOf(api).then((schema) => (known = schema))
  // Rules are written from left to right in every language.
  const host = h('div', { class: 'editor', dir: 'ltr' })
  const root = host.attachShadow({ mode: 'open' })
  const state = EditorState.create({
    doc: settings.text,
    selection: { anchor: Math.min(settings.cursor ?? settings.text.length, settings.text.length) },
    extensions: [
      history(),
      EditorState.phrases.of(t.phrases),
      drawSelection(),
      bracketMatching(),
      closeBrackets(),
      EditorView.lineWrapping,
      EditorView.contentAttributes.of({ 'aria-label': settings.label, autocapitalize: 'off', spellcheck: 'false' }),
      replacesSelection,
      placeholder('is_female(me) && age_years(me.birth_date) >= 60'),
      language,
      completion({ api, subject, schema: () => known }),
      hover(() => known, subject),
      diagnostics({ api, subject, onVerdict: settings.onVerdict }),
      // The view runs the rule; the default would insert a line.
      Prec.highest(keymap.of([{ key: 'Mod-Enter', run: () => true }])),
      // Tab accepts a completion; otherwise it leaves the editor, so that keyboard users are not trapped in it.
      keymap.of([{ key: 'Tab', run: acceptCompletion }]),
      keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...completionKeymap, ...lintKeymap]),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) settings.onChange(update.state.doc.toString())
        if (update.docChanged || update.selectionSet) settings.onCursor?.(update.state.selection.main.head)
        // While text is typed, the cursor shows the focus.
        if (update.docChanged) host.classList.add('quiet')
        if (update.focusChanged && !update.view.hasFocus) host.classList.remove('quiet')
      }),
      theme,
    ],
  })
  const view = new EditorView({ state, root, parent: root })
  // A rule that is there already is validated without the pause after a key, once the caller has the editor.
  queueMicrotask(() => forceLinting(view))
  /** The value that is expected at the cursor, and the text that it replaces. */
  const atCursor = () => {
    const { from, to } = view.state.selection.main
    const value = expected(view.state.sliceDoc(0, from), view.state.sliceDoc(to, to + 200))
    return { value, from: value && from === to ? value.from : from, to }
  }
  return {
    dom: host,
    view,
    fieldAtCursor: () => {
      const { value } = atCursor()
      return value && knownField(value, view.state.doc.toString(), { schema: () => known, subject })
    },
    insertCode: (code) => {
      const { value, from, to } = atCursor()
      const text = inserted(value ?? { form: 'code' }, code)
      view.dispatch({ changes: { from, to, insert: text }, selection: { anchor: from + text.length }, userEvent: 'input' })
      view.focus()
    },
    replace: (from, to, text) => {
      view.dispatch({ changes: { from, to, insert: text }, selection: { anchor: from + text.length } })
      view.focus()
    },
    goTo: (from, to) => {
      view.dispatch({ selection: { anchor: from, head: to }, scrollIntoView: true })
      view.focus()
    },
    recheck: () => {
      view.dispatch({ effects: askAgain.of(null) })
      forceLinting(view)
    },
  }
}
