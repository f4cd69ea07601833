// A draft that another client has changed: both texts with their differences, and what can be done.

import { isAbort, sentence } from '../api'
import type { Dialog } from '../dialog'
import { fill, h } from '../dom'
import { day, t } from '../i18n'
import type { Context } from '../shell'
import { shownDifference } from './difference'
import { type OwnCase, caseText, changedCases } from './document'
import { type DraftBody, openedDraft, readDraft } from './drafts'
import { openRule } from './open'

export interface Conflict {
  dialog: Dialog
  /** The element that shows it. */
  place: HTMLElement
  id: string
  /** What the user wants to save. */
  yours: DraftBody
  overwrite: (tag: string) => Promise<void>
}

/** Shows why the draft is closed, or the differences of both versions. */
export async function showConflict(context: Context, { dialog, place, id, yours, overwrite }: Conflict): Promise<void> {
  try {
    const theirs = await readDraft(context.api, id)
    const { draft } = theirs
    if (draft.status !== 'open') return fill(place, h('p', { class: 'problem' }, t.keep.save.closed))
    const opened = openedDraft(theirs)
    const open = () => {
      openRule(opened)
      dialog.close()
      context.go('rule')
    }
    fill(
      place,
      h('p', { class: 'problem' }, t.keep.save.conflict(draft.version)),
      ...rules(draft.version, draft.expression, yours.expression),
      ...[...others(draft, yours), ...ofCases(opened.document.cases, yours.cases ?? [])].flatMap(({ label, before, after }) => [h('h3', {}, label), shownDifference(before, after)]),
      h(
        'div',
        { class: 'row' },
        h('button', { type: 'button', on: { click: () => void overwrite(theirs.tag) } }, t.keep.save.overwrite),
        h('button', { type: 'button', on: { click: open } }, t.keep.save.openTheirs),
      ),
    )
  } catch (error) {
    if (!isAbort(error)) fill(place, h('p', { class: 'problem' }, sentence(error)))
  }
}

function rules(version: number, theirs: string, yours: string): HTMLElement[] {
  if (theirs === yours) return [h('p', {}, t.keep.save.sameRule)]
  return [
    h('h3', {}, t.keep.save.theirs(version)),
    h('pre', { class: 'rule', tabindex: '0' }, theirs),
    h('h3', {}, t.keep.save.yours),
    h('pre', { class: 'rule', tabindex: '0' }, yours),
    h('h3', {}, t.keep.save.differences),
    shownDifference(theirs, yours),
  ]
}

interface Difference {
  label: string
  before: string
  after: string
}

/** The values that belong to a rule and differ. */
function others(theirs: DraftBody, yours: DraftBody): Difference[] {
  const after = values(yours)
  const all = values(theirs).map(([label, before], at) => ({ label, before, after: after[at]?.[1] ?? '' }))
  return all.filter((one) => one.before !== one.after)
}

function ofCases(theirs: OwnCase[], yours: OwnCase[]): Difference[] {
  return changedCases(theirs, yours).map(({ name, before, after }) => ({ label: t.keep.cases.one(name), before: caseText(before), after: caseText(after) }))
}

function values({ name, comment = '', program = '', engine = '', subject, as_of: asOf }: DraftBody): [label: string, value: string][] {
  return [
    [t.keep.name, name],
    [t.keep.save.comment, comment],
    [t.keep.save.program, program],
    [t.engine.label, engine],
    [t.subject.label, t.subject[subject]],
    [t.rule.asOf, asOf ? day(asOf) : ''],
  ]
}
