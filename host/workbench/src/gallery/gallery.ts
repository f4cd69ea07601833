// The example rules, as the start of an own rule.

import { sentence } from '../api'
import { readRuleFile } from '../cases/rule-file'
import { openDialog } from '../dialog'
import { fill, freshId, h } from '../dom'
import { openFile } from '../drafts/file'
import { openOpen } from '../drafts/open-dialog'
import { t } from '../i18n'
import type { Context } from '../shell'

/** The names of the examples; the page has their texts in each language, the rules are loaded when they are shown. */
type ExampleName = keyof typeof t.keep.example

async function exampleTexts(): Promise<Record<string, string>> {
  return (await import('virtual:rules')).default
}

/** Shown in place of a result while there is no rule; the examples are loaded when it is first shown. */
export class Gallery {
  readonly dom: HTMLElement
  #cards = h('div', {})
  #isFilled = false

  constructor(private readonly context: Context) {
    const id = freshId('gallery')
    this.dom = h(
      'section',
      { class: 'card start', 'aria-labelledby': id, hidden: true },
      h('h2', { id }, t.keep.gallery.heading),
      h('p', {}, t.keep.gallery.lead),
      h('p', {}, h('button', { type: 'button', on: { click: () => openOpen(context) } }, t.keep.gallery.open)),
      this.#cards,
    )
  }

  show(isShown: boolean): void {
    this.dom.hidden = !isShown
    if (!isShown || this.#isFilled) return
    this.#isFilled = true
    fill(this.#cards, cards(this.context, () => {}))
  }
}

export function openGallery(context: Context): void {
  const dialog = openDialog(t.keep.gallery.heading)
  fill(dialog.body, h('p', {}, t.keep.gallery.lead), cards(context, dialog.close))
}

function cards(context: Context, onOpen: () => void): HTMLElement {
  const list = h('ul', { class: 'gallery' }, h('li', { class: 'hint' }, t.loading))
  const open = (text: string, { title, about }: { title: string; about: string }) => {
    openFile({ ...readRuleFile(text), title, about })
    onOpen()
    context.go('rule')
  }
  exampleTexts().then(
    (texts) =>
      fill(
        list,
        Object.entries(texts).map(([name, text]) => {
          const file = readRuleFile(text)
          const shown = t.keep.example[name as ExampleName] ?? file
          const act = () => open(text, shown)
          return h(
            'li',
            {},
            h('h3', {}, h('button', { type: 'button', class: 'link', on: { click: act } }, shown.title)),
            h('p', {}, shown.about),
            h('p', { class: 'hint' }, t.keep.gallery.facts(t.subject[file.subject], file.cases.length), file.needs && [' · ', t.keep.gallery.needs]),
          )
        }),
      ),
    (error: unknown) => fill(list, h('li', {}, h('p', { class: 'problem', role: 'alert' }, sentence(error)))),
  )
  return list
}
