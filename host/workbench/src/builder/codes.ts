// The choice of codes of a field's vocabularies, and of a concept group that has such codes.

import type { Api } from '../api'
import { type FoundCode, conceptGroups, groupsOf, searchCodes, searchVocabularies } from '../codes'
import { combobox } from '../combobox'
import { type Child, fill, h } from '../dom'
import { t } from '../i18n'
import { namesOf } from '../reading/codes'

/** The names of codes by language and URI, which are public. */
const names = new Map<string, string>()

export interface CodeChoice {
  api: Api
  label: string
  vocabularies: string[]
  values: string[]
  isMany: boolean
  isInvalid: boolean
  onChange: (values: string[]) => void
}

export function codeChoice(choice: CodeChoice): HTMLElement {
  const { api, vocabularies, values, isMany } = choice
  const search = combobox<FoundCode>({
    label: choice.label,
    hint: t.builder.codeHint,
    isOpenWithoutText: vocabularies.length > 0,
    search: (text, signal) => (vocabularies.length > 0 ? searchVocabularies(api, vocabularies, text, signal) : searchCodes(api, text, signal)),
    option: (code): Child[] => [h('span', { class: 'name' }, code.display), h('code', {}, code.code)],
    status: (found) => (found.length ? t.rule.codesFound(found.length) : t.rule.noCodes),
    onChoose: (code) => {
      names.set(key(api, code.uri), code.display)
      choice.onChange(isMany ? [...values.filter((uri) => uri !== code.uri), code.uri] : [code.uri])
      return ''
    },
  })
  search.classList.add('compact')
  const input = search.querySelector('input')
  input?.setAttribute('data-key', 'code')
  input?.setAttribute('placeholder', t.builder.code)
  if (choice.isInvalid) input?.setAttribute('aria-invalid', 'true')
  // One code is replaced by removing it.
  search.hidden = values.length > 0 && !isMany
  return h('div', { class: 'code-choice' }, chips(choice), search)
}

/** The chosen codes by their names, each with a button that removes it. */
function chips({ api, values, onChange }: CodeChoice): HTMLElement {
  const list = h('ul', { class: 'chips', 'aria-label': t.builder.codes, hidden: values.length === 0 })
  const draw = () =>
    fill(
      list,
      values.map((uri) => {
        const name = names.get(key(api, uri)) ?? uri.slice(uri.lastIndexOf('#') + 1)
        const remove = () => onChange(values.filter((other) => other !== uri))
        const button = { type: 'button', class: 'quiet', 'aria-label': t.builder.removeCode(name), 'data-key': `remove ${uri}`, on: { click: remove } }
        return h('li', { title: uri }, h('bdi', {}, name), h('button', button, '×'))
      }),
    )
  draw()
  const unread = values.filter((uri) => !names.has(key(api, uri)))
  if (unread.length > 0) {
    void namesOf(api, unread).then(
      (found) => {
        for (const [uri, name] of found) names.set(key(api, uri), name)
        if (!list.contains(document.activeElement)) draw()
      },
      // Without names the codes stay.
      () => {},
    )
  }
  return list
}

function key(api: Api, uri: string): string {
  return `${api.language} ${uri}`
}

export interface GroupChoice {
  api: Api
  vocabularies: string[]
  value: string
  isInvalid: boolean
  onChange: (value: string) => void
}

export function groupChoice({ api, vocabularies, value, isInvalid, onChange }: GroupChoice): HTMLElement {
  const select = h('select', {
    'aria-label': t.builder.conceptGroup,
    'aria-invalid': isInvalid && 'true',
    'data-key': 'value',
    on: { change: () => onChange(select.value) },
  })
  const offer = (all: string[]) => {
    fill(select, value === '' && h('option', { value: '' }, '…'), [...new Set([value, ...all])].filter(Boolean).map((name) => h('option', { value: name }, name)))
    select.value = value
  }
  offer([])
  if (api.may('vocabulary:read')) {
    void conceptGroups(api).then(
      (groups) => offer((vocabularies.length > 0 ? groupsOf(groups, vocabularies) : groups).map(({ name }) => name)),
      () => {},
    )
  }
  return select
}
