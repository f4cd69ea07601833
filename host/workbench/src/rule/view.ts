// The first view: a rule, its diagnostics, and its reach.

import { editingPanel } from '../builder/panel'
import { CasesPanel } from '../cases/panel'
import { codeSearch } from '../combobox'
import { field, h } from '../dom'
import { Toolbar } from '../drafts/toolbar'
import { makeEditor, type RuleEditor } from '../editor/editor'
import type { Verdict } from '../editor/diagnostics'
import type { Subject } from '../editor/schema'
import { Gallery } from '../gallery/gallery'
import { t } from '../i18n'
import type { View } from '../shell'
import { state } from '../state'
import { engineChoice } from './engines'
import { Reach } from './reach'
import { showVerdict } from './verdict'

export const rule: View = (context) => {
  const { api } = context
  const verdict = h('div', { class: 'verdict', 'aria-live': 'polite' })
  const reach = new Reach(context)
  const toolbar = new Toolbar(context, () => cases.changedDay())
  const cases = new CasesPanel(context)
  const start = new Gallery(context)
  /** The examples are in place of a result while there is neither a rule nor a result. */
  const showStart = () => {
    const isStart = state.a.trim() === '' && state.reach === undefined
    start.show(isStart)
    reach.dom.hidden = isStart
  }
  showStart()
  const editor: RuleEditor = makeEditor({
    api,
    label: t.rule.editor,
    text: state.a,
    cursor: state.cursor,
    onCursor: (position) => (state.cursor = position),
    subject: () => state.subject,
    onChange: (text) => {
      const isStart = (state.a.trim() === '') !== (text.trim() === '')
      state.a = text
      state.save()
      reach.changed()
      cases.changed()
      showStart()
      if (isStart) toolbar.show()
      panel.changed()
    },
    onVerdict: (current: Verdict) => {
      showVerdict(verdict, current, panel.shown)
      reach.validated(current.kind === 'validated' && !current.validated.valid)
      if (current.kind !== 'checking') cases.validated(current.kind === 'validated' && current.validated.valid)
    },
  })
  const subject = h(
    'select',
    {
      value: state.subject,
      on: {
        change: () => {
          state.subject = subject.value as Subject
          state.save()
          editor.recheck()
          cases.changed()
          reach.changed()
          panel.changed()
        },
      },
    },
    (['individual', 'group'] as const).map((kind) => h('option', { value: kind }, t.subject[kind])),
  )
  const engine = engineChoice(api, () => {
    editor.recheck()
    reach.changed()
  })
  const asOf = h('input', {
    type: 'date',
    value: state.asOf,
    on: {
      change: () => {
        state.asOf = asOf.value
        state.save()
        reach.changed()
      },
    },
  })
  const codes = api.may('vocabulary:read')
    ? codeSearch({
        api,
        label: t.rule.insertCode,
        hint: t.rule.insertCodeHint,
        about: () => editor.fieldAtCursor(),
        onChoose: (code) => editor.insertCode(code),
      })
    : h('p', { class: 'hint' }, t.rule.noVocabulary)
  const hint = h('p', { class: 'hint' }, t.rule.hint)
  const panel = editingPanel({
    api,
    place: 'rule',
    editor,
    text: () => state.a,
    subject: () => state.subject,
    withText: [hint, codes],
    say: context.say,
  })
  const dom = h(
    'div',
    { class: 'columns' },
    h(
      'section',
      { class: 'card stays', 'aria-labelledby': 'rule' },
      h('h1', { id: 'rule' }, t.rule.heading),
      toolbar.dom,
      !api.may('eligibility:read') && h('p', { class: 'problem', role: 'alert' }, t.signIn.noRules),
      h('div', { class: 'row top' }, field(t.subject.label, subject), field(t.rule.asOf, asOf, t.rule.asOfHint), engine),
      panel.dom,
      hint,
      panel.reading,
      verdict,
      cases.dom,
      codes,
    ),
    reach.dom,
    start.dom,
  )
  const { inserted } = state
  state.inserted = undefined
  // Once the editor is in the page.
  if (inserted) queueMicrotask(() => editor.insertCode(inserted))
  return {
    dom,
    run: () => reach.run(),
    close: () => {
      reach.close()
      cases.close()
      panel.close()
      editor.view.destroy()
    },
  }
}
