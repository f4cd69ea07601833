// Two rules side by side, with the subjects gained and lost. Every number opens the list behind it.

import { type Panel, editingPanel } from '../builder/panel'
import { field, fill, h } from '../dom'
import { type RuleEditor, makeEditor } from '../editor/editor'
import { currentLanguage, leftToRight, number, t } from '../i18n'
import { contextLine } from '../rule/context'
import { openList } from '../rule/list'
import { OUTCOMES, type Outcome, type Question } from '../rule/preview'
import { printButton, provenance } from '../rule/provenance'
import { Running } from '../rule/running'
import { showVerdict } from '../rule/verdict'
import type { Context, View } from '../shell'
import { state } from '../state'
import { type Compared, MOVES, type Move, type Moves, compare as compareRules, row } from './compared'

const label = (move: Move) => ({ gained: t.compare.gained, refused: t.compare.nowRefused, undetermined: t.compare.nowUndetermined, kept: t.compare.kept })[move]

export const compare: View = (context) => {
  const { api, say } = context
  const panels: Panel[] = []
  const result = h('div', { class: 'result' })
  const stale = h('p', { class: 'notice', role: 'status' }, t.compare.stale)
  const isReady = () => state.a.trim() !== '' && state.b.trim() !== ''
  const running = new Running(t.compare.run, async (signal, onProgress) => {
    const question = state.comparison
    const compared = await compareRules(api, question, { signal, onProgress })
    state.compared = { question, result: compared }
    showResult()
    say(sentenceOf(compared))
  })
  const changed = () => {
    stale.hidden = !state.isComparisonStale
    result.classList.toggle('stale', state.isComparisonStale)
    running.enable(isReady())
  }
  const showResult = () => {
    if (state.compared) fill(result, ...show(context, state.compared.question, state.compared.result))
    else fill(result, h('p', { class: 'hint' }, t.compare.none))
    changed()
  }
  const rule = (which: 'a' | 'b'): HTMLElement => {
    const verdict = h('div', { class: 'verdict', 'aria-live': 'polite' })
    const editor: RuleEditor = makeEditor({
      api,
      label: t.compare[which],
      text: state[which],
      subject: () => state.subject,
      onChange: (text) => {
        state[which] = text
        state.save()
        changed()
        panel.changed()
        showCopy()
      },
      onVerdict: (current) => showVerdict(verdict, current, panel.shown),
    })
    const panel = editingPanel({ api, place: which, name: t.compare[which], editor, text: () => state[which], subject: () => state.subject, withText: [], say })
    panels.push(panel)
    const copy = h('button', { type: 'button', on: { click: () => copyFirst(panel) } }, t.compare.copy)
    const showCopy = () => (copy.hidden = which === 'a' || state.b.trim() !== '' || state.a.trim() === '')
    showCopy()
    return h(
      'section',
      { 'aria-labelledby': `rule-${which}` },
      h('div', { class: 'row' }, h('h2', { id: `rule-${which}` }, t.compare[which]), copy),
      panel.dom,
      panel.reading,
      verdict,
    )
  }
  const dom = h(
    'section',
    { class: 'card compare', 'aria-labelledby': 'compare' },
    h('h1', { id: 'compare' }, t.compare.heading),
    h('p', {}, t.compare.lead, ' ', t.compare.aIs),
    h('div', { class: 'columns even' }, rule('a'), rule('b')),
    running.dom,
    stale,
    result,
  )
  showResult()
  if (state.isComparisonDue) running.run()
  state.isComparisonDue = false
  return {
    dom,
    run: () => running.run(),
    close: () => {
      if (running.close()) state.isComparisonDue = true
      for (const panel of panels) {
        panel.close()
        panel.shown.view.destroy()
      }
    },
  }
}

/** The first rule as the second, to be changed. */
function copyFirst({ shown, focus }: Panel): void {
  shown.view.dispatch({ changes: { from: 0, to: shown.view.state.doc.length, insert: state.a }, selection: { anchor: state.a.length }, userEvent: 'input' })
  focus()
}

function sentenceOf({ all }: Compared): string {
  return `${t.compare.headline(all.gained, all.refused, all.undetermined)}.`
}

function show(context: Context, question: Question & { b: string }, compared: Compared): (HTMLElement | false)[] {
  const { all, byGender, byAge, byRegion } = compared
  return [
    h('p', { class: 'headline' }, sentenceOf(compared)),
    contextLine(question, compared.asOf, compared.total),
    h('dl', { class: 'counts moves-of' }, MOVES.map((move) => card(context, question, compared, move, all[move]))),
    h('p', { class: 'hint' }, t.compare.under(compared.a, compared.b)),
    outcomes(compared),
    cost(compared),
    byGender.length > 0 && table(t.reach.byGender, t.reach.gender, withMoves(all, byGender)),
    byAge.length > 0 && table(t.reach.byAge, t.reach.age, withMoves(all, byAge)),
    byRegion.length > 0 && table(t.reach.byRegion, t.reach.region, withMoves(all, byRegion)),
    h(
      'div',
      { class: 'foot' },
      provenance(context.api, [
        { name: t.compare.a, rule: question.expression, subject: question.subject, decision: compared.decisions[0] },
        { name: t.compare.b, rule: question.b, subject: question.subject, decision: compared.decisions[1] },
      ]),
      printButton(),
    ),
  ]
}

/** The number of subjects for each outcome by A and by B. */
function outcomes({ cells }: Compared): HTMLElement {
  return h(
    'div',
    { class: 'breakdown' },
    h(
      'table',
      { class: 'outcomes' },
      h('caption', {}, t.keep.outcomes),
      h('thead', {}, h('tr', {}, h('td', {}), OUTCOMES.map((outcome) => h('th', { scope: 'col', class: 'number' }, `${t.compare.b}: ${t.answer[outcome]}`)))),
      h(
        'tbody',
        {},
        OUTCOMES.map((outcome) =>
          h('tr', {}, h('th', { scope: 'row' }, `${t.compare.a}: ${t.answer[outcome]}`), row(cells, outcome).map((count) => h('td', { class: 'number' }, number(count)))),
        ),
      ),
    ),
  )
}

/** The rows of a table: those without any subject of the rules are left out. */
function withMoves(all: Moves, rows: Moves[]): Moves[] {
  return [all, ...rows.filter((row) => MOVES.some((move) => row[move] > 0))]
}

function card(context: Context, question: Question & { b: string }, compared: Compared, move: Move, count: number): HTMLElement {
  const name = label(move)
  const open = () => openMoved(context, question, compared, move)
  return h(
    'div',
    { class: move },
    h('dt', {}, h('span', { class: `mark ${move}`, 'aria-hidden': 'true' }), name),
    h('dd', {}, count === 0 ? number(count) : h('button', { type: 'button', on: { click: open } }, h('span', { class: 'visually-hidden' }, `${name}: `), number(count))),
  )
}

/** The outcomes of B of each kind of move, and whether A makes them eligible. */
const OUTCOME_OF: Record<Move, { byB: Outcome; byA: boolean }> = {
  gained: { byB: 'eligible', byA: false },
  refused: { byB: 'not_eligible', byA: true },
  undetermined: { byB: 'undetermined', byA: true },
  kept: { byB: 'eligible', byA: true },
}

/** The list of the subjects of a move. */
function openMoved(context: Context, question: Question & { b: string }, compared: Compared, move: Move): void {
  // The list and its cases are of the day of the result, also if the request has none.
  const { b, ...ofA } = { ...question, asOf: compared.asOf }
  const { byB, byA } = OUTCOME_OF[move]
  openList({
    context,
    title: `${label(move)}: ${number(compared.all[move])}`,
    question: { ...ofA, expression: b },
    // The list shows the outcome by B, by which its cases are explained.
    requested: { ...ofA, compare: b },
    asOf: compared.asOf,
    isOf: (decided) => decided.compared === byB && (decided.outcome === 'eligible') === byA,
  })
}

/** The cost of both rules and of the change, once an amount per head is set: without and with the undetermined. */
function cost({ a, b, undetermined }: Compared): HTMLElement {
  const output = h('output', { class: 'cost' })
  const currencies = Intl.supportedValuesOf('currency')
  const show = () => {
    const each = amount.valueAsNumber
    // Without an amount there is no cost: `formatRange` throws for NaN.
    if (Number.isNaN(each)) return fill(output)
    const code = currency.value.trim().toUpperCase()
    const money = currencies.includes(code) ? ({ style: 'currency', currency: code } as const) : {}
    const plain = new Intl.NumberFormat(currentLanguage(), { maximumFractionDigits: 2, ...money })
    const signed = new Intl.NumberFormat(currentLanguage(), { maximumFractionDigits: 2, ...money, signDisplay: 'exceptZero' })
    const range = (format: Intl.NumberFormat, from: number, to: number) =>
      leftToRight(from === to ? format.format(from * each) : format.formatRange(from * each, to * each))
    const lines = [
      t.compare.costOf(t.compare.a, range(plain, a, a + undetermined.a)),
      t.compare.costOf(t.compare.b, range(plain, b, b + undetermined.b)),
      t.compare.costChange(leftToRight(signed.format((b - a) * each)), range(signed, b - a - undetermined.a, b + undetermined.b - a)),
    ]
    fill(output, ...lines.map((line) => h('span', {}, line)))
  }
  const changed = () => {
    Object.assign(state, { amount: amount.value, currency: currency.value })
    state.save()
    show()
  }
  const amount = h('input', { type: 'number', min: 0, step: 'any', inputmode: 'decimal', value: state.amount, on: { input: changed } })
  const currency = h('input', { type: 'text', maxlength: 3, size: 4, autocomplete: 'off', spellcheck: 'false', value: state.currency, on: { input: changed } })
  show()
  return h('div', { class: 'row' }, field(t.compare.amount, amount, t.compare.costNote), field(t.compare.currency, currency, t.compare.currencyHint), output)
}

function table(caption: string, head: string, rows: Moves[]): HTMLElement {
  const lost = (row: Moves) => row.refused + row.undetermined
  const most = Math.max(...rows.slice(1).map((row) => Math.max(row.gained, lost(row))), 1)
  const signed = (count: number) => leftToRight(`${count > 0 ? '+' : count < 0 ? '−' : ''}${number(Math.abs(count))}`)
  return h(
    'div',
    { class: 'breakdown' },
    h(
      'table',
      { class: 'moves' },
      h('caption', {}, caption),
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          h('th', { scope: 'col' }, head),
          MOVES.map((move) => h('th', { scope: 'col', class: 'number' }, label(move))),
          h('th', { scope: 'col', class: 'number' }, t.compare.change),
        ),
      ),
      h(
        'tbody',
        {},
        rows.map((row, at) =>
          h(
            'tr',
            {},
            h(
              'th',
              { scope: 'row' },
              row.label,
              at > 0 &&
                h(
                  'div',
                  { class: 'meters', 'aria-hidden': 'true' },
                  h('meter', { class: 'lost', min: 0, max: most, value: lost(row) }),
                  h('meter', { class: 'gained', min: 0, max: most, value: row.gained }),
                ),
            ),
            MOVES.map((move) => h('td', { class: 'number' }, h('span', { class: 'short' }, label(move)), number(row[move]))),
            h('td', { class: 'number' }, h('span', { class: 'short' }, t.compare.change), signed(row.gained - lost(row))),
          ),
        ),
      ),
    ),
  )
}
