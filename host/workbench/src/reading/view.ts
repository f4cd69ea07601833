// The reading of a rule below its editor, with the conditions as nested lists.

import type { Api } from '../api'
import { type Child, fill, h } from '../dom'
import type { Subject } from '../editor/schema'
import { t } from '../i18n'
import { parse } from '../syntax/parse'
import { namesOf, urisIn } from './codes'
import { type Clause, read } from './read'
import { pieces } from './terms'

/** The pause after the last change before names are requested, in milliseconds. */
const PAUSE_MS = 400

export interface RuleReading {
  dom: HTMLElement
  show: (text: string, subject: Subject) => void
  close: () => void
}

/** `name` is that of the rule, where the page has several. */
export function ruleReading(api: Api, name?: string): RuleReading {
  const { dom: body, show, close } = ruleSentences(api)
  const label = name ? `${name}: ${t.reading.heading}` : t.reading.heading
  const dom = h('section', { class: 'reading', 'aria-label': label, hidden: true }, h(name ? 'h3' : 'h2', {}, t.reading.heading), body)
  return {
    dom,
    show: (text, subject) => {
      dom.hidden = !text.trim()
      show(text, subject)
    },
    close,
  }
}

/** The sentences alone. */
export function ruleSentences(api: Api): RuleReading {
  const body = h('div', { class: 'sentences' })
  /** The names that were read so far; a rule is shown again with each. */
  const names = new Map<string, string>()
  let asking = new AbortController()
  let timer: ReturnType<typeof setTimeout> | undefined
  const show = (text: string, subject: Subject) => {
    asking.abort()
    clearTimeout(timer)
    const parsed = parse(text)
    if (!parsed) {
      fill(body, h('p', { class: 'hint' }, t.reading.incomplete))
      return
    }
    const draw = () => fill(body, ...sentences(read(parsed.tree, { source: text, subject, codes: names })))
    draw()
    const missing = urisIn(parsed.tree).filter((uri) => !names.has(uri))
    if (missing.length === 0) return
    asking = new AbortController()
    const { signal } = asking
    const ask = () =>
      namesOf(api, missing, signal).then(
        (found) => {
          for (const [uri, name] of found) names.set(uri, name)
          if (!signal.aborted && found.size > 0) draw()
        },
        // Without names the codes stay.
        () => {},
      )
    timer = setTimeout(() => void ask(), PAUSE_MS)
  }
  const close = () => {
    asking.abort()
    clearTimeout(timer)
  }
  return { dom: body, show, close }
}

function sentences(clause: Clause): HTMLElement[] {
  const line = h('p', {}, ...words(sentence(clause)))
  return clause.parts.length === 0 ? [line] : [line, h('ul', {}, clause.parts.map((part) => h('li', {}, ...sentences(part))))]
}

/** A clause with its capital and its stop. */
export function sentence({ text, parts }: Clause): string {
  return `${text.replace(/^\(?\p{Ll}/u, (first) => first.toUpperCase())}${parts.length > 0 ? t.reading.colon : t.reading.stop}`
}

/** A text in which the parts of the rule are elements. */
export function words(text: string): Child[] {
  return pieces(text).map((piece, at) => (at % 2 === 1 ? h('code', {}, piece) : piece))
}
