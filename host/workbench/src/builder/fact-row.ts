// The controls of one condition: the fact, the comparison and its values.

import type { Api } from '../api'
import { type Child, fill, h } from '../dom'
import { t } from '../i18n'
import { codeChoice, groupChoice } from './codes'
import { type Choice, type Choices, chosen, operatorsOf } from './facts'
import { COMPARISONS, type Comparison, type Fact, type Operator, isValue, valuesOf } from './model'

export interface FactRow {
  api: Api
  fact: Fact
  /** The facts of each variable, the innermost first. */
  choices: Choices[]
  /** Called after each change. */
  onChange: () => void
}

/** A part of the controls that is replaced when a control before it changes, which itself stays, with its focus. */
interface Part {
  dom: HTMLElement
  draw: () => void
}

export function factRow(row: FactRow): HTMLElement[] {
  const known = row.choices.flatMap(({ status, facts }) => [...status, ...facts])
  const rest = part(() => {
    const choice = chosen(row.fact, known)
    if (!choice) return []
    const inputs = part((self) => values(row, choice, self))
    return [operatorSelect(row, choice, inputs.draw), inputs.dom]
  })
  return [factSelect(row, known, rest.draw), rest.dom]
}

function part(content: (self: Part) => Child[]): Part {
  const self: Part = { dom: h('div', { class: 'part-of' }), draw: () => fill(self.dom, ...content(self)) }
  self.draw()
  return self
}

const keyOf = ({ path, measure, type }: Choice | Fact) => `${measure} ${path} ${type}`

function factSelect({ fact, choices, onChange }: FactRow, known: Choice[], draw: () => void): HTMLElement {
  const choice = chosen(fact, known)
  const value = choice ? keyOf(choice) : ''
  const option = (one: Choice) => h('option', { value: keyOf(one) }, one.label)
  const isOther = choice !== undefined && !known.includes(choice)
  const select = h(
    'select',
    {
      class: 'fact',
      'aria-label': t.builder.field,
      'aria-invalid': fact.path === '' && 'true',
      'data-key': 'fact',
      value,
      on: {
        change: () => {
          const next = known.find((one) => keyOf(one) === select.value)
          if (!next) return
          choose(fact, next)
          select.removeAttribute('aria-invalid')
          select.querySelector('option[value=""]')?.remove()
          draw()
          onChange()
        },
      },
    },
    fact.path === '' && h('option', { value: '' }, t.builder.choose),
    choice && isOther && option(choice),
    choices.flatMap(({ owner, status, facts }) => [
      status.length > 0 && h('optgroup', { label: `${owner}: ${t.builder.status}` }, status.map(option)),
      facts.length > 0 && h('optgroup', { label: `${owner}: ${t.builder.facts}` }, facts.map(option)),
    ]),
  )
  return select
}

/** Takes another fact; the comparison and the values stay where they fit. */
function choose(fact: Fact, { path, measure, type, ...choice }: Choice): void {
  const operators = operatorsOf({ path, measure, type, ...choice })
  const isSameType = fact.path !== '' && fact.type === type
  const operator = isSameType && operators.includes(fact.operator) ? fact.operator : (operators[0] ?? '==')
  const fits = isSameType && type !== 'code' && operator === fact.operator
  Object.assign(fact, { path, measure, type, operator, values: type === 'boolean' ? ['true'] : fits ? fact.values : [] })
}

function operatorSelect({ fact, onChange }: FactRow, choice: Choice, draw: () => void): HTMLElement {
  const operators = operatorsOf(choice)
  if (!operators.includes(fact.operator)) operators.push(fact.operator)
  // A yes or no is chosen in the place of the comparison.
  const options = operators.flatMap((operator): [string, string][] => {
    if (fact.type === 'boolean' && operator === '==') return [['true', t.builder.yes], ['false', t.builder.no]]
    return [[operator, nameOf(operator, choice)]]
  })
  const value = fact.type === 'boolean' && fact.operator === '==' ? (fact.values[0] ?? 'true') : fact.operator
  const select = h(
    'select',
    {
      class: 'operator',
      'aria-label': t.builder.operator,
      'data-key': 'operator',
      value,
      on: {
        change: () => {
          compare(fact, select.value, choice)
          draw()
          onChange()
        },
      },
    },
    options.map(([name, text]) => h('option', { value: name }, text)),
  )
  return select
}

function nameOf(operator: Operator, { type, measure }: Choice): string {
  const isComparison = (COMPARISONS as readonly string[]).includes(operator)
  return isComparison && type === 'date' && measure === 'value' ? t.builder.dates[operator as Comparison] : t.builder.operators[operator]
}

function compare(fact: Fact, value: string, choice: Choice): void {
  if (value === 'true' || value === 'false') {
    Object.assign(fact, { operator: '==', values: [value], type: 'boolean' })
    return
  }
  const operator = value as Operator
  const isGroup = (one: Operator) => one === 'inGroup' || one === 'notInGroup'
  const count = valuesOf(operator)
  // A code is not the name of a group.
  const kept = isGroup(operator) === isGroup(fact.operator) ? fact.values : []
  Object.assign(fact, { operator, type: choice.type, values: count === undefined ? kept : kept.slice(0, count) })
}

function values(row: FactRow, choice: Choice, inputs: Part): Child[] {
  const { api, fact, onChange } = row
  const { operator, type } = fact
  const count = valuesOf(operator)
  if (count === 0 || type === 'boolean') return []
  const { vocabularies } = choice
  const isInvalid = fact.values.length === 0
  const take = (all: string[]) => {
    fact.values = all
    onChange()
  }
  if (operator === 'inGroup' || operator === 'notInGroup') {
    return [groupChoice({ api, vocabularies, value: fact.values[0] ?? '', isInvalid, onChange: (value) => take([value]) })]
  }
  if (type === 'code') {
    const isMany = count === undefined
    return [
      codeChoice({
        api,
        label: t.builder.value,
        vocabularies,
        values: fact.values,
        isMany,
        isInvalid,
        onChange: (all) => {
          take(all)
          inputs.draw()
          const next = isMany || all.length === 0 ? 'input' : 'button'
          inputs.dom.querySelector<HTMLElement>(next)?.focus()
        },
      }),
    ]
  }
  if (count === undefined) return [lines(fact, take)]
  if (choice.choices.length > 0) return [oneOf(fact, choice.choices, take)]
  const fields = Array.from({ length: count }, (_, at) => input(row, at, count === 2))
  const joiner = count === 2 ? h('span', { class: 'hint', 'aria-hidden': 'true' }, '–') : false
  return [fields[0], joiner, fields[1], unit(row)]
}

function input({ fact, onChange }: FactRow, at: number, isRange: boolean): HTMLElement {
  const isNumber = fact.type === 'number'
  const label = isRange ? (at === 0 ? t.builder.from : t.builder.to) : t.builder.value
  const element = h('input', {
    type: fact.type === 'date' ? 'date' : 'text',
    inputmode: isNumber && 'decimal',
    class: isNumber ? 'short-value' : 'value',
    autocomplete: 'off',
    spellcheck: 'false',
    'aria-label': label,
    'aria-invalid': isUnfit(fact, at) && 'true',
    'data-key': `value-${at}`,
    value: fact.values[at] ?? '',
    on: {
      input: () => {
        const text = isNumber ? element.value.trim().replace(',', '.') : element.value
        fact.values = Array.from({ length: isRange ? 2 : 1 }, (_, index) => (index === at ? text : (fact.values[index] ?? '')))
        if (isUnfit(fact, at)) element.setAttribute('aria-invalid', 'true')
        else element.removeAttribute('aria-invalid')
        onChange()
      },
    },
  })
  return element
}

function isUnfit(fact: Fact, at: number): boolean {
  const value = fact.values[at]
  return value === undefined || !isValue(fact, value)
}

/** Years or days, of an age. */
function unit({ fact, onChange }: FactRow): HTMLElement | false {
  if (fact.measure !== 'age_years' && fact.measure !== 'days_since') return false
  const change = () => {
    fact.measure = select.value as Fact['measure']
    onChange()
  }
  const select = h(
    'select',
    { 'aria-label': t.builder.unit, 'data-key': 'unit', value: fact.measure, on: { change } },
    h('option', { value: 'age_years' }, t.builder.years),
    h('option', { value: 'days_since' }, t.builder.days),
  )
  return select
}

function oneOf(fact: Fact, choices: string[], take: (values: string[]) => void): HTMLElement {
  const value = fact.values[0] ?? ''
  const names = t.reading.values as Record<string, string>
  const change = () => {
    take([select.value])
    select.removeAttribute('aria-invalid')
  }
  const select = h(
    'select',
    { 'aria-label': t.builder.value, 'aria-invalid': value === '' && 'true', 'data-key': 'value', value, on: { change } },
    value === '' && h('option', { value: '' }, '…'),
    [...new Set([...choices, ...(value ? [value] : [])])].map((one) => h('option', { value: one }, names[one] ?? one)),
  )
  return select
}

/** Texts, one per line. */
function lines(fact: Fact, take: (values: string[]) => void): HTMLElement {
  const area = h('textarea', {
    rows: Math.max(2, fact.values.length),
    'aria-label': t.builder.texts,
    placeholder: t.builder.texts,
    'data-key': 'value',
    value: fact.values.join('\n'),
    on: { input: () => take(area.value.split('\n').map((line) => line.trim()).filter(Boolean)) },
  })
  return area
}
