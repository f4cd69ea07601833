// The buttons that open, save and share the current rule, and the line that names it.

import { isAbort, sentence } from '../api'
import { openDialog } from '../dialog'
import { field, fill, h, prose } from '../dom'
import { t } from '../i18n'
import { openGallery } from '../gallery/gallery'
import type { Context } from '../shell'
import { state } from '../state'
import { readCasesAgain } from './drafts'
import { openHistory } from './history'
import { linkOf } from './link'
import { restoreRule } from './open'
import { openOpen } from './open-dialog'
import { openSave } from './save'

export class Toolbar {
  readonly dom = h('div', { class: 'toolbar' })

  /** `onSaved` is called when the rule was saved. */
  constructor(
    private readonly context: Context,
    private readonly onSaved: () => void,
  ) {
    this.show()
  }

  /** Called when the rule or its document has changed. */
  show(): void {
    const { context } = this
    const button = (label: string, act: () => void, isDisabled = false) => h('button', { type: 'button', disabled: isDisabled, on: { click: act } }, label)
    const isEmpty = state.a.trim() === ''
    const focused = [...this.dom.querySelectorAll('button')].findIndex((one) => one === document.activeElement)
    fill(
      this.dom,
      h(
        'div',
        { class: 'row' },
        button(t.keep.examples, () => openGallery(context)),
        button(t.keep.open.button, () => openOpen(context)),
        button(t.keep.save.button, () => openSave(context, () => this.#saved()), isEmpty),
        button(t.keep.share.button, () => openShare(), isEmpty),
      ),
      this.#name(),
      this.#replaced(),
      this.#dropped(),
    )
    if (focused >= 0) this.dom.querySelectorAll('button')[focused]?.focus()
  }

  #saved(): void {
    this.show()
    this.onSaved()
  }

  #name(): HTMLElement | false {
    const { title, program, draft } = state.document
    if (!title && !draft) return false
    const history = draft && h('button', { type: 'button', class: 'link', on: { click: () => openHistory(this.context, draft.id) } }, t.keep.draftVersion(draft.version))
    return h('p', { class: 'rule-name' }, h('strong', {}, h('bdi', {}, title)), history && [' · ', history], program && [' · ', h('code', { class: 'id' }, program)])
  }

  /** The rule in whose place another one was opened can be restored. */
  #replaced(): HTMLElement | false {
    const { replaced } = state
    if (!replaced) return false
    const restore = () => {
      restoreRule()
      this.context.go('rule')
    }
    return h(
      'p',
      { class: 'hint', role: 'status' },
      t.keep.replaced,
      ' ',
      h('button', { type: 'button', class: 'link', on: { click: restore } }, t.keep.restore),
    )
  }

  /** A version that is saved without the dropped cases would remove them from the draft. */
  #dropped(): HTMLElement | false {
    const { document: rule } = state
    if (rule.dropped === 0) return false
    const problem = h('p', { class: 'problem', role: 'alert' })
    const fail = (error: unknown) => {
      if (!isAbort(error)) fill(problem, prose(sentence(error)))
    }
    const again = () => void readCasesAgain(this.context.api, rule).then(() => this.#saved(), fail)
    const dismiss = () => {
      rule.dropped = 0
      state.save()
      this.show()
    }
    const link = (label: string, act: () => void) => h('button', { type: 'button', class: 'link', on: { click: act } }, label)
    return h(
      'div',
      { class: 'notice' },
      h('p', { role: 'status' }, t.keep.dropped(rule.dropped)),
      h('div', { class: 'row' }, rule.draft && link(t.keep.readAgain, again), link(t.close, dismiss)),
      problem,
    )
  }
}

function openShare(): void {
  const { a, subject, asOf, filter } = state
  const link = h('input', { type: 'text', readonly: true, value: linkOf(location.href, { expression: a, subject, asOf, filter }) })
  const result = h('span', { role: 'status', class: 'hint' })
  const copy = () => {
    link.select()
    // Without permission for the clipboard the selected text can be copied by keyboard.
    navigator.clipboard?.writeText(link.value).then(
      () => (result.textContent = t.keep.share.copied),
      () => (result.textContent = t.keep.share.selected),
    ) ?? (result.textContent = t.keep.share.selected)
  }
  openDialog(
    t.keep.share.heading,
    h('p', {}, t.keep.share.lead),
    field(t.keep.share.link, link),
    h('div', { class: 'row' }, h('button', { type: 'button', class: 'primary', on: { click: copy } }, t.keep.share.copy), result),
  )
  link.focus()
  link.select()
}
