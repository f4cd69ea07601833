// Saves the current rule: as a draft, whose changes by others are shown and not overwritten, or as a rule file.

import { isAbort, sentence } from '../api'
import { openDialog, type Dialog } from '../dialog'
import { field, fill, h, prose } from '../dom'
import { t } from '../i18n'
import { save as saveFile } from '../rule/csv'
import type { Context } from '../shell'
import { state } from '../state'
import { shownDifference } from './difference'
import { type Tagged, currentBody, isClosed, isConflict, openedDraft, readDraft, saveDraft } from './drafts'
import { fileName, fileText } from './file'
import { openRule } from './open'
import { programs } from './programs'

export function openSave(context: Context, onSaved: () => void): void {
  const { document } = state
  const dialog = openDialog(t.keep.save.heading)
  const name = h('input', { type: 'text', required: true, maxlength: 200, value: document.title })
  const comment = h('textarea', { rows: 3, class: 'words', value: document.about })
  const program = h('select', {}, option('', t.keep.save.noProgram), document.program && option(document.program, document.program))
  program.value = document.program
  const problem = h('div', { role: 'alert' })
  const mayWrite = context.api.may('eligibility:create')
  void programs(context.api).then((all) => {
    const chosen = program.value
    const own = all.some(({ reference }) => reference === chosen) || !chosen ? [] : [option(chosen, chosen)]
    fill(program, option('', t.keep.save.noProgram), own, all.map((one) => option(one.reference, one.name)))
    program.value = chosen
  }, () => {})

  const keepWords = () => Object.assign(state.document, { title: name.value.trim(), about: comment.value.trim() })
  const store = async (version?: { id: string; tag: string }) => {
    fill(problem)
    try {
      const saved = await saveDraft(context.api, currentBody(name.value.trim(), comment.value.trim(), program.value), version)
      accept(saved)
      dialog.close()
      context.say(t.keep.save.saved(saved.draft.version))
      onSaved()
    } catch (error) {
      if (isAbort(error)) return
      if (isConflict(error) && version) await showChanged(context, dialog, version.id, problem, (tag) => store({ id: version.id, tag }))
      else fill(problem, h('p', { class: 'problem' }, prose(isClosed(error) ? t.keep.save.closed : sentence(error))))
    }
  }
  const download = () => {
    if (!name.reportValidity()) return
    keepWords()
    state.save()
    const text = fileText(new Date().toISOString().slice(0, 10))
    saveFile(new Blob([text], { type: 'application/toml' }), fileName(name.value))
    onSaved()
  }
  const submit = (event: Event) => {
    event.preventDefault()
    if (mayWrite) void store(document.draft)
    else download()
  }
  const { draft } = document
  fill(
    dialog.body,
    h(
      'form',
      { on: { submit } },
      field(t.keep.name, name),
      field(t.keep.save.comment, comment),
      mayWrite && field(t.keep.save.program, program, t.keep.save.programHint),
      problem,
      h(
        'div',
        { class: 'row' },
        mayWrite && h('button', { type: 'submit', class: 'primary' }, draft ? t.keep.save.next(draft.version + 1) : t.keep.save.draft),
        mayWrite && draft && h('button', { type: 'button', on: { click: () => name.reportValidity() && void store() } }, t.keep.save.asNew),
        h('button', { type: 'button', class: mayWrite ? '' : 'primary', on: { click: download } }, t.keep.save.file),
      ),
      !mayWrite && h('p', { class: 'notice' }, t.keep.save.noScope),
      document.cases.some(({ isOfPerson }) => isOfPerson) && h('p', { class: 'notice' }, t.keep.cases.ofPerson),
      h('p', { class: 'hint' }, prose(t.keep.save.fileHint)),
    ),
  )
  name.focus()
}

function option(value: string, name: string): HTMLElement {
  return h('option', { value }, name)
}

/** The saved draft is the current rule. */
function accept(saved: Tagged): void {
  const { draft, tag } = saved
  const { id, version, name, comment = '', program = '', engine = '' } = draft
  Object.assign(state.document, { title: name, about: comment, program, engine, draft: { id, tag, version } })
  // The cases of a draft are evaluated on its day.
  if (draft.as_of && state.document.cases.length > 0) state.document.casesAsOf = draft.as_of
  state.save()
}

/** The draft has changed: why it is closed, or both texts and what can be done. */
async function showChanged(context: Context, dialog: Dialog, id: string, place: HTMLElement, overwrite: (tag: string) => Promise<void>): Promise<void> {
  try {
    const theirs = await readDraft(context.api, id)
    if (theirs.draft.status !== 'open') return fill(place, h('p', { class: 'problem' }, t.keep.save.closed))
    const open = () => {
      openRule(openedDraft(theirs))
      dialog.close()
      context.go('rule')
    }
    const { draft } = theirs
    fill(
      place,
      h('p', { class: 'problem' }, t.keep.save.conflict(draft.version)),
      h('h3', {}, t.keep.save.theirs(draft.version)),
      h('pre', { class: 'rule', tabindex: '0' }, draft.expression),
      h('h3', {}, t.keep.save.yours),
      h('pre', { class: 'rule', tabindex: '0' }, state.a),
      h('h3', {}, t.keep.save.differences),
      shownDifference(draft.expression, state.a),
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

