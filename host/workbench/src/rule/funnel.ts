// The funnel: how many subjects each condition of a rule excludes, or each alternative adds. It is made of previews of
// the growing rule, on the same day and population, after the result itself; each counts as a request.

import { isAbort, sentence } from '../api'
import { fill, freshId, h, svg } from '../dom'
import { number, t } from '../i18n'
import { namesOf, urisIn } from '../reading/codes'
import { inLine, readPart } from '../reading/read'
import { pieces } from '../reading/terms'
import type { Context } from '../shell'
import { type Chain, type Tree, parse } from '../syntax/parse'
import { hatching } from './bars'
import { type Counts, type Previewed, type Question, preview } from './preview'

/** The most steps; further conditions are one step. */
const STEPS_MAX = 6
/** The longest rule that the server accepts, in bytes. */
const LENGTH_MAX = 8_192
/** The requests that are left to the user; below that the funnel waits for a button. */
const RESERVE = 20
const HEIGHT = 14

/** A condition, or the last ones of a long rule, and the rule up to there. */
export interface Step {
  tree: Tree | undefined
  /** The number of conditions in it. */
  count: number
  expression: string
}

export interface Steps {
  isAnd: boolean
  steps: Step[]
}

/** The steps of a rule; undefined if it is a single condition. The last step is the rule itself. */
export function stepsOf(expression: string): Steps | undefined {
  const tree = parse(expression)?.tree
  if (tree?.kind !== 'chain') return undefined
  const own = tree.parts.length > STEPS_MAX ? STEPS_MAX - 1 : tree.parts.length
  const steps = tree.parts.slice(0, own).map((part, at): Step => ({ tree: part, count: 1, expression: until(expression, tree, at + 1) }))
  if (own < tree.parts.length) steps.push({ tree: undefined, count: tree.parts.length - own, expression })
  const isTooLong = steps.slice(0, -1).some((step) => new TextEncoder().encode(step.expression).length > LENGTH_MAX)
  return isTooLong ? undefined : { isAnd: tree.operator === '&&', steps }
}

/** The first conditions of a chain as a rule. A comment ends with its line. */
function until(expression: string, { operator, parts }: Chain, count: number): string {
  return parts
    .slice(0, count)
    .map(({ from, to }) => `(${expression.slice(from, to)}\n)`)
    .join(` ${operator} `)
}

export interface Change {
  /** The subjects that the step excludes, or makes eligible. */
  change: number
  /** The subjects that it does not exclude, or that are eligible by then. */
  left: number
}

/** The changes from one step to the next. */
export function changesOf(isAnd: boolean, counts: Pick<Counts, 'total' | 'eligible' | 'not_eligible'>[]): Change[] {
  const reached = counts.map((one) => (isAnd ? one.not_eligible : one.eligible))
  return counts.map(({ total, eligible, not_eligible }, at) => ({
    change: (reached[at] ?? 0) - (reached[at - 1] ?? 0),
    left: isAnd ? total - not_eligible : eligible,
  }))
}

/** The counts of all steps of a result, which survive a change of view. */
const known = new WeakMap<Previewed, Previewed[]>()

export function funnel(context: Context, question: Question, result: Previewed, signal: AbortSignal): HTMLElement | false {
  const found = stepsOf(question.expression)
  return found ? new Funnel(context, question, result, found, signal).dom : false
}

class Funnel {
  readonly dom: HTMLElement
  #list = h('ol')
  #below = h('div', { class: 'row' })
  #names = new Map<string, string>()
  #counts: Previewed[] = []
  #stop: AbortController | undefined

  constructor(
    private readonly context: Context,
    private readonly question: Question,
    private readonly result: Previewed,
    private readonly found: Steps,
    private readonly closed: AbortSignal,
  ) {
    const id = freshId('funnel')
    const heading = h('h3', { id, title: t.funnel.lead(this.#requests) }, found.isAnd ? t.funnel.and : t.funnel.or)
    this.dom = h('section', { class: 'funnel', 'aria-labelledby': id }, heading, this.#list, this.#below)
    this.#counts = known.get(result) ?? []
    this.#draw()
    void this.#readNames()
    if (this.#counts.length > 0) return
    const { budget } = context.api
    const isAffordable = !budget || budget.remaining >= this.#requests + RESERVE
    if (isAffordable) void this.#run()
    else this.#offer()
  }

  get #requests(): number {
    return this.found.steps.length - 1
  }

  /** Shows the button that requests the previews. */
  #offer(problem?: string): void {
    fill(
      this.#below,
      h('button', { type: 'button', on: { click: () => void this.#run() } }, t.funnel.run(this.#requests)),
      problem !== undefined && h('p', { class: 'problem', role: 'alert' }, problem),
    )
  }

  async #run(): Promise<void> {
    const stop = new AbortController()
    this.#stop = stop
    fill(
      this.#below,
      h('p', { class: 'hint' }, t.funnel.running),
      h('button', { type: 'button', on: { click: () => this.#stop?.abort() } }, t.reach.cancel),
    )
    const signal = AbortSignal.any([stop.signal, this.closed])
    const question = { ...this.question, asOf: this.result.decision.as_of }
    const counts: Previewed[] = []
    try {
      for (const { expression } of this.found.steps.slice(0, -1)) {
        counts.push(await preview(this.context.api, { ...question, expression }, { signal, onProgress: () => {} }))
      }
      this.#counts = [...counts, this.result]
      known.set(this.result, this.#counts)
      this.#below.replaceChildren()
      this.#draw()
    } catch (error) {
      if (!this.closed.aborted) this.#offer(isAbort(error) ? undefined : sentence(error))
    }
  }

  async #readNames(): Promise<void> {
    const uris = this.found.steps.flatMap(({ tree }) => (tree ? urisIn(tree) : []))
    try {
      this.#names = await namesOf(this.context.api, uris, this.closed)
      if (this.#names.size > 0) this.#draw()
    } catch {
      // Without names the codes stay.
    }
  }

  #draw(): void {
    const changes = changesOf(this.found.isAnd, this.#counts)
    fill(this.#list, this.found.steps.map((step, at) => this.#row(step, changes[at], this.#counts[at])))
    if (this.#counts.length === 0) return
    const hasMoved = this.#counts.some(({ total }) => total !== this.result.total)
    fill(this.#below, h('p', { class: 'hint' }, hasMoved ? t.funnel.moved : t.funnel.lead(this.#requests)))
  }

  #row(step: Step, change: Change | undefined, counts: Counts | undefined): HTMLElement {
    const condition = this.#name(step)
    const { isAnd } = this.found
    if (!change || !counts) return h('li', {}, h('span', { class: 'condition', title: condition }, condition), bar(undefined), h('span', {}), h('span', {}))
    const row = t.funnel.row(condition, change.change, change.left, isAnd)
    const signed = change.change === 0 ? number(0) : (isAnd ? t.funnel.excluded : t.funnel.added)(change.change)
    return h(
      'li',
      {},
      h('span', { class: 'visually-hidden' }, row),
      h('span', { class: 'condition', title: row, 'aria-hidden': 'true' }, condition),
      bar(counts),
      h('span', { class: 'change', 'aria-hidden': 'true' }, h('bdi', { dir: 'ltr' }, signed)),
      h('span', { class: 'left', 'aria-hidden': 'true' }, number(change.left)),
    )
  }

  #name({ tree, count }: Step): string {
    if (!tree) return t.funnel.rest(count)
    const { expression: source, subject } = this.question
    const text = pieces(inLine(readPart(tree, { source, subject, codes: this.#names }))).join('')
    return text.replace(/^\(?\p{Ll}/u, (first) => first.toUpperCase())
  }
}

/** The subjects that are eligible so far, and those that are undetermined, of all. */
function bar(counts: Counts | undefined): SVGElement {
  const pattern = freshId('hatch')
  const share = (count: number) => (counts && counts.total > 0 ? (count / counts.total) * 100 : 0)
  const [eligible, undetermined] = [share(counts?.eligible ?? 0), share(counts?.undetermined ?? 0)]
  const place = { x: `${eligible}%`, width: `${undetermined}%`, y: 0, height: HEIGHT }
  return svg(
    'svg',
    { height: HEIGHT, width: '100%', 'aria-hidden': 'true', focusable: 'false' },
    hatching(pattern),
    svg('rect', { class: 'bar eligible', x: 0, width: `${eligible}%`, y: 0, height: HEIGHT }),
    svg('rect', { ...place, class: 'bar undetermined' }),
    svg('rect', { ...place, fill: `url(#${pattern})` }),
  )
}
