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
  editor: RuleEditor
  text: () => string
  subject: () => Subject
  /** Elements that are shown with the text only. */
  withText: HTMLElement[]
  say: (text: string) => void
}

const MODES = ['text', 'rows'] as const
type Mode = (typeof MODES)[number]

/** The last choice, while the page is open. */
let chosen: Mode = 'text'

export interface Panel {
  dom: HTMLElement
  reading: HTMLElement
  /** Called when the text or the subject kind has changed. */
  changed: () => void
  /** Shows the text, where a position in it is about to be selected. */
  showText: () => void
  close: () => void
}

export function editingPanel({ api, editor, text, subject, withText, say }: PanelSettings): Panel {
  const builder = new Builder({
    api,
    subject,
    say,
    onChange: (written) => editor.view.dispatch({ changes: { from: 0, to: editor.view.state.doc.length, insert: written }, userEvent: 'input' }),
  })
  const reading = ruleReading(api)
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
    show()
  }
  const changed = () => {
    if (chosen === 'rows') builder.show(text())
    reading.show(text(), subject())
  }
  let shown = subject()
  show()
  changed()
  return {
    dom: h('div', {}, h('div', { role: 'group', 'aria-label': t.builder.mode, class: 'modes' }, buttons), editor.dom, builder.dom),
    reading: reading.dom,
    changed: () => {
      if (shown !== subject()) builder.redraw()
      shown = subject()
      changed()
    },
    showText: () => choose('text'),
    close: () => reading.close(),
  }
}
