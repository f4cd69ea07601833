// Two rules side by side, with the subjects gained and lost.

import { field, fill, h } from '../dom'
import { type RuleEditor, makeEditor } from '../editor/editor'
import { currentLanguage, number, t } from '../i18n'
import { Running } from '../rule/running'
import { showVerdict } from '../rule/verdict'
import type { View } from '../shell'
import { state } from '../state'
import { type Compared, type Moves, compare as compareRules } from './compared'

const SHOWN = ['gained', 'lost', 'kept'] as const

export const compare: View = ({ api, say }) => {
  const editors: RuleEditor[] = []
  const result = h('div', { class: 'result' }, h('p', { class: 'hint' }, t.compare.none))
  const step = h('p', { class: 'hint', role: 'status' })
  const isReady = () => state.a.trim() !== '' && state.b.trim() !== ''
  const running = new Running(t.compare.run, async (signal, onProgress) => {
    try {
      const compared = await compareRules(api, state.a, state.b, state, {
        signal,
        onProgress: (part, done, total) => {
          step.textContent = t.compare.step(part)
          onProgress(done + (part - 1) * total, 3 * total)
        },
      })
      fill(result, ...show(compared))
      say(`${t.compare.gained}: ${number(compared.all.gained)}, ${t.compare.lost}: ${number(compared.all.lost)}`)
    } finally {
      step.textContent = ''
    }
  })
  running.enable(isReady())
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
        running.enable(isReady())
      },
      onVerdict: (current) => showVerdict(verdict, current, editor),
    })
    editors.push(editor)
    return h('section', { 'aria-labelledby': `rule-${which}` }, h('h2', { id: `rule-${which}` }, t.compare[which]), editor.dom, verdict)
  }
  const dom = h(
    'section',
    { class: 'card', 'aria-labelledby': 'compare' },
    h('h1', { id: 'compare' }, t.compare.heading),
    h('p', {}, t.compare.lead, ' ', t.compare.aIs),
    h('div', { class: 'columns even' }, rule('a'), rule('b')),
    running.dom,
    step,
    result,
  )
  return {
    dom,
    close: () => {
      running.cancel()
      for (const editor of editors) editor.view.destroy()
    },
  }
}

function show(compared: Compared): (HTMLElement | false)[] {
  const { all, byGender, byAge } = compared
  return [
    !compared.isSteady && h('p', { class: 'notice' }, t.compare.moved),
    h(
      'dl',
      { class: 'counts' },
      SHOWN.map((what) => h('div', { class: what }, h('dt', {}, h('span', { class: `mark ${what}`, 'aria-hidden': 'true' }), t.compare[what]), h('dd', {}, number(all[what])))),
    ),
    h('p', { class: 'hint' }, t.compare.under(compared.a, compared.b)),
    cost(compared.b - compared.a),
    byGender.length > 0 && table(t.reach.byGender, t.reach.gender, [all, ...byGender]),
    byAge.length > 0 && table(t.reach.byAge, t.reach.age, [all, ...byAge]),
  ]
}

/** The cost of the change, once an amount per head is set. */
function cost(heads: number): HTMLElement {
  const output = h('output', { class: 'cost' })
  const amount = h('input', {
    type: 'number',
    min: 0,
    step: 'any',
    inputmode: 'decimal',
    on: {
      input: () => {
        const sum = amount.valueAsNumber * heads
        const text = new Intl.NumberFormat(currentLanguage(), { maximumFractionDigits: 2 }).format(Math.abs(sum))
        output.textContent = Number.isNaN(sum) ? '' : sum < 0 ? t.compare.saved(text) : t.compare.cost(text)
      },
    },
  })
  return h('div', { class: 'row' }, field(t.compare.amount, amount), output)
}

function table(caption: string, head: string, rows: Moves[]): HTMLElement {
  const most = Math.max(...rows.slice(1).map((row) => Math.max(row.gained, row.lost)), 1)
  const signed = (count: number) => `${count > 0 ? '+' : count < 0 ? '−' : ''}${number(Math.abs(count))}`
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
          SHOWN.map((what) => h('th', { scope: 'col', class: 'number' }, t.compare[what])),
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
                  h('meter', { class: 'lost', min: 0, max: most, value: row.lost }),
                  h('meter', { class: 'gained', min: 0, max: most, value: row.gained }),
                ),
            ),
            SHOWN.map((what) => h('td', { class: 'number' }, h('span', { class: 'short' }, t.compare[what]), number(row[what]))),
            h('td', { class: 'number' }, h('span', { class: 'short' }, t.compare.change), signed(row.gained - row.lost)),
          ),
        ),
      ),
    ),
  )
}
