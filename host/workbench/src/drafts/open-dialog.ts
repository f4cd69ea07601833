// Opens a draft, the rule of a program, or a rule file.

import { isAbort, sentence } from '../api'
import { FILE_BYTES_MAX, readRuleFile } from '../cases/rule-file'
import { type Dialog, openDialog } from '../dialog'
import { type Child, field, fill, freshId, h, prose } from '../dom'
import { day, t } from '../i18n'
import type { Context } from '../shell'
import { emptyDocument, ofPeople } from './document'
import { type Draft, deleteDraft, listDrafts, openedDraft, readDraft } from './drafts'
import { openFile } from './file'
import { openHistory } from './history'
import { openRule } from './open'
import { type ProgramShown, programs } from './programs'

export function openOpen(context: Context): void {
  const dialog = openDialog(t.keep.open.heading)
  const done = () => {
    dialog.close()
    context.go('rule')
  }
  fill(dialog.body, fromFile(done), drafts(context, dialog, done), ofPrograms(context, done))
}

function section(heading: string, ...content: Child[]): HTMLElement {
  const id = freshId('section')
  return h('section', { 'aria-labelledby': id }, h('h3', { id }, heading), content)
}

function fromFile(done: () => void): HTMLElement {
  const problem = h('p', { class: 'problem', role: 'alert', hidden: true })
  const read = async (file: File) => {
    try {
      if (file.size > FILE_BYTES_MAX) throw new Error(t.keep.file.tooLarge)
      const read = readRuleFile(await file.text())
      openFile({ ...read, cases: ofPeople(read.cases) })
      done()
    } catch (error) {
      problem.textContent = `${file.name}: ${sentence(error)}`
      problem.hidden = false
    }
  }
  const input = h('input', {
    type: 'file',
    accept: '.toml',
    on: {
      change: () => {
        const [file] = input.files ?? []
        problem.hidden = true
        if (file) void read(file).then(() => (input.value = ''))
      },
    },
  })
  return section(t.keep.open.fromFile, field(t.keep.open.file, input, t.keep.open.fileHint), problem)
}

function drafts(context: Context, dialog: Dialog, done: () => void): HTMLElement {
  const { api } = context
  if (!api.may('eligibility:read')) return section(t.keep.open.drafts, h('p', { class: 'notice' }, t.keep.open.noDrafts))
  const list = h('ul', { class: 'sample' }, h('li', { class: 'hint' }, t.loading))
  const fail = (error: unknown) => {
    if (!isAbort(error)) fill(list, h('li', {}, h('p', { class: 'problem', role: 'alert' }, prose(sentence(error)))))
  }
  let opening = ''
  const open = (id: string) => {
    opening = id
    readDraft(api, id).then((tagged) => {
      if (dialog.signal.aborted || opening !== id) return
      openRule(openedDraft(tagged))
      done()
    }, fail)
  }
  let searches = 0
  const show = async () => {
    const own = (searches += 1)
    const found = await listDrafts(api, name.value)
    if (dialog.signal.aborted || own !== searches) return
    fill(list, found.length === 0 ? h('li', { class: 'hint' }, t.keep.open.none) : found.map((draft) => line(context, draft, open, () => void show().catch(fail))))
  }
  const name = h('input', { type: 'search', maxlength: 200 })
  const search = (event: Event) => {
    event.preventDefault()
    void show().catch(fail)
  }
  void show().catch(fail)
  return section(
    t.keep.open.drafts,
    h('form', { class: 'row', on: { submit: search } }, field(t.keep.open.search, name), h('button', { type: 'submit' }, t.keep.open.find)),
    list,
  )
}

function line(context: Context, draft: Draft, open: (id: string) => void, onDeleted: () => void): HTMLElement {
  const { id, name, version, status, author, last_updated: changed, program, reason } = draft
  const by = [author.client, author.organization].filter(Boolean).join(', ')
  const row = h('li', {})
  const remove = h('button', { type: 'button', class: 'link', 'aria-label': `${t.keep.remove}: ${name}`, on: { click: () => confirm() } }, t.keep.remove)
  const confirm = () => {
    const yes = h('button', { type: 'button', on: { click: () => void drop() } }, t.keep.open.reallyDelete)
    remove.replaceWith(yes)
    yes.focus()
  }
  const drop = async () => {
    try {
      await deleteDraft(context.api, draft)
      onDeleted()
    } catch (error) {
      if (!isAbort(error)) row.append(h('p', { class: 'problem', role: 'alert' }, sentence(error)))
    }
  }
  fill(
    row,
    h('button', { type: 'button', class: 'link', on: { click: () => open(id) } }, h('bdi', {}, name)),
    h('span', { class: 'hint' }, t.keep.open.version(version, day(changed.slice(0, 10)), by)),
    program && h('code', { class: 'id' }, program),
    h('span', { class: `badge ${status}` }, t.keep.status[status]),
    h('button', { type: 'button', class: 'link', 'aria-label': `${t.keep.history.heading}: ${name}`, on: { click: () => openHistory(context, id) } }, t.keep.history.heading),
    context.api.may('eligibility:create') && remove,
    reason && h('p', { class: 'hint' }, reason),
  )
  return row
}

function ofPrograms(context: Context, done: () => void): HTMLElement {
  const { api } = context
  if (!api.may('program:read')) return section(t.keep.open.programs, h('p', { class: 'notice' }, t.keep.open.noPrograms))
  const list = h('ul', { class: 'sample' }, h('li', { class: 'hint' }, t.loading))
  const open = ({ reference, name, expression, subject, engine }: ProgramShown) => {
    openRule({ expression, subject, document: { ...emptyDocument(), title: name, program: reference, engine } })
    done()
  }
  programs(api).then(
    (all) => {
      const withRule = all.filter(({ expression }) => expression)
      fill(
        list,
        withRule.length === 0
          ? h('li', { class: 'hint' }, t.keep.open.noRules)
          : withRule.map((one) =>
              h(
                'li',
                {},
                h('button', { type: 'button', class: 'link', on: { click: () => open(one) } }, h('bdi', {}, one.name)),
                h('code', { class: 'id' }, one.reference),
                h('span', { class: 'badge' }, t.subject[one.subject]),
              ),
            ),
      )
    },
    (error: unknown) => fill(list, h('li', {}, h('p', { class: 'problem', role: 'alert' }, sentence(error)))),
  )
  return section(t.keep.open.programs, list)
}
