// The page of a code: the codes above it, its definition, its names in all languages, and the codes below it.

import { type Api, sentence } from '../api'
import { fill, h } from '../dom'
import { schemaOf } from '../editor/schema'
import { currentLanguage, languageName, t } from '../i18n'
import type { Context } from '../shell'
import { state } from '../state'
import { Branch } from './branch'
import { conditionOf, withCondition } from './condition'

interface Named {
  uri: string
  code: string
  display: string
  language?: string
}

interface Concept extends Named {
  namespace: string
  status: string
  selectable: boolean
  parents: Named[]
  children_count: number
  definition?: { value: string; language?: string }
  designations: { language: string; value: string }[]
  aliases: string[]
}

/** The most levels above a code that are shown. */
const LEVELS_MAX = 8

/** The namespace and the code of a URI. */
function split(uri: string): [string, string] {
  const at = uri.indexOf('#')
  return [uri.slice(0, at), uri.slice(at + 1)]
}

function read(api: Api, uri: string): Promise<Concept> {
  const [namespace, code] = split(uri)
  return api.get<Concept>(`Vocabulary/${encodeURIComponent(namespace)}/codes/${encodeURIComponent(code)}`)
}

export interface Opening {
  context: Context
  vocabularyName: string
  /** Opens another code. */
  open: (uri: string) => void
  openVocabulary: () => void
}

/** The page of a code, which is read from the server. */
export function conceptPage(uri: string, opening: Opening): HTMLElement {
  const page = h('article', { class: 'concept' }, h('p', { class: 'hint' }, t.loading))
  read(opening.context.api, uri).then(
    (concept) => {
      fill(page, ...content(concept, opening))
      void above(opening.context.api, concept).then((path) => fillBreadcrumb(page, path, opening))
    },
    (error: unknown) => fill(page, h('p', { class: 'problem', role: 'alert' }, sentence(error))),
  )
  return page
}

/** The codes above a code along its primary parents, the topmost first. */
async function above(api: Api, { parents }: Concept): Promise<Named[]> {
  const path: Named[] = []
  let [parent] = parents
  while (parent && path.length < LEVELS_MAX) {
    path.unshift(parent)
    const next: Concept | undefined = await read(api, parent.uri).catch(() => undefined)
    parent = next?.parents[0]
  }
  return path
}

function fillBreadcrumb(page: HTMLElement, path: Named[], { vocabularyName, open, openVocabulary }: Opening): void {
  const place = page.querySelector('.breadcrumb')
  if (!place) return
  const link = (name: string, act: () => void, isData: boolean) =>
    h('li', {}, h('button', { type: 'button', class: 'link', translate: isData && 'no', on: { click: act } }, name))
  fill(place, h('ol', {}, link(vocabularyName, openVocabulary, false), path.map((one) => link(one.display, () => open(one.uri), true))))
}

function content(concept: Concept, { context, open }: Opening): (HTMLElement | false)[] {
  const others = concept.parents.slice(1)
  const definition = concept.definition
  return [
    h('nav', { class: 'breadcrumb', 'aria-label': t.concept.above }),
    h('h2', { lang: concept.language }, concept.display),
    h(
      'p',
      { class: 'row' },
      h('code', {}, concept.uri),
      concept.status === 'deprecated' && h('span', { class: 'badge' }, t.vocabularies.deprecated),
      !concept.selectable && h('span', { class: 'badge' }, t.vocabularies.heading_code),
    ),
    actions(concept, context),
    definition !== undefined && h('p', { lang: definition.language, translate: 'no' }, definition.value),
    others.length > 0 &&
      h('p', {}, `${t.concept.alsoBelow}: `, others.map((one) => h('button', { type: 'button', class: 'link', on: { click: () => open(one.uri) } }, one.display))),
    labels(concept),
    concept.children_count > 0 && h('h3', {}, `${t.concept.narrower} (${concept.children_count})`),
    concept.children_count > 0 && new Branch(context, concept.namespace, concept.code, open).dom,
  ]
}

function labels({ designations, aliases }: Concept): HTMLElement {
  const own = currentLanguage()
  const sorted = [...designations].sort((one, other) => Number(other.language === own) - Number(one.language === own))
  return h(
    'dl',
    { class: 'facts labels' },
    sorted.map(({ language, value }) => [h('dt', {}, languageName(language)), h('dd', {}, h('bdi', { lang: language }, value))]),
    aliases.length > 0 && [h('dt', {}, t.concept.aliases), h('dd', {}, aliases.map((alias) => h('code', {}, alias)))],
  )
}

function actions(concept: Concept, { api, go, say }: Context): HTMLElement {
  const add = h('button', { type: 'button', class: 'primary', disabled: true }, t.vocabularies.copy)
  const insert = h(
    'button',
    {
      type: 'button',
      on: {
        click: () => {
          state.inserted = { uri: concept.uri, code: concept.code }
          go('rule')
        },
      },
    },
    t.concept.insert,
  )
  const note = h('p', { class: 'hint', role: 'status' })
  const copy = (label: string, text: string) =>
    h(
      'button',
      {
        type: 'button',
        on: {
          click: () =>
            // A page without a secure connection has no clipboard.
            void (navigator.clipboard?.writeText(text) ?? Promise.reject()).then(
              () => {
                note.textContent = t.concept.copied
                say(t.concept.copied)
              },
              () => fill(note, h('code', {}, text)),
            ),
        },
      },
      label,
    )
  void schemaOf(api).then((schema) => {
    const condition = schema && conditionOf(schema, state.subject, concept)
    add.disabled = condition === undefined
    if (condition === undefined) note.textContent = t.vocabularies.noField(concept.namespace)
    else {
      add.addEventListener('click', () => {
        state.a = withCondition(state.a, condition)
        state.save()
        go('rule')
      })
      fill(note, h('code', {}, condition))
    }
  })
  const link = new URL(linkTo(concept.uri), location.href).href
  return h('div', {}, h('div', { class: 'row' }, add, insert, copy(t.concept.copy, concept.uri), copy(t.concept.copyLink, link)), note)
}

/** The place of a code in the page. */
export function linkTo(uri: string): string {
  return `#vocabularies/${encodeURIComponent(uri)}`
}
