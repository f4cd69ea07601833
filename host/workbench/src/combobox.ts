// A search field with a list of results: the combobox of the ARIA authoring practices. One for codes is below.

import { type Api, isAbort, sentence } from './api'
import { type FoundCode, searchCodes, searchVocabularies } from './codes'
import { type Child, field, fill, freshId, h } from './dom'
import { t } from './i18n'

/** The pause after the last key, in milliseconds. */
const PAUSE_MS = 300

export interface Searching<T> {
  label: string
  hint: string
  value?: string
  search: (text: string, signal: AbortSignal) => Promise<T[]>
  /** Whether a click and the arrow down open the list of an empty field. */
  isOpenWithoutText?: boolean
  /** The content of an option. */
  option: (item: T) => Child[]
  /** The sentence about the result. */
  status: (found: T[]) => string
  /** Returns the text of the field after the choice. */
  onChoose: (item: T) => string
}

export function combobox<T>({ label, hint, value, search, isOpenWithoutText = false, option, status: statusOf, onChoose }: Searching<T>): HTMLElement {
  const id = freshId('options')
  let found: T[] = []
  /** The text whose result `found` is. */
  let searched = ''
  let active = -1
  let timer: ReturnType<typeof setTimeout> | undefined
  let asking: AbortController | undefined
  /** Enter was pressed before there was a result: the only one is chosen then. */
  let isEntered = false

  const list = h('ul', { id, role: 'listbox', 'aria-label': label, class: 'options', hidden: true })
  const status = h('p', { role: 'status', class: 'hint' })
  const input = h('input', {
    type: 'text',
    role: 'combobox',
    value: value ?? '',
    // An identifier is written from left to right, a name in its own direction.
    dir: 'auto',
    autocomplete: 'off',
    spellcheck: 'false',
    'aria-expanded': 'false',
    'aria-controls': id,
    'aria-autocomplete': 'list',
    on: {
      input: () => {
        isEntered = false
        deactivate()
        clearTimeout(timer)
        timer = setTimeout(() => void ask(), PAUSE_MS)
      },
      keydown: (event) => onKey(event),
      click: () => {
        if (isOpenWithoutText && list.hidden && !input.value) void ask()
      },
      blur: () => setTimeout(() => shut()),
    },
  })

  /** No option is active: a list remains until the result for the new text, and Enter must not choose from it. */
  function deactivate(): void {
    list.children[active]?.setAttribute('aria-selected', 'false')
    active = -1
    input.removeAttribute('aria-activedescendant')
  }

  async function ask(): Promise<void> {
    asking?.abort()
    asking = new AbortController()
    const text = input.value
    if (!text.trim() && !isOpenWithoutText) {
      shut()
      status.textContent = ''
      return
    }
    try {
      const all = await search(text, asking.signal)
      // The list is still that of the earlier text.
      if (input.value !== text) return
      found = all
      searched = text
      status.textContent = statusOf(found)
      if (isEntered && found.length === 1) choose(0)
      else show()
      isEntered = false
    } catch (error) {
      if (!isAbort(error)) status.textContent = sentence(error)
    }
  }

  function show(): void {
    active = -1
    fill(
      list,
      found.map((item, index) =>
        h(
          'li',
          {
            id: `${id}-${index}`,
            role: 'option',
            'aria-selected': 'false',
            // Before the field loses focus and the list is hidden.
            on: {
              mousedown: (event) => {
                event.preventDefault()
                choose(index)
              },
            },
          },
          option(item),
        ),
      ),
    )
    list.hidden = found.length === 0 || document.activeElement !== input
    input.setAttribute('aria-expanded', String(!list.hidden))
    input.removeAttribute('aria-activedescendant')
  }

  function shut(): void {
    list.hidden = true
    input.setAttribute('aria-expanded', 'false')
    deactivate()
  }

  function move(to: number): void {
    if (found.length === 0) return
    list.children[active]?.setAttribute('aria-selected', 'false')
    active = (to + found.length) % found.length
    const option = list.children[active]
    option?.setAttribute('aria-selected', 'true')
    option?.scrollIntoView({ block: 'nearest' })
    input.setAttribute('aria-activedescendant', `${id}-${active}`)
  }

  function choose(index: number): void {
    const item = found[index]
    if (item === undefined) return
    input.value = onChoose(item)
    status.textContent = ''
    found = []
    shut()
  }

  function onKey(event: KeyboardEvent): void {
    if (event.key === 'ArrowDown' && isOpenWithoutText && list.hidden && !input.value) {
      event.preventDefault()
      void ask()
    } else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault()
      if (list.hidden && found.length > 0 && input.value) show()
      move(event.key === 'ArrowDown' ? active + 1 : active < 0 ? -1 : active - 1)
    } else if (event.key === 'Enter' && !list.hidden && (active >= 0 || searched === input.value)) {
      event.preventDefault()
      choose(Math.max(active, 0))
    } else if (event.key === 'Enter' && !event.ctrlKey && !event.metaKey && input.value.trim()) {
      event.preventDefault()
      isEntered = true
      clearTimeout(timer)
      void ask()
    } else if (event.key === 'Escape' && !list.hidden) {
      event.preventDefault()
      shut()
    }
  }

  const whole = field(label, input, hint)
  whole.classList.add('combobox')
  whole.append(list, status)
  return whole
}

export interface CodeSearch {
  api: Api
  label: string
  hint: string
  /** The field whose codes are searched; all vocabularies if there is none. */
  about?: () => { path: string; vocabularies: string[] } | undefined
  onChoose: (code: FoundCode) => void
}

export function codeSearch({ api, label, hint, about, onChoose }: CodeSearch): HTMLElement {
  let field: ReturnType<NonNullable<CodeSearch['about']>>
  return combobox<FoundCode>({
    label,
    hint,
    search: (text, signal) => {
      field = about?.()
      return field ? searchVocabularies(api, field.vocabularies, text, signal) : searchCodes(api, text, signal)
    },
    option: (code) => [h('span', { class: 'name' }, code.display), h('code', {}, code.uri)],
    status: (found) => {
      const count = found.length ? t.rule.codesFound(found.length) : t.rule.noCodes
      return field ? `${t.rule.codesOf(field.path)} ${count}` : count
    },
    onChoose: (code) => {
      onChoose(code)
      return ''
    },
  })
}
