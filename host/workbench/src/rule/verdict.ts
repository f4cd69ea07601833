// The diagnostics of the rule below the editor, accessible without its markers, and the fields and cost of the rule.

import type { Diagnostic } from '../api'
import { range, suggested, type Validated, type Verdict } from '../editor/diagnostics'
import type { RuleEditor } from '../editor/editor'
import { fill, h, prose } from '../dom'
import { leftToRight, t } from '../i18n'

export function showVerdict(place: HTMLElement, verdict: Verdict, editor: RuleEditor): void {
  place.setAttribute('aria-busy', String(verdict.kind === 'checking'))
  if (verdict.kind === 'checking') {
    // The previous result keeps its space, hidden, until there is a new one, so that the layout does not jump while
    // typing.
    const line = place.querySelector('.state')
    if (line) {
      line.textContent = t.rule.checking
      line.className = 'state'
    } else fill(place, h('p', { class: 'state' }, t.rule.checking))
  } else if (verdict.kind === 'empty') {
    fill(place, h('p', { class: 'state hint' }, t.rule.empty))
  } else if (verdict.kind === 'failed') {
    fill(place, h('p', { class: 'state problem' }, prose(verdict.message)))
  } else {
    fill(place, ...diagnosticsOf(verdict.validated, editor))
  }
}

function diagnosticsOf(validated: Validated, editor: RuleEditor): (HTMLElement | false)[] {
  const { diagnostics, cost, references } = validated
  const errors = diagnostics.filter(({ severity }) => severity === 'error').length
  const warnings = diagnostics.length - errors
  const isRefused = diagnostics.some(({ code }) => code === 'missing_scope' || code === 'field_not_granted')
  const parts = [
    validated.valid ? (isRefused ? t.rule.notRunnable : t.rule.valid) : t.rule.problems(errors),
    warnings > 0 ? t.rule.warnings(warnings) : '',
  ]
  return [
    h('p', { class: `state ${validated.valid ? (isRefused ? 'doubtful' : 'good') : 'bad'}` }, parts.filter(Boolean).join(' · ')),
    diagnostics.length > 0 && h('ul', { class: 'diagnostics' }, diagnostics.map((one) => line(one, editor))),
    validated.valid &&
      h(
        'dl',
        { class: 'facts' },
        h('dt', {}, t.rule.reads),
        h('dd', {}, references.length ? references.map((name) => h('code', {}, name)) : t.rule.readsNothing),
        cost && [h('dt', {}, t.rule.cost), h('dd', {}, t.rule.steps(cost.steps_min, cost.steps_max, cost.list_items))],
      ),
  ]
}

function line(diagnostic: Diagnostic, editor: RuleEditor): HTMLElement {
  const { doc } = editor.view.state
  const { from, to } = range(doc, diagnostic)
  const replacement = suggested(doc, diagnostic)
  const place = t.rule.place(diagnostic.line, diagnostic.column)
  return h(
    'li',
    { class: diagnostic.severity },
    h('strong', {}, diagnostic.severity === 'error' ? t.rule.error : t.rule.warning),
    ' ',
    h('button', { type: 'button', class: 'link', on: { click: () => editor.goTo(from, to) } }, place),
    h('p', {}, prose(diagnostic.message)),
    replacement &&
      h(
        'button',
        { type: 'button', on: { click: () => editor.replace(replacement.from, replacement.to, replacement.text) } },
        t.rule.use(leftToRight(replacement.text), diagnostic.name ?? ''),
      ),
  )
}
