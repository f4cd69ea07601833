// Vocabularies and concept groups, their licences, and all their codes.

import { sentence } from '../api'
import { codeSearch } from '../combobox'
import { type ConceptGroup, type FoundCode, type Page, conceptGroups } from '../codes'
import { fill, h, reveal } from '../dom'
import { schemaOf } from '../editor/schema'
import { number, t } from '../i18n'
import type { Context, View } from '../shell'
import { state } from '../state'
import { Branch } from './branch'
import { conditionOf, withCondition } from './condition'

export interface Vocabulary {
  namespace: string
  name: string
  domain: string
  version: string
  source: string
  licence: string
  attribution: string
  languages: string[]
  code_count: number
  hierarchical: boolean
  completeness: 'full' | 'fragment' | 'empty'
  module: string | null
}

export const vocabularies: View = (context) => {
  const { api } = context
  if (!api.may('vocabulary:read')) return { dom: h('section', { class: 'card' }, h('p', { class: 'problem' }, t.vocabularies.noScope)) }
  const detail = h('section', { class: 'card detail', 'aria-live': 'polite' }, h('p', { class: 'hint' }, t.vocabularies.choose))
  const list = h('nav', { class: 'choices', 'aria-label': t.vocabularies.list })
  const groups = h('nav', { class: 'choices', 'aria-label': t.vocabularies.groups })
  const problem = h('p', { class: 'problem', role: 'alert', hidden: true })
  const fail = (error: unknown) => {
    problem.textContent = sentence(error)
    problem.hidden = false
  }
  const choose = (show: () => HTMLElement[]) => (button: HTMLElement) => {
    for (const other of dom.querySelectorAll('.choices button')) other.removeAttribute('aria-current')
    button.setAttribute('aria-current', 'true')
    fill(detail, show())
    reveal(detail)
  }
  api
    .get<Page<Vocabulary>>('Vocabulary?_count=100')
    .then(({ data }) => fill(list, data.map((one) => choice(one.name, number(one.code_count), choose(() => describe(context, one))))))
    .catch(fail)
  conceptGroups(api)
    .then((all) => fill(groups, all.map((one) => choice(one.name, one.unset ? t.vocabularies.unset : number(one.code_count), choose(() => describeGroup(context, one))))))
    .catch(fail)
  const showFound = (code: FoundCode) => {
    for (const other of dom.querySelectorAll('.choices button')) other.removeAttribute('aria-current')
    fill(detail, found(context, code))
    reveal(detail)
  }
  const dom = h(
    'div',
    { class: 'columns side' },
    h(
      'section',
      { class: 'card', 'aria-labelledby': 'vocabularies' },
      h('h1', { id: 'vocabularies' }, t.vocabularies.heading),
      codeSearch({ api, label: t.vocabularies.search, hint: t.rule.insertCodeHint, onChoose: showFound }),
      problem,
      h('h2', {}, t.vocabularies.list),
      list,
      h('h2', {}, t.vocabularies.groups),
      groups,
    ),
    detail,
  )
  return { dom }
}

function choice(name: string, count: string, onChoose: (button: HTMLElement) => void): HTMLElement {
  const button: HTMLElement = h('button', { type: 'button', on: { click: () => onChoose(button) } }, h('span', {}, name), h('small', {}, count))
  return button
}

function describe(context: Context, vocabulary: Vocabulary): HTMLElement[] {
  const facts: [string, string | null][] = [
    [t.vocabularies.domain, vocabulary.domain],
    [t.vocabularies.version, vocabulary.version],
    [t.vocabularies.licence, vocabulary.licence],
    [t.vocabularies.source, vocabulary.source],
    [t.vocabularies.attribution, vocabulary.attribution],
    [t.vocabularies.languages, vocabulary.languages.join(', ')],
    [t.vocabularies.codes, number(vocabulary.code_count)],
    [t.vocabularies.completeness, t.vocabularies[vocabulary.completeness]],
    [t.vocabularies.module, vocabulary.module],
  ]
  return [
    h('h2', {}, vocabulary.name),
    h('p', {}, h('code', {}, vocabulary.namespace)),
    h('dl', { class: 'facts' }, facts.filter(([, value]) => value).map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)])),
    h('h3', {}, t.vocabularies.tree),
    new Branch(context, vocabulary.namespace, '').dom,
  ]
}

function describeGroup({ api }: Context, group: ConceptGroup): HTMLElement[] {
  const facts: [string, string][] = [
    [t.vocabularies.description, group.description],
    [t.vocabularies.definition, group.unset ? t.vocabularies.unset : group.definition.text],
    [t.vocabularies.definedBy, group.defined_by],
    [t.vocabularies.codes, number(group.code_count)],
  ]
  const codes = h('ul', { class: 'codes' })
  const path = `ConceptGroup/${encodeURIComponent(group.name)}?_count=100`
  api
    .get<{ expansion: Page<FoundCode> }>(path)
    .then(({ expansion }) => {
      const left = expansion.meta.total - expansion.data.length
      fill(
        codes,
        expansion.data.map((code) => h('li', {}, h('code', {}, code.uri), ` ${code.display}`)),
        left > 0 && h('li', { class: 'hint' }, t.vocabularies.andMore(left)),
      )
    })
    .catch((error: unknown) => fill(codes, h('li', { class: 'problem', role: 'alert' }, sentence(error))))
  return [
    h('h2', {}, h('code', {}, group.name)),
    h('dl', { class: 'facts' }, facts.filter(([, value]) => value).map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)])),
    codes,
  ]
}

/** A code found by a search. */
function found({ api, go }: Context, code: FoundCode): HTMLElement[] {
  const use = h('button', { type: 'button', disabled: true }, t.vocabularies.copy)
  const note = h('p', { class: 'hint' })
  void schemaOf(api).then((schema) => {
    const condition = schema && conditionOf(schema, state.subject, code)
    use.disabled = condition === undefined
    if (condition === undefined) note.textContent = t.vocabularies.noField(code.namespace)
    else {
      use.addEventListener('click', () => {
        state.a = withCondition(state.a, condition)
        state.save()
        go('rule')
      })
      fill(note, h('code', {}, condition))
    }
  })
  return [h('h2', {}, code.display), h('p', {}, h('code', {}, code.uri)), note, use]
}
