// A modal dialog with a heading and a button to close it.

import { type Child, freshId, h } from './dom'
import { t } from './i18n'

export interface Dialog {
  body: HTMLElement
  close: () => void
  /** Ends when the dialog is closed. */
  signal: AbortSignal
}

export function openDialog(title: string, ...content: Child[]): Dialog {
  const stop = new AbortController()
  const id = freshId('dialog')
  const body = h('div', {}, content)
  const dialog = h(
    'dialog',
    { class: 'card', 'aria-labelledby': id },
    h('div', { class: 'row' }, h('h2', { id }, title), h('button', { type: 'button', on: { click: () => dialog.close() } }, t.close)),
    body,
  )
  dialog.addEventListener('close', () => {
    stop.abort()
    dialog.remove()
  })
  document.body.append(dialog)
  dialog.showModal()
  return { body, close: () => dialog.close(), signal: stop.signal }
}
