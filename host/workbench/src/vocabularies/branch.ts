// A branch of a vocabulary's tree: the direct children of a code, fetched on first use, a page at a time.

import { sentence } from '../api'
import type { Page } from '../codes'
import { h } from '../dom'
import { t } from '../i18n'
import type { Context } from '../shell'

interface Listed {
  uri: string
  code: string
  display: string
  language: string
  children_count: number
  status: string
  selectable: boolean
  definition?: { value: string }
}

const PAGE = 50

export class Branch {
  readonly dom = h('ul', { class: 'codes' })
  #read = 0
  #more: HTMLElement | undefined

  constructor(
    private readonly context: Context,
    private readonly namespace: string,
    private readonly parent: string,
    /** Opens the page of a code. */
    private readonly open: (uri: string) => void,
  ) {
    void this.#next()
  }

  async #next(): Promise<void> {
    this.#more?.remove()
    const query = `parent=${encodeURIComponent(this.parent)}&_count=${PAGE}&_offset=${this.#read}`
    try {
      const page = await this.context.api.get<Page<Listed>>(`Vocabulary/${encodeURIComponent(this.namespace)}/codes?${query}`)
      this.#read += page.data.length
      this.dom.append(...page.data.map((code) => this.#line(code)))
      const left = page.meta.total - this.#read
      if (left <= 0) return
      this.#more = h('li', {}, h('button', { type: 'button', on: { click: () => void this.#next() } }, t.vocabularies.more(Math.min(left, PAGE))))
      this.dom.append(this.#more)
    } catch (error) {
      this.dom.append(h('li', { class: 'problem', role: 'alert' }, sentence(error)))
    }
  }

  #line(code: Listed): HTMLElement {
    const head = [
      h('code', {}, code.code),
      ' ',
      h('button', { type: 'button', class: 'link', lang: code.language, on: { click: () => this.open(code.uri) } }, code.display),
      code.status === 'deprecated' && h('small', {}, ` ${t.vocabularies.deprecated}`),
      !code.selectable && h('small', {}, ` ${t.vocabularies.heading_code}`),
    ]
    const says = code.definition && h('p', { class: 'hint', translate: 'no' }, code.definition.value)
    if (code.children_count === 0) return h('li', {}, head, says)
    const details = h(
      'details',
      {
        on: {
          toggle: () => {
            if (details.open && !details.querySelector('ul')) details.append(new Branch(this.context, this.namespace, code.code, this.open).dom)
          },
        },
      },
      h('summary', { class: 'hint' }, t.concept.below(code.children_count)),
    )
    return h('li', {}, head, says, details)
  }
}
