// The sheet about a result: its rules, the versions of the vocabularies, the engine, and digests. It is folded on the
// screen and open on paper.

import type { Api } from '../api'
import { h } from '../dom'
import type { Subject } from '../editor/schema'
import { now, t } from '../i18n'
import { ruleSentences } from '../reading/view'

/** The inputs of a decision that identify it. */
export interface Decision {
  as_of: string
  visibility?: string
  expression_digest?: string
  engine?: string
  vocabularies?: { namespace: string; version: string; digest: string }[]
  concept_groups?: string
  schema?: string
}

/** The beginning of a digest, which identifies it. */
const DIGEST_LETTERS = 24

export interface Decided {
  name?: string
  subject: Subject
  rule: string
  decision: Decision
}

export function provenance(api: Api, rules: Decided[]): HTMLElement {
  const [first] = rules
  const vocabularies = new Map(
    rules.flatMap(({ decision }) => (decision.vocabularies ?? []).map((one): [string, string] => [one.namespace, `${one.version} · ${short(one.digest)}`])),
  )
  const facts: [string, (Node | string)[]][] = [
    [t.sheet.engine, first?.decision.engine ? [h('code', {}, first.decision.engine.replace(/\bsha256:\w+/, short))] : []],
    [t.sheet.vocabularies, [...vocabularies].map(([namespace, version]) => h('span', { dir: 'ltr' }, h('code', {}, namespace), ` ${version}`))],
    [t.sheet.digest, rules.flatMap(({ name, decision: { expression_digest: digest } }) => (digest ? [h('span', {}, name ? `${name}: ` : '', h('code', {}, short(digest)))] : []))],
    [t.sheet.made, [h('time', {}, now()), h('code', {}, api.clientId)]],
  ]
  return h(
    'details',
    { class: 'provenance' },
    h('summary', {}, t.sheet.title),
    rules.map(({ name, rule, subject }) => [
      h('p', { class: 'hint' }, name ?? t.reading.heading),
      inWords(api, rule, subject),
      h('pre', { class: 'rule', tabindex: '0', 'aria-label': name ?? t.rule.heading }, rule),
    ]),
    h('dl', { class: 'facts' }, facts.filter(([, values]) => values.length > 0).map(([name, values]) => [h('dt', {}, name), h('dd', {}, values)])),
  )
}

/** The rule in words, for readers of the printed sheet. */
function inWords(api: Api, rule: string, subject: Subject): HTMLElement {
  const { dom, show } = ruleSentences(api)
  show(rule, subject)
  return dom
}

/** A button that prints the result, without the controls of the page. */
export function printButton(): HTMLElement {
  return h('button', { type: 'button', class: 'print', on: { click: () => print() } }, t.sheet.print)
}

/** Opens what is folded while the page is printed. The focus returns to its control, which is not printed. */
export function unfoldForPrint(): void {
  let opened: HTMLDetailsElement[] = []
  let focused: Element | null = null
  addEventListener('beforeprint', () => {
    focused = document.activeElement
    opened = [...document.querySelectorAll<HTMLDetailsElement>('.result details:not([open])')]
    for (const details of opened) details.open = true
  })
  addEventListener('afterprint', () => {
    for (const details of opened) details.open = false
    opened = []
    if (focused instanceof HTMLElement) focused.focus({ preventScroll: true })
  })
}

function short(digest: string): string {
  return digest.length > DIGEST_LETTERS ? `${digest.slice(0, DIGEST_LETTERS)}…` : digest
}
