// The rule as text or as conditions, whichever the user chose, with its reading in words below.

import type { Api } from '../api'
import { h } from '../dom'
import type { RuleEditor } from '../editor/editor'
import type { Subject } from '../editor/schema'
import { t } from '../i18n'
import { ruleReading } from '../reading/view'
import { Builder } from './view'

export interface PanelSettings {
  api: Api
  place: Place
  /** The name of the rule, where the page has several. */
  name?: string
  editor: RuleEditor
  text: () => string
  subject: () => Subject
  /** Elements that are shown with the text only. */
  withText: HTMLElement[]
  say: (text: string) => void
}

const MODES = ['text', 'rows'] as const
type Mode = (typeof MODES)[number]

/** The rule of the first view, and both rules of the comparison. */
export type Place = 'rule' | 'a' | 'b'

/** The last choice in each place, while the page is open. */
const choices: { [place in Place]?: Mode } = {}

export interface Panel {
  dom: HTMLElement
  reading: HTMLElement
  /** Called when the text or the subject kind has changed. */
  changed: () => void
  /** The editor for diagnostics: a position is shown in the text, and a fix focuses the rule as it is shown. */
  shown: RuleEditor
  /** Focuses the text, or the first of the conditions. */
  focus: () => void
  close: () => void
}

export function editingPanel({ api, place, name, editor, text, subject, withText, say }: PanelSettings): Panel {
  // The second rule is written as the first one was.
  let chosen = choices[place] ?? (place === 'b' ? choices.rule : undefined) ?? 'text'
  const builder = new Builder({
    api,
    label: name ? `${name}: ${t.builder.heading}` : t.builder.heading,
    subject,
    say,
    onChange: (written) => editor.view.dispatch({ changes: { from: 0, to: editor.view.state.doc.length, insert: written }, userEvent: 'input' }),
  })
  const reading = ruleReading(api, name)
  const buttons = MODES.map((mode) => h('button', { type: 'button', on: { click: () => choose(mode) } }, t.builder[mode]))
  const show = () => {
    MODES.forEach((mode, at) => buttons[at]?.setAttribute('aria-pressed', String(mode === chosen)))
    for (const element of [editor.dom, ...withText]) element.hidden = chosen !== 'text'
    builder.dom.hidden = chosen !== 'rows'
    if (chosen === 'text') editor.view.requestMeasure()
    else builder.show(text())
  }
  const choose = (mode: Mode) => {
    chosen = mode
    choices[place] = mode
    show()
  }
  const changed = () => {
    if (chosen === 'rows') builder.show(text())
    reading.show(text(), subject())
  }
  const focus = () => (chosen === 'text' ? editor.view.focus() : builder.focus())
  let shown = subject()
  show()
  changed()
  return {
    dom: h('div', {}, h('div', { role: 'group', 'aria-label': name ? `${name}: ${t.builder.mode}` : t.builder.mode, class: 'modes' }, buttons), editor.dom, builder.dom),
    reading: reading.dom,
    changed: () => {
      if (shown !== subject()) builder.redraw()
      shown = subject()
      changed()
    },
    shown: {
      ...editor,
      goTo: (from, to) => (choose('text'), editor.goTo(from, to)),
      replace: (from, to, by) => (editor.replace(from, to, by), focus()),
    },
    focus,
    close: () => reading.close(),
  }
}
