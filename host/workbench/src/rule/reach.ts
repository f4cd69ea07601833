// The reach of a rule: one sentence, the counts, a chart by gender and age, missing facts and a sample. Every number
// opens the list behind it.

import { field, fill, h } from '../dom'
import { wordsOf } from '../case/values'
import { schemaOf } from '../editor/schema'
import { either, number, percent, t } from '../i18n'
import { factName } from '../reading/terms'
import type { Context } from '../shell'
import { state } from '../state'
import { type Row, bars, legend } from './bars'
import { chart } from './chart'
import { contextLine } from './context'
import { funnel } from './funnel'
import { ageFilters, narrowed, openList } from './list'
import { type Decided, OUTCOMES, type Outcome, type Previewed, type Question, preview } from './preview'
import { printButton, provenance } from './provenance'
import { Running } from './running'
import { items } from './subjects'

/** The number of subjects in a sample, and of those that are shown at first. */
const SAMPLE = 20
const SAMPLE_SHOWN = 6

export class Reach {
  readonly dom: HTMLElement
  #running: Running
  #result = h('div', { class: 'result' })
  #stale = h('p', { class: 'notice', role: 'status', hidden: true }, t.reach.stale)
  #names = new AbortController()
  #isInvalid = false

  constructor(private readonly context: Context) {
    const filter = h('textarea', {
      rows: 2,
      spellcheck: 'false',
      value: state.filter,
      on: {
        input: () => {
          state.filter = filter.value
          state.save()
          this.changed()
        },
      },
    })
    this.#running = new Running(t.reach.run, (signal, onProgress) => this.#run(signal, onProgress))
    this.dom = h(
      'section',
      { class: 'card reach', 'aria-labelledby': 'reach' },
      h('div', { class: 'head' }, h('h2', { id: 'reach' }, t.reach.heading), this.#running.dom),
      h('details', { open: state.filter !== '' }, h('summary', {}, t.reach.who), field(t.reach.filter, filter, t.reach.filterHint)),
      this.#stale,
      this.#result,
    )
    if (state.reach) this.#show(state.reach.question, state.reach.result)
    else fill(this.#result, h('p', { class: 'hint' }, t.reach.none))
    this.changed()
    if (state.isReachDue) this.run()
    state.isReachDue = false
  }

  /** Called when the rule, its day or its population has changed. */
  changed(): void {
    this.#stale.hidden = !state.isStale
    this.#result.classList.toggle('stale', state.isStale)
    this.#running.enable(state.a.trim() !== '' && !this.#isInvalid)
  }

  /** Called when the rule was validated: an invalid one has no preview. */
  validated(isInvalid: boolean): void {
    this.#isInvalid = isInvalid
    this.changed()
  }

  run(): void {
    this.#running.run()
  }

  close(): void {
    if (this.#running.close()) state.isReachDue = true
    this.#names.abort()
  }

  async #run(signal: AbortSignal, onProgress: (done: number, total: number) => void): Promise<void> {
    const { question } = state
    const result = await preview(this.context.api, question, { signal, onProgress, sample: SAMPLE })
    state.reach = { question, result }
    this.#show(question, result)
    this.changed()
    this.context.say(headline(question, result))
  }

  #show(requested: Question, result: Previewed): void {
    this.#names.abort()
    this.#names = new AbortController()
    const asOf = result.decision.as_of
    // Lists and cases of the result are of its day, also if the request has none and another day has begun.
    const question = { ...requested, asOf }
    const context = contextLine(question, asOf, result.total)
    if (result.total === 0) {
      fill(this.#result, h('p', { class: 'headline' }, t.reach.noMatch), context, this.#sheet(question, result))
      return
    }
    fill(
      this.#result,
      h('p', { class: 'headline' }, headline(question, result)),
      context,
      this.#counts(question, result),
      result.errors > 0 && h('p', { class: 'notice' }, t.reach.errors(result.errors)),
      result.decision.visibility === 'consent' && h('p', { class: 'notice' }, t.reach.consent),
      result.withheld.length > 0 && h('p', { class: 'notice' }, t.reach.withheld(result.withheld.join(', '))),
      funnel(this.context, question, result, this.#names.signal),
      this.#chart(question, result),
      this.#missing(question, result),
      this.#sample(question, result),
      h('details', { class: 'numbers' }, h('summary', {}, t.reach.numbers), breakdowns(result)),
      h('div', { class: 'foot' }, this.#sheet(question, result), printButton()),
    )
  }

  #sheet({ expression, subject }: Question, { decision }: Previewed): HTMLElement {
    return provenance(this.context.api, [{ rule: expression, subject, decision }])
  }

  /** Opens the list of the subjects of a part of the population. */
  #open(title: string, question: Question, asOf: string, isOf: (decided: Decided) => boolean): () => void {
    return () => openList({ context: this.context, title, question, asOf, isOf })
  }

  #counts(question: Question, result: Previewed): HTMLElement {
    const asOf = result.decision.as_of
    const card = (outcome: Outcome) => {
      const count = result[outcome]
      const label = t.outcome[outcome]
      const open = this.#open(`${label}: ${number(count)}`, question, asOf, (decided) => decided.outcome === outcome)
      const shown = [number(count), h('small', {}, percent(count, result.total))]
      return h(
        'div',
        { class: outcome },
        h('dt', {}, h('span', { class: `mark ${outcome}`, 'aria-hidden': 'true' }), label),
        h('dd', {}, count === 0 ? shown : h('button', { type: 'button', on: { click: open } }, h('span', { class: 'visually-hidden' }, `${label}: `), shown)),
      )
    }
    return h('dl', { class: 'counts' }, OUTCOMES.map(card))
  }

  #chart(question: Question, result: Previewed): HTMLElement | false {
    const asOf = result.decision.as_of
    const everyone = () => true
    return chart(result, {
      gender: ({ code, display }) => {
        if (code === null) return undefined
        return () => {
          void schemaOf(this.context.api).then((schema) => {
            const vocabulary = schema?.person.get('gender')?.vocabularies[0]
            if (vocabulary) this.#open(display ?? code, narrowed(question, `gender=${vocabulary}#${code}`), asOf, everyone)()
          })
        }
      },
      age: (row) => {
        const filters = ageFilters(row, asOf)
        return filters && this.#open(t.reach.years(row.from ?? 0, row.to), narrowed(question, ...filters), asOf, everyone)
      },
    })
  }

  #missing(question: Question, result: Previewed): HTMLElement | false {
    if (result.missing.length === 0) return false
    const asOf = result.decision.as_of
    return h(
      'section',
      { class: 'missing-facts', 'aria-labelledby': 'missing-facts' },
      h('h3', { id: 'missing-facts' }, t.reach.missing),
      h(
        'ul',
        { title: t.reach.missingLead },
        result.missing.map(({ field, count }) => {
          const words = wordsOf(field)
          const open = this.#open(words || field, question, asOf, ({ missing }) => missing.includes(field))
          return h('li', {}, h('button', { type: 'button', title: field, on: { click: open } }, words || h('code', {}, field), ' ', h('strong', {}, number(count))))
        }),
      ),
    )
  }

  #sample(question: Question, result: Previewed): HTMLElement | false {
    if (result.sample.length === 0) return false
    const listed = { context: this.context, question, asOf: result.decision.as_of }
    const list = h('ul', { class: 'sample' }, items(result.sample.slice(0, SAMPLE_SHOWN), listed, this.#names.signal))
    const rest = result.sample.slice(SAMPLE_SHOWN)
    const more = h(
      'button',
      {
        type: 'button',
        on: {
          click: () => {
            const added = items(rest, listed, this.#names.signal)
            list.append(...added)
            added[0]?.querySelector('button')?.focus()
            more.remove()
          },
        },
      },
      t.list.more(rest.length),
    )
    return h(
      'section',
      { class: 'sample-part', 'aria-labelledby': 'sample' },
      h('h3', { id: 'sample', title: t.reach.sampleLead }, t.reach.sample),
      list,
      rest.length > 0 && more,
    )
  }
}

/** The result in a sentence. */
export function headline({ subject }: Question, result: Previewed): string {
  const { eligible, total, undetermined, missing } = result
  const first = t.reach.headline(eligible, total, percent(eligible, total), subject === 'individual')
  if (undetermined === 0) return `${first}.`
  const facts = missing.map(({ field, count }) => `${factName(field)} (${number(count)})`)
  return `${first}${t.reach.semicolon}${facts.length > 0 ? t.reach.undecided(undetermined, either(facts)) : t.reach.undecidedOnly(undetermined)}.`
}

function breakdowns(result: Previewed): (HTMLElement | false)[] {
  const unknown = t.reach.unknown
  const genders = (result.by_gender ?? []).map((row): Row => ({ ...row, label: row.display ?? row.code ?? unknown }))
  const ages = (result.by_age_band ?? []).map(
    (row): Row => ({ ...row, label: row.from === null ? unknown : t.reach.years(row.from, row.to) }),
  )
  const regions = (result.by_region ?? []).map((row): Row => ({ ...row, label: row.region ?? unknown }))
  return [
    legend(),
    genders.length > 0 && bars(t.reach.byGender, t.reach.gender, genders),
    ages.length > 0 && bars(t.reach.byAge, t.reach.age, ages),
    // A register without regions has a single row, which is not informative.
    regions.some((row) => row.label !== unknown) && bars(t.reach.byRegion, t.reach.region, regions),
  ]
}
