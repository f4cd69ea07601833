// A search field for codes with a list of results: the combobox of the ARIA authoring practices.

import { type Api, isAbort, sentence } from './api'
import { type FoundCode, searchCodes } from './codes'
import { field, fill, freshId, h } from './dom'
import { t } from './i18n'

/** The pause after the last key, in milliseconds. */
const PAUSE_MS = 300

export interface CodeSearch {
  api: Api
  label: string
  hint: string
  onChoose: (code: FoundCode) => void
}

export function codeSearch({ api, label, hint, onChoose }: CodeSearch): HTMLElement {
  const id = freshId('codes')
  let found: FoundCode[] = []
  let active = -1
  let timer: ReturnType<typeof setTimeout> | undefined
  let asking: AbortController | undefined

  const list = h('ul', { id, role: 'listbox', 'aria-label': label, class: 'options', hidden: true })
  const status = h('p', { role: 'status', class: 'hint' })
  const input = h('input', {
    type: 'text',
    role: 'combobox',
    autocomplete: 'off',
    spellcheck: 'false',
    'aria-expanded': 'false',
    'aria-controls': id,
    'aria-autocomplete': 'list',
    on: {
      input: () => {
        clearTimeout(timer)
        timer = setTimeout(() => void ask(), PAUSE_MS)
      },
      keydown: (event) => onKey(event),
      blur: () => setTimeout(() => shut()),
    },
  })

  async function ask(): Promise<void> {
    asking?.abort()
    asking = new AbortController()
    const text = input.value
    if (!text.trim()) {
      shut()
      status.textContent = ''
      return
    }
    if (api.waitMs > 0) {
      timer = setTimeout(() => void ask(), api.waitMs)
      return
    }
    try {
      found = await searchCodes(api, text, asking.signal)
      if (input.value !== text) return
      show()
      status.textContent = found.length ? t.rule.codesFound(found.length) : t.rule.noCodes
    } catch (error) {
      if (!isAbort(error)) status.textContent = sentence(error)
    }
  }

  function show(): void {
    active = -1
    fill(
      list,
      found.map((code, index) =>
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
          h('span', { class: 'name' }, code.display),
          h('code', {}, code.uri),
        ),
      ),
    )
    list.hidden = found.length === 0
    input.setAttribute('aria-expanded', String(!list.hidden))
    input.removeAttribute('aria-activedescendant')
  }

  function shut(): void {
    list.hidden = true
    active = -1
    input.setAttribute('aria-expanded', 'false')
    input.removeAttribute('aria-activedescendant')
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
    const code = found[index]
    if (!code) return
    input.value = ''
    status.textContent = ''
    shut()
    onChoose(code)
  }

  function onKey(event: KeyboardEvent): void {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault()
      if (list.hidden && found.length > 0 && input.value) show()
      move(event.key === 'ArrowDown' ? active + 1 : active < 0 ? -1 : active - 1)
    } else if (event.key === 'Enter' && !list.hidden) {
      event.preventDefault()
      choose(Math.max(active, 0))
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
