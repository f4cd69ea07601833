// The reach of a rule: the counts of a preview by gender, age and region, missing facts, a sample, and the list.

import type { Api } from '../api'
import { field, fill, h } from '../dom'
import { number, percent, t } from '../i18n'
import type { Context } from '../shell'
import { state } from '../state'
import { type Row, bars, legend } from './bars'
import { Csv, save } from './csv'
import { OUTCOMES, type Previewed, type Question, preview } from './preview'
import { Running } from './running'

/** The number of subjects in a sample. */
const SAMPLE = 20

export class Reach {
  readonly dom: HTMLElement
  #running: Running
  #result = h('div', { class: 'result' })
  #stale = h('p', { class: 'notice', hidden: true }, t.reach.stale)

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
      h('h2', { id: 'reach' }, t.reach.heading),
      h('details', { open: state.filter !== '' }, h('summary', {}, t.reach.who), field(t.reach.filter, filter, t.reach.filterHint)),
      this.#running.dom,
      this.#stale,
      this.#result,
    )
    if (state.reach) this.#show(state.reach.question, state.reach.result)
    else fill(this.#result, h('p', { class: 'hint' }, t.reach.none))
    this.changed()
  }

  /** Called when the rule or its filters have changed. */
  changed(): void {
    this.#stale.hidden = !state.isStale
    this.#running.enable(state.a.trim() !== '')
  }

  close(): void {
    this.#running.cancel()
  }

  async #run(signal: AbortSignal, onProgress: (done: number, total: number) => void): Promise<void> {
    const { question } = state
    const result = await preview(this.context.api, question, { signal, onProgress, sample: SAMPLE })
    state.reach = { question, result }
    this.#show(question, result)
    this.changed()
    this.context.say(`${number(result.eligible)} ${t.outcome.eligible}, ${t.reach.total(result.total)}`)
  }

  #show(question: Question, result: Previewed): void {
    fill(
      this.#result,
      h(
        'dl',
        { class: 'counts' },
        OUTCOMES.map((outcome) =>
          h(
            'div',
            { class: outcome },
            h('dt', {}, h('span', { class: `mark ${outcome}`, 'aria-hidden': 'true' }), t.outcome[outcome]),
            h('dd', {}, number(result[outcome]), h('small', {}, percent(result[outcome], result.total))),
          ),
        ),
      ),
      h('p', { class: 'hint' }, t.reach.total(result.total)),
      result.errors > 0 && h('p', { class: 'notice' }, t.reach.errors(result.errors)),
      result.decision.visibility === 'consent' && h('p', { class: 'notice' }, t.reach.consent),
      result.withheld.length > 0 && h('p', { class: 'notice' }, t.reach.withheld(result.withheld.join(', '))),
      breakdowns(result),
      missing(result),
      this.#sample(result),
      new List(this.context.api, question).dom,
    )
  }

  #sample(result: Previewed): HTMLElement | false {
    if (result.sample.length === 0) return false
    const open = (subject: string) => {
      state.case = subject
      this.context.go('case')
    }
    return h(
      'section',
      { 'aria-labelledby': 'sample' },
      h('h3', { id: 'sample' }, t.reach.sample),
      h('p', { class: 'hint' }, t.reach.sampleLead),
      h(
        'ul',
        { class: 'sample' },
        result.sample.map(({ subject, outcome, missing }) =>
          h(
            'li',
            {},
            h('button', { type: 'button', class: 'link', on: { click: () => open(subject) } }, subject),
            h('span', { class: `badge ${outcome}` }, t.answer[outcome]),
            missing.length > 0 && h('code', {}, missing.join(', ')),
          ),
        ),
      ),
    )
  }
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

function missing(result: Previewed): HTMLElement | false {
  if (result.missing.length === 0) return false
  return h(
    'div',
    { class: 'breakdown' },
    h(
      'table',
      {},
      h('caption', {}, t.reach.missing, h('p', { class: 'hint' }, t.reach.missingLead)),
      h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, t.reach.fact), h('th', { scope: 'col', class: 'number' }, t.reach.subjects))),
      h(
        'tbody',
        {},
        result.missing.map(({ field, count }) =>
          h('tr', {}, h('th', { scope: 'row' }, h('code', {}, field)), h('td', { class: 'number' }, number(count))),
        ),
      ),
    ),
  )
}

/** The list of all subjects of a preview, for which the request is repeated. */
class List {
  readonly dom: HTMLElement
  #isEligibleOnly = h('input', { type: 'checkbox' })

  constructor(
    private readonly api: Api,
    private readonly question: Question,
  ) {
    const running = new Running(t.reach.csv, (signal, onProgress) => this.#fetch(signal, onProgress))
    running.enable(true)
    this.dom = h(
      'div',
      { class: 'list' },
      h('label', { class: 'check' }, this.#isEligibleOnly, t.reach.csvEligible),
      running.dom,
    )
  }

  async #fetch(signal: AbortSignal, onProgress: (done: number, total: number) => void): Promise<void> {
    const csv = new Csv()
    const isEligibleOnly = this.#isEligibleOnly.checked
    await preview(this.api, this.question, {
      signal,
      onProgress,
      onSubject: (decided) => {
        if (!isEligibleOnly || decided.outcome === 'eligible') csv.add(decided)
      },
    })
    save(csv.file(), `${t.reach.csvFile}.csv`)
  }
}

