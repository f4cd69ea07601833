// Vocabularies and concept groups, their licences, and all their codes.

import { sentence } from '../api'
import { codeSearch } from '../combobox'
import { type ConceptGroup, type FoundCode, type GroupPart, type Page, conceptGroups } from '../codes'
import { type Child, fill, h, reveal } from '../dom'
import { focus } from '../focus'
import { languageName, number, t } from '../i18n'
import type { Context, View } from '../shell'
import { domainName, groupText, vocabularyName } from '../server/translate'
import { Branch } from './branch'
import { conceptPage, linkTo } from './concept'

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
  const known = new Map<string, Vocabulary>()
  const openVocabulary = (namespace: string) => {
    const one = known.get(namespace)
    const button = [...list.querySelectorAll('button')].find((button) => button.dataset['namespace'] === namespace)
    if (one && button) choose(() => describe(context, one, open))(button)
  }
  /** Shows the page of a code; the address names it. */
  const open = (uri: string, isNew = true) => {
    const namespace = uri.slice(0, uri.indexOf('#'))
    if (isNew) history.pushState(null, '', linkTo(uri))
    for (const other of dom.querySelectorAll<HTMLElement>('.choices button')) {
      if (other.dataset['namespace'] === namespace) other.setAttribute('aria-current', 'true')
      else other.removeAttribute('aria-current')
    }
    const name = vocabularyName(known.get(namespace) ?? { namespace, name: namespace })
    fill(detail, conceptPage(uri, { context, vocabularyName: name, open, openVocabulary: () => openVocabulary(namespace) }))
    if (isNew) focus(detail)
    reveal(detail)
  }
  api
    .get<Page<Vocabulary>>('Vocabulary?_count=100')
    .then(({ data }) => {
      for (const one of data) known.set(one.namespace, one)
      fill(list, data.map((one) => choice(vocabularyName(one), number(one.code_count), choose(() => describe(context, one, open)), one.namespace)))
      if (context.place.includes('#')) open(context.place, false)
    })
    .catch(fail)
  conceptGroups(api)
    .then((all) => fill(groups, all.map((one) => choice(one.name, one.unset ? t.vocabularies.unset : number(one.code_count), choose(() => describeGroup(context, one, open))))))
    .catch(fail)
  const dom = h(
    'div',
    { class: 'columns side' },
    h(
      'section',
      { class: 'card', 'aria-labelledby': 'vocabularies' },
      h('h1', { id: 'vocabularies' }, t.vocabularies.heading),
      codeSearch({ api, label: t.vocabularies.search, hint: t.rule.insertCodeHint, onChoose: ({ uri }) => open(uri) }),
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

function choice(name: string, count: string, onChoose: (button: HTMLElement) => void, namespace?: string): HTMLElement {
  const button: HTMLElement = h('button', { type: 'button', 'data-namespace': namespace, on: { click: () => onChoose(button) } }, h('span', {}, name), h('small', {}, count))
  return button
}

function describe(context: Context, vocabulary: Vocabulary, open: (uri: string) => void): HTMLElement[] {
  const name = vocabularyName(vocabulary)
  // Texts of the publisher are not translated.
  const ofPublisher = [t.vocabularies.licence, t.vocabularies.source, t.vocabularies.attribution]
  const facts: [string, string | null][] = [
    [t.vocabularies.domain, domainName(vocabulary.domain)],
    [t.vocabularies.version, vocabulary.version],
    [t.vocabularies.licence, vocabulary.licence],
    [t.vocabularies.source, vocabulary.source],
    [t.vocabularies.attribution, vocabulary.attribution],
    [t.vocabularies.languages, vocabulary.languages.map(languageName).join(', ')],
    [t.vocabularies.codes, number(vocabulary.code_count)],
    [t.vocabularies.completeness, t.vocabularies[vocabulary.completeness]],
    [t.vocabularies.module, vocabulary.module],
  ]
  return [
    h('h2', {}, name),
    h('p', {}, h('code', {}, vocabulary.namespace)),
    h('dl', { class: 'facts' }, facts.filter(([, value]) => value).map(([name, value]) => [h('dt', {}, name), h('dd', { translate: ofPublisher.includes(name) && 'no' }, value)])),
    h('h3', {}, t.vocabularies.tree),
    codeSearch({
      api: context.api,
      label: t.concept.searchIn(name),
      hint: t.rule.insertCodeHint,
      about: () => ({ path: name, vocabularies: [vocabulary.namespace] }),
      onChoose: ({ uri }) => open(uri),
    }),
    new Branch(context, vocabulary.namespace, '', open).dom,
  ]
}

/** The codes of which a concept group consists. */
function definition({ unset, definition: { include = [], exclude = [] } }: ConceptGroup): Child[] {
  if (unset) return [t.vocabularies.unset]
  const part = ({ uri, namespace, display, descendants }: GroupPart, sign: string) =>
    h(
      'span',
      {},
      sign,
      h('code', {}, uri ?? namespace),
      display !== undefined && h('span', { translate: 'no' }, ` ${display}`),
      descendants === true && ` ${t.concept.withBelow}`,
    )
  return [...include.map((one) => part(one, '')), ...exclude.map((one) => part(one, '− '))]
}

function describeGroup({ api }: Context, group: ConceptGroup, open: (uri: string) => void): HTMLElement[] {
  const facts: [string, Child][] = [
    [t.vocabularies.description, groupText(group.name, group.description)],
    [t.vocabularies.definition, definition(group)],
    [t.vocabularies.definedBy, t.definers[group.defined_by] ?? group.defined_by],
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
        expansion.data.map((code) => h('li', {}, h('code', {}, code.code), ' ', h('button', { type: 'button', class: 'link', translate: 'no', on: { click: () => open(code.uri) } }, code.display))),
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
