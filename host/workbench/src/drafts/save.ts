// Saves the current rule: as a draft, whose changes by others are shown and not overwritten, or as a rule file.

import { isAbort, sentence } from '../api'
import { openDialog } from '../dialog'
import { field, fill, h, prose } from '../dom'
import { t } from '../i18n'
import { save as saveFile } from '../rule/csv'
import type { Context } from '../shell'
import { state } from '../state'
import { showConflict } from './conflict'
import type { RuleDocument } from './document'
import { type Tagged, currentBody, isClosed, isConflict, saveDraft } from './drafts'
import { fileName, fileText } from './file'
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

  const keepWords = () => {
    // The engine is that of the program.
    const engine = program.value === document.program ? document.engine : ''
    Object.assign(document, { title: name.value.trim(), about: comment.value.trim(), program: program.value, engine })
    state.save()
  }
  let isBusy = false
  const setBusy = (to: boolean) => {
    isBusy = to
    for (const button of dialog.body.querySelectorAll('button')) button.disabled = to
  }
  const store = async (version?: { id: string; tag: string }) => {
    if (isBusy) return
    const focused = dialog.body.querySelector<HTMLElement>(':focus')
    fill(problem)
    // The session may expire while the rule is saved.
    keepWords()
    const body = currentBody(document.title, document.about, document.program)
    setBusy(true)
    try {
      const saved = await saveDraft(context.api, body, version)
      accept(document, saved)
      dialog.close()
      context.say(t.keep.save.saved(saved.draft.version))
      onSaved()
    } catch (error) {
      if (isAbort(error)) return
      const overwrite = (tag: string) => store(version && { id: version.id, tag })
      if (isConflict(error) && version) await showConflict(context, { dialog, place: problem, id: version.id, yours: body, overwrite })
      else fill(problem, h('p', { class: 'problem' }, prose(isClosed(error) ? t.keep.save.closed : sentence(error))))
    } finally {
      setBusy(false)
      // A disabled button loses the focus.
      if (!dialog.body.querySelector(':focus')) focused?.focus()
    }
  }
  const download = () => {
    if (!name.reportValidity()) return
    keepWords()
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
      document.dropped > 0 && h('p', { class: 'notice' }, t.keep.dropped(document.dropped)),
      document.cases.some(({ isOfPerson }) => isOfPerson) && h('p', { class: 'notice' }, t.keep.cases.ofPerson),
      h('p', { class: 'hint' }, prose(t.keep.save.fileHint)),
    ),
  )
  name.focus()
}

function option(value: string, name: string): HTMLElement {
  return h('option', { value }, name)
}

/** The rule is that of the saved draft. */
function accept(document: RuleDocument, { draft, tag }: Tagged): void {
  const { id, version, name, comment = '', program = '', engine = '' } = draft
  Object.assign(document, { title: name, about: comment, program, engine, dropped: 0, draft: { id, tag, version } })
  // The cases of a draft are evaluated on its day.
  if (draft.as_of && document.cases.length > 0) document.casesAsOf = draft.as_of
  state.save()
}
