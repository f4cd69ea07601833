// A form of the facts that a rule reads, for a record that is not in the register. It writes into the record.

import type { Api } from '../api'
import { combobox } from '../combobox'
import { type FoundCode, type Page, nameOf, searchVocabularies } from '../codes'
import { type Attributes, type Child, field as labelled, fill, h } from '../dom'
import type { Subject } from '../editor/schema'
import { t } from '../i18n'
import { type Fact, type Facts, isCoded, record as set, valueAt } from './facts'
import type { Body } from './rule-file'

export interface Formed {
  api: Api
  subject: Subject
  facts: Facts
  record: Body
  /** The names of the members. */
  names: string[]
  onChange: () => void
}

/** Vocabularies with more codes are searched. */
const LISTED_MAX = 40

export function recordForm(formed: Formed): HTMLElement {
  const { facts, subject, record, names } = formed
  const own = subject === 'group' ? t.keep.form.group : t.keep.form.person
  return h(
    'div',
    { class: 'record-form' },
    facts.me.length > 0 && h('fieldset', {}, h('legend', {}, own), inputs(formed, facts.me, record)),
    facts.members && list(formed, 'members', facts.members, t.keep.form.member, names),
    facts.programs && list(formed, 'programs', withProgram(facts.programs), t.keep.form.membership, []),
  )
}

/** A membership names its program, also where the rule does not read it. */
function withProgram(facts: Fact[]): Fact[] {
  const program: Fact = { path: ['program'], field: { name: 'program', type: 'text', says: '', vocabularies: [], fields: new Map() }, items: [] }
  return facts.some(({ path }) => path[0] === 'program') ? facts : [program, ...facts]
}

function inputs(formed: Formed, facts: Fact[], record: Body): HTMLElement[] {
  return facts.map((fact) => input(formed, fact, record))
}

/** The members or programs of a record, which may be unknown. */
function list(formed: Formed, key: 'members' | 'programs', facts: Fact[], label: (number: number, name: string) => string, names: string[]): HTMLElement {
  const { record, onChange } = formed
  const body = h('div', {})
  const known = h('input', {
    type: 'checkbox',
    checked: record[key] !== undefined,
    on: {
      change: () => {
        if (known.checked) record[key] = []
        else delete record[key]
        show()
        onChange()
      },
    },
  })
  const show = () => {
    const items = record[key] as Body[] | undefined
    fill(body, items && objects(formed, facts, items, (at) => label(at + 1, names[at] ?? ''), (at) => names.splice(at, 1)))
  }
  show()
  return h('div', {}, h('label', { class: 'check' }, known, key === 'members' ? t.keep.form.knownMembers : t.keep.form.knownPrograms), body)
}

/** The objects of a list, each with its facts. */
function objects(formed: Formed, facts: Fact[], items: Body[], label: (at: number) => string, onRemove: (at: number) => void): Child[] {
  const place = h('div', { class: 'objects' })
  const show = (focused = -1) => {
    const shown = items.map((item, at) => {
      const remove = () => {
        items.splice(at, 1)
        onRemove(at)
        show()
        formed.onChange()
        add.focus()
      }
      const name = label(at)
      return h(
        'fieldset',
        {},
        h('legend', {}, h('bdi', {}, name)),
        inputs(formed, facts, item),
        h('button', { type: 'button', class: 'link', 'aria-label': `${t.keep.remove}: ${name}`, on: { click: remove } }, t.keep.remove),
      )
    })
    fill(place, shown)
    if (focused >= 0) shown[focused]?.querySelector<HTMLElement>('input, select, textarea, button')?.focus()
  }
  const add = h(
    'button',
    {
      type: 'button',
      on: {
        click: () => {
          items.push({})
          show(items.length - 1)
          formed.onChange()
        },
      },
    },
    t.keep.form.add(label(items.length)),
  )
  const relabel = () => (add.textContent = t.keep.form.add(label(items.length)))
  new MutationObserver(relabel).observe(place, { childList: true })
  show()
  return [place, add]
}

function input(formed: Formed, fact: Fact, record: Body): HTMLElement {
  const { path, field, items } = fact
  const name = path.join('.')
  const value = valueAt(record, path)
  const change = (to: unknown) => {
    set(record, path, to)
    formed.onChange()
  }
  if (items.length > 0) {
    const all = (Array.isArray(value) ? value : []) as Body[]
    const changed = { ...formed, onChange: () => change(all.length > 0 ? all : undefined) }
    return h('div', { class: 'field' }, objects(changed, items, all, (at) => `${name} ${at + 1}`, () => {}))
  }
  if (isCoded(field)) return field.type === 'list' ? codes(formed, fact, value, change) : code(formed, fact, value, change)
  if (field.type === 'boolean') return labelled(name, choice(value, ['true', 'false'], [t.keep.form.yes, t.keep.form.no], (text) => change(text === '' ? undefined : text === 'true')))
  if (field.choices) return labelled(name, choice(value, field.choices, field.choices, (text) => change(text || undefined)))
  if (field.type === 'list') return labelled(name, lines(value, change), t.keep.form.lines)
  return labelled(name, plain(field.type, value, change))
}

function plain(type: string, value: unknown, change: (value: unknown) => void): HTMLElement {
  const attributes: Attributes = type === 'date' ? { type: 'date' } : type === 'number' ? { type: 'number', step: 'any' } : { type: 'text' }
  const element = h('input', {
    ...attributes,
    value: value === undefined ? '' : String(value),
    on: { input: () => change(element.value === '' ? undefined : type === 'number' ? element.valueAsNumber : element.value) },
  })
  return element
}

function lines(value: unknown, change: (value: unknown) => void): HTMLElement {
  const element = h('textarea', {
    rows: 2,
    value: Array.isArray(value) ? value.join('\n') : '',
    on: {
      input: () => {
        const all = element.value.split('\n').map((line) => line.trim()).filter(Boolean)
        change(all.length > 0 ? all : undefined)
      },
    },
  })
  return element
}

function choice(value: unknown, values: string[], names: string[], change: (value: string) => void): HTMLElement {
  const text = value === undefined ? '' : String(value)
  const options = values.includes(text) || text === '' ? values : [text, ...values]
  const element = h(
    'select',
    { value: text, on: { change: () => change(element.value) } },
    h('option', { value: '' }, t.keep.form.unknown),
    options.map((one) => h('option', { value: one }, names[values.indexOf(one)] ?? one)),
  )
  return element
}

/** All codes of short vocabularies; undefined if there are too many. */
const short = new WeakMap<Api, Map<string, Promise<FoundCode[] | undefined>>>()

function shortList(api: Api, namespaces: string[]): Promise<FoundCode[] | undefined> {
  let known = short.get(api)
  if (!known) short.set(api, (known = new Map()))
  const key = `${api.language} ${namespaces.join(' ')}`
  let reading = known.get(key)
  if (!reading) {
    const pages = namespaces.map((one) => api.get<Page<FoundCode>>(`Vocabulary/${encodeURIComponent(one)}/codes?_count=${LISTED_MAX}`))
    reading = Promise.all(pages).then((all) => {
      const total = all.reduce((sum, { meta }) => sum + meta.total, 0)
      return total > 0 && total <= LISTED_MAX ? all.flatMap(({ data }) => data.filter(({ selectable }) => selectable !== false)) : undefined
    })
    known.set(key, reading)
    void reading.catch(() => known.delete(key))
  }
  return reading
}

/** A code: chosen from a list, searched in longer vocabularies, written without access to vocabularies. */
function code({ api }: Formed, { path, field }: Fact, value: unknown, change: (value: unknown) => void): HTMLElement {
  const name = path.join('.')
  const written = () => labelled(name, plain('text', value, change))
  if (!api.may('vocabulary:read') || field.vocabularies.length === 0) return written()
  const place = h('div', { class: 'coded' }, labelled(name, h('input', { type: 'text', disabled: true })))
  shortList(api, field.vocabularies).then(
    (all) => {
      if (all) fill(place, labelled(name, choice(value, all.map(({ uri }) => uri), all.map(({ display }) => display), (uri) => change(uri || undefined))))
      else fill(place, searched(api, name, field.vocabularies, value, change))
    },
    () => fill(place, written()),
  )
  return place
}

function searched(api: Api, name: string, vocabularies: string[], value: unknown, change: (value: unknown) => void): HTMLElement {
  const box = combobox<FoundCode>({
    label: name,
    hint: t.rule.insertCodeHint,
    value: typeof value === 'string' ? value : '',
    search: (text, signal) => searchVocabularies(api, vocabularies, text, signal),
    option: (one) => [h('span', { class: 'name' }, one.display), h('code', {}, one.uri)],
    status: (found) => (found.length > 0 ? t.rule.codesFound(found.length) : t.rule.noCodes),
    onChoose: ({ uri, display }) => {
      change(uri)
      return display
    },
  })
  const input = box.querySelector('input')
  input?.addEventListener('input', () => {
    if (input.value.trim() === '') change(undefined)
  })
  if (typeof value === 'string') void nameOf(api, value).then((display) => input?.value === value && display && (input.value = display), () => {})
  return box
}

/** A list of codes: not recorded, none, or some. */
function codes(formed: Formed, fact: Fact, value: unknown, change: (value: unknown) => void): HTMLElement {
  const { api } = formed
  const name = fact.path.join('.')
  let all = Array.isArray(value) ? (value as string[]) : undefined
  const items = h('ul', { class: 'chosen' })
  const set = (to: string[] | undefined) => {
    all = to
    show()
    change(all)
  }
  const state = h(
    'select',
    { on: { change: () => set(state.value === '' ? undefined : (all ?? [])) } },
    h('option', { value: '' }, t.keep.form.unknown),
    h('option', { value: 'known' }, t.keep.form.recorded),
  )
  const show = () => {
    state.value = all ? 'known' : ''
    fill(items, all?.length === 0 && h('li', { class: 'hint' }, t.keep.form.none), all?.map((uri) => item(uri)))
    items.hidden = search.hidden = all === undefined
  }
  const item = (uri: string) => {
    const display = h('span', {}, uri)
    if (api.may('vocabulary:read')) void nameOf(api, uri).then((found) => found && fill(display, found, ' ', h('code', { class: 'id' }, uri)), () => {})
    const remove = () => set((all ?? []).filter((one) => one !== uri))
    return h('li', {}, display, ' ', h('button', { type: 'button', class: 'link', 'aria-label': `${t.keep.remove}: ${uri}`, on: { click: remove } }, t.keep.remove))
  }
  const search = adder(formed, fact, (uri) => set([...new Set([...(all ?? []), uri])]))
  show()
  return h('div', { class: 'field' }, labelled(name, state), items, search)
}

/** A search whose choice is added. */
function adder({ api }: Formed, { path, field }: Fact, add: (uri: string) => void): HTMLElement {
  const label = t.keep.form.addCode(path.join('.'))
  if (!api.may('vocabulary:read')) {
    const text = h('input', { type: 'text', on: { change: () => text.value.trim() && (add(text.value.trim()), (text.value = '')) } })
    return labelled(label, text)
  }
  return combobox<FoundCode>({
    label,
    hint: t.rule.insertCodeHint,
    search: (text, signal) => searchVocabularies(api, field.vocabularies, text, signal),
    option: (one) => [h('span', { class: 'name' }, one.display), h('code', {}, one.uri)],
    status: (found) => (found.length > 0 ? t.rule.codesFound(found.length) : t.rule.noCodes),
    onChoose: ({ uri }) => {
      add(uri)
      return ''
    },
  })
}
