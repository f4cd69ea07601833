// The versions of a draft, each with its differences from the one before.

import { isAbort, sentence } from '../api'
import { openDialog } from '../dialog'
import { fill, h, prose } from '../dom'
import { day, t } from '../i18n'
import type { Context } from '../shell'
import { state } from '../state'
import { shownDifference } from './difference'
import { type Draft, openedDraft, readDraft, versionsOf } from './drafts'
import { openRule } from './open'

export function openHistory(context: Context, id: string): void {
  const dialog = openDialog(t.keep.history.heading, h('p', { class: 'hint', role: 'status' }, t.loading))
  const fail = (error: unknown) => {
    if (!isAbort(error)) fill(dialog.body, h('p', { class: 'problem', role: 'alert' }, prose(sentence(error))))
  }
  const list = async (notice?: (newest: number) => string) => {
    const versions = await versionsOf(context.api, id)
    const newest = versions[0]?.version ?? 0
    const open = async (version: Draft) => {
      // A change of an earlier version replaces the current one, which the list must show.
      const current = await readDraft(context.api, id)
      if (dialog.signal.aborted) return
      if (current.draft.version !== newest) return list(t.keep.history.newer)
      openRule(openedDraft(current, version))
      for (const other of document.querySelectorAll('dialog')) other.close()
      context.go('rule')
    }
    const lines = versions.map((one, at) => line(one, versions[at + 1], (version) => void open(version).catch(fail)))
    fill(dialog.body, notice && h('p', { class: 'notice', role: 'alert' }, notice(newest)), h('ol', { class: 'versions', reversed: true }, lines))
  }
  list().catch(fail)
}

function line(version: Draft, before: Draft | undefined, open: (version: Draft) => void): HTMLElement {
  const { version: number, name, comment, author, last_updated: changed, expression, status, as_of: asOf } = version
  const by = [author.client, author.organization].filter(Boolean).join(', ')
  const isSame = before?.expression === expression
  return h(
    'li',
    { value: number },
    h('p', {}, h('strong', {}, h('bdi', {}, name)), ' ', h('span', { class: 'hint' }, t.keep.open.version(number, day(changed.slice(0, 10)), by)), ' ', h('span', { class: `badge ${status}` }, t.keep.status[status])),
    asOf && h('p', { class: 'hint' }, t.reach.on(day(asOf))),
    comment && h('p', {}, comment),
    isSame ? h('p', { class: 'hint' }, t.keep.history.sameRule) : before ? shownDifference(before.expression, expression) : h('pre', { class: 'rule', tabindex: '0' }, expression),
    expression !== state.a && h('details', {}, h('summary', {}, t.keep.history.toCurrent), shownDifference(expression, state.a)),
    h('button', { type: 'button', on: { click: () => open(version) } }, t.keep.history.openVersion(number)),
  )
}
