// The builder: the conditions of a rule as rows of ordinary form controls. It writes the rule while all rows are
// complete, and leaves a rule alone that it has no form for.

import type { Api } from '../api'
import { type Child, fill, h, prose } from '../dom'
import { type Schema, type Subject, schemaOf } from '../editor/schema'
import { t } from '../i18n'
import { type Place, choicesOf, freshVariable, listsOf, placeOf, start } from './facts'
import { factRow } from './fact-row'
import { COMPARISONS, type Comparison, DIGITS, type Fact, type Group, type Items, QUANTIFIERS, type Quantifier, type Row, isComplete, write } from './model'
import { type Rows, readRows } from './read'

export interface BuilderSettings {
  api: Api
  label: string
  subject: () => Subject
  /** Called with the text of the rule after a change of complete rows. */
  onChange: (text: string) => void
  /** Announces an event to screen readers. */
  say: (text: string) => void
}

/** The deepest place where a group can be added. */
const DEPTH_MAX = 4

const newFact = (): Fact => ({ kind: 'fact', path: '', measure: 'value', operator: '==', type: 'text', values: [] })
const newGroup = (): Group => ({ kind: 'group', joined: 'any', rows: [newFact()] })

export class Builder {
  readonly dom: HTMLElement
  #text = ''
  #rows: Rows = readRows('')
  #schema: Schema | undefined
  #isLoaded = false
  #notice = h('p', { class: 'hint', role: 'status' })

  constructor(private readonly settings: BuilderSettings) {
    this.dom = h('section', { class: 'builder', 'aria-label': settings.label })
    void schemaOf(settings.api).then((schema) => {
      this.#schema = schema
      this.#isLoaded = true
      this.#draw()
    })
    this.#draw()
  }

  /** Shows a rule that was written elsewhere. */
  show(text: string): void {
    if (text === this.#text && this.#rows.kind !== 'invalid') return
    this.#text = text
    this.#rows = readRows(text)
    this.#draw()
  }

  /** Shows the facts of another subject kind. */
  redraw(): void {
    this.#draw()
  }

  /** Focuses the first control. */
  focus(): void {
    this.dom.querySelector<HTMLElement>('select, input, button')?.focus()
  }

  #draw(): void {
    const focused = focusKey(this.dom)
    fill(this.dom, ...this.#content())
    if (focused) this.#focus(focused)
  }

  #content(): Child[] {
    const rows = this.#rows
    if (rows.kind === 'invalid') return [h('p', { class: 'notice' }, t.builder.invalid)]
    if (rows.kind === 'rich') {
      const why = rows.part === undefined ? t.builder.richComments : t.builder.richPart(rows.part.replaceAll(/\s+/g, ' '))
      return [h('div', { class: 'notice' }, h('p', {}, t.builder.rich), h('p', {}, prose(why)))]
    }
    if (!this.#schema) return [h('p', { class: 'hint' }, this.#isLoaded ? t.builder.noSchema : t.loading)]
    const place = start(this.#schema, this.settings.subject())
    return [...this.#group(rows.group, [place], []), this.#notice]
  }

  /** The rows of a group, and the buttons that add one; `end` follows its first control. */
  #group(group: Group, places: Place[], at: number[], end?: HTMLElement): Child[] {
    const joined = select(t.builder.joined, 'joined', group.joined, [['all', t.builder.all], ['any', t.builder.any]], (value) => {
      group.joined = value as Group['joined']
      this.#changed()
    })
    const head = group.rows.length > 1 ? joined : h('span', { class: 'hint' }, name(group, at))
    const button = (label: string, key: string, row: () => Row) =>
      h('button', { type: 'button', 'data-key': key, on: { click: () => this.#add(row(), group, at) } }, `+ ${label}`)
    const [list] = listsOf(places.at(-1) ?? NO_PLACE)
    return [
      (group.rows.length > 1 || end) && h('div', { class: 'fact-row joined-by', 'data-row': at.join('.') }, head, end),
      group.rows.length === 0 && h('p', { class: 'hint' }, t.builder.empty),
      h('ol', { class: 'rows' }, group.rows.map((row, index) => this.#row(row, group, places, [...at, index + 1]))),
      h(
        'div',
        { class: 'add', 'data-row': at.join('.') },
        button(t.builder.addCondition, 'add', newFact),
        list && button(places.length > 1 ? t.builder.addListInside : t.builder.addList, 'add-list', () => this.#newItems(list.path, places)),
        at.length < DEPTH_MAX && group.rows.length > 0 && button(t.builder.addGroup, 'add-group', newGroup),
      ),
    ]
  }

  #newItems(list: string, places: Place[]): Items {
    const inner: Group = { kind: 'group', joined: 'all', rows: [newFact()] }
    return { kind: 'items', list, variable: freshVariable(list, places), quantifier: 'exists', operator: '>=', count: '1', inner }
  }

  #row(row: Row, group: Group, places: Place[], at: number[]): HTMLElement {
    const label = name(row, at)
    const remove = h(
      'button',
      {
        type: 'button',
        class: 'quiet',
        'aria-label': t.builder.remove(label),
        title: t.builder.remove(label),
        'data-key': 'remove',
        on: { click: () => this.#remove(row, group, at) },
      },
      '×',
    )
    return h('li', { class: row.kind }, h('div', { role: 'group', 'aria-label': label, 'data-row': at.join('.') }, this.#controls(row, places, at, remove)))
  }

  #controls(row: Row, places: Place[], at: number[], remove: HTMLElement): Child[] {
    if (row.kind === 'group') return this.#group(row, places, at, remove)
    if (row.kind === 'items') return this.#items(row, places, at, remove)
    // The facts of the innermost variable come first, then those of the outer ones.
    const choices = places.toReversed().map(choicesOf)
    const controls = factRow({ api: this.settings.api, fact: row, choices, onChange: () => this.#changed() })
    return [h('div', { class: 'fact-row' }, controls, remove)]
  }

  #items(row: Items, places: Place[], at: number[], remove: HTMLElement): Child[] {
    const lists = places.toReversed().flatMap(listsOf)
    if (!lists.some(({ path }) => path === row.list)) lists.push({ path: row.list, label: row.list })
    const inner = h('div', { class: 'inner' })
    const drawInner = () => fill(inner, ...this.#group(row.inner, this.#inside(row, places), at))
    const list = select(t.builder.list, 'list', row.list, lists.map(({ path, label }) => [path, label]), (value) => {
      Object.assign(row, { ...this.#newItems(value, places), quantifier: row.quantifier, operator: row.operator, count: row.count })
      drawInner()
      this.#changed()
    })
    const compared = h('div', { class: 'part-of' })
    const drawCompared = () => fill(compared, row.quantifier === 'count' && this.#count(row))
    const quantifier = select(t.builder.quantifier, 'quantifier', row.quantifier, QUANTIFIERS.map((one) => [one, t.builder.quantifiers[one]]), (value) => {
      row.quantifier = value as Quantifier
      drawCompared()
      this.#changed()
    })
    drawInner()
    drawCompared()
    return [h('div', { class: 'fact-row' }, list, quantifier, compared, remove), inner]
  }

  #count(row: Items): Child[] {
    const operator = select(t.builder.operator, 'operator', row.operator, COMPARISONS.map((one) => [one, t.builder.operators[one]]), (value) => {
      row.operator = value as Comparison
      this.#changed()
    })
    const count = h('input', {
      type: 'text',
      inputmode: 'numeric',
      class: 'short-value',
      'aria-label': t.builder.value,
      'data-key': 'count',
      value: row.count,
      on: {
        input: () => {
          row.count = count.value.trim()
          count.setAttribute('aria-invalid', String(!DIGITS.test(row.count)))
          this.#changed()
        },
      },
    })
    return [operator, count]
  }

  #inside({ list, variable }: Items, places: Place[]): Place[] {
    return this.#schema ? [...places, placeOf(this.#schema, places, list, variable)] : places
  }

  #add(row: Row, group: Group, at: number[]): void {
    group.rows.push(row)
    const place = [...at, group.rows.length]
    this.#draw()
    this.#focus({ row: place.join('.'), control: row.kind === 'items' ? 'list' : 'fact' })
    this.settings.say(t.builder.added(name(row, place)))
    this.#changed()
  }

  #remove(row: Row, group: Group, at: number[]): void {
    const index = group.rows.indexOf(row)
    group.rows.splice(index, 1)
    this.#draw()
    // To the row that takes its place, or to the button that adds one.
    const isLast = index >= group.rows.length
    this.#focus(isLast ? { row: at.slice(0, -1).join('.'), control: 'add' } : { row: at.join('.'), control: 'remove' })
    this.settings.say(t.builder.removed(name(row, at)))
    this.#changed()
  }

  /** Writes the rule if it is complete. */
  #changed(): void {
    const rows = this.#rows
    if (rows.kind !== 'rows') return
    const isWhole = rows.group.rows.length === 0 || isComplete(rows.group)
    this.#notice.textContent = isWhole ? '' : t.builder.incomplete
    if (!isWhole) return
    const text = write(rows.group)
    if (text === this.#text) return
    this.#text = text
    this.settings.onChange(text)
  }

  /** Focuses a control of a row; in a group, the first one of that kind. */
  #focus({ row, control }: Focused): void {
    const within = [...this.dom.querySelectorAll<HTMLElement>('[data-row]')].filter((element) => element.dataset['row'] === row)
    const all = within.flatMap((element) => [...element.querySelectorAll<HTMLElement>('[data-key]')])
    const own = all.filter((element) => element.closest<HTMLElement>('[data-row]')?.dataset['row'] === row)
    const found = [...own, ...all].find((element) => element.dataset['key'] === control) ?? all[0]
    found?.focus()
  }
}

interface Focused {
  row: string
  control: string
}

const NO_PLACE: Place = { variable: '', owner: 'item', prefix: '', fields: new Map(), vocabularies: [] }

/** The focused control, by its row and its key. */
function focusKey(dom: HTMLElement): Focused | undefined {
  const active = document.activeElement
  if (!(active instanceof HTMLElement) || !dom.contains(active)) return undefined
  return { row: active.closest<HTMLElement>('[data-row]')?.dataset['row'] ?? '', control: active.dataset['key'] ?? '' }
}

function name(row: Row, at: number[]): string {
  return row.kind === 'group' ? t.builder.group(at.join('.')) : t.builder.condition(at.join('.'))
}

function select(label: string, key: string, value: string, options: [string, string][], choose: (value: string) => void): HTMLElement {
  const element = h(
    'select',
    { 'aria-label': label, 'data-key': key, value, on: { change: () => choose(element.value) } },
    options.map(([name, text]) => h('option', { value: name }, text)),
  )
  return element
}
