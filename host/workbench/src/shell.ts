// The frame of the views: header, navigation, notices, footer, and view selection.

import { type Api, sentence } from './api'
import { fill, h } from './dom'
import type { EngineState } from './engine-wait'
import { linked } from './drafts/link'
import { openRule } from './drafts/open'
import { focus, guardFocus } from './focus'
import { LANGUAGES, currentLanguage, setLanguage, t } from './i18n'
import { focusResult, isRunKey, shortcut, shortcutDigit } from './keys'
import { signIn } from './sign-in'
import { forgetPeople } from './rule/people'
import { state } from './state'

/** The interface between a view and the shell. */
export interface Context {
  api: Api
  /** The part of the address after the view, such as the code that is shown. */
  place: string
  /** Switches to another view. */
  go: (view: ViewName) => void
  /** Announces an event to screen readers. */
  say: (text: string) => void
}

export interface Shown {
  dom: HTMLElement
  close?: () => void
  /** Runs the rule, by Ctrl+Enter. */
  run?: () => void
}

export type View = (context: Context) => Shown

const ANALYST = ['rule', 'case', 'compare', 'vocabularies'] as const
const ADMINISTRATOR = ['plugins'] as const
export type ViewName = (typeof ANALYST | typeof ADMINISTRATOR)[number]

/** Views are loaded on first use: the sign-in does not wait for them. */
const load: Record<ViewName, () => Promise<View>> = {
  rule: async () => (await import('./views')).rule,
  case: async () => (await import('./views')).oneCase,
  compare: async () => (await import('./views')).compare,
  vocabularies: async () => (await import('./views')).vocabularies,
  plugins: async () => (await import('./plugins/view')).plugins,
}

export class Shell {
  #isSignedIn = false
  /** The client whose session expired, until a client signs in: the cases of its rules are kept for it. */
  #expiredFor: string | undefined
  #view: Shown | undefined
  #shown = 0
  #timer: ReturnType<typeof setInterval> | undefined
  #main = h('main', { id: 'main', tabindex: '-1' })
  #live = h('p', { role: 'status', class: 'visually-hidden' })
  #wait = h('p', { role: 'alert', class: 'wait', hidden: true })
  #engine = h('p', { role: 'status', class: 'wait calm', hidden: true })
  #engineState: EngineState = 'ready'
  #isUnreachable = false
  #budget = h('span', {})
  // One image for all frames: a new one would be requested again.
  #icon = h('img', { src: beside('icon.svg'), alt: '', width: 24, height: 24 })

  #views: readonly ViewName[]

  constructor(
    private readonly api: Api,
    private readonly isAdmin: boolean,
  ) {
    this.#views = isAdmin ? ADMINISTRATOR : ANALYST
    api.on('expired', () => {
      if (this.#isSignedIn) this.#expire()
    })
    api.on('limited', () => this.#countDown())
    api.on('unreachable', (isUnreachable) => this.#unreachable(isUnreachable))
    api.on('engine', (state) => {
      this.#engineState = state
      this.#showEngine()
    })
    api.on('budget', () => this.#showBudget())
    guardFocus(document.body, this.#main)
    if (!isAdmin) openLinked()
    addEventListener('keydown', (event) => this.#onKey(event))
    addEventListener('hashchange', () => {
      if (!isAdmin) openLinked()
      if (this.#isSignedIn) void this.#show(true)
    })
  }

  /** Shows the page; `isMove` moves the focus to its content. */
  begin(notice?: string, isMove = false): void {
    this.api.language = currentLanguage()
    fill(document.body, ...this.#frame(notice))
    if (this.#isUnreachable) this.#unreachable(true)
    else if (this.api.waitMs > 0) this.#countDown()
    this.#showEngine()
    this.#showBudget()
    if (this.#isSignedIn) void this.#show(isMove)
    else this.#main.querySelector('input')?.focus()
  }

  #frame(notice?: string): HTMLElement[] {
    const language = h(
      'select',
      {
        'aria-label': t.language,
        value: currentLanguage(),
        on: { change: () => void this.#speak(language) },
      },
      Object.entries(LANGUAGES).map(([tag, { name }]) => h('option', { value: tag, lang: tag }, name)),
    )
    const out = h('button', { type: 'button', on: { click: () => this.#signOut() } }, t.signOut)
    const links = this.#views.map((view, at) => {
      const keys = shortcut(at + 1)
      return h('a', { href: `#${view}`, 'data-view': view, 'aria-keyshortcuts': keys.replace('Ctrl', 'Control') }, t.nav[view], h('kbd', { 'aria-hidden': 'true' }, keys))
    })
    if (!this.#isSignedIn) fill(this.#main, signIn(this.api, this.isAdmin, () => this.#enter(), notice))
    return [
      h('a', { class: 'skip', href: '#main', on: { click: (event) => this.#skip(event) } }, t.skip),
      h(
        'header',
        {},
        h('p', { class: 'brand' }, this.#icon, t.title),
        h('div', { class: 'tools' }, language, this.#isSignedIn && out),
      ),
      ...(this.#isSignedIn ? [h('nav', { 'aria-label': t.nav.label }, links)] : []),
      this.#wait,
      this.#engine,
      this.#main,
      ...(this.#isSignedIn ? [h('footer', {}, h('span', {}, this.api.clientId), this.#budget, h('a', { href: beside('licences.txt'), target: '_blank', rel: 'noopener' }, t.licences))] : []),
      this.#live,
    ]
  }

  #enter(): void {
    if (this.#expiredFor !== this.api.clientId) state.dropPeople()
    this.#expiredFor = undefined
    this.#isSignedIn = true
    this.begin(undefined, true)
  }

  /** Ends an expired session. The notice names what is kept for this client only, and what is lost. */
  #expire(): void {
    const cases = state.document.cases.filter(({ isOfPerson }) => isOfPerson).length
    const isFormOpen = document.querySelector('.scenario') !== null
    this.#expiredFor = this.api.clientId
    this.#end([t.signIn.expired, cases > 0 && t.signIn.held(cases), isFormOpen && t.signIn.formLost].filter(Boolean).join(' '))
  }

  #signOut(): void {
    state.dropPeople()
    this.#end()
  }

  #end(notice?: string): void {
    this.#isSignedIn = false
    this.#leave()
    this.api.signOut()
    state.forget()
    forgetPeople(this.api)
    for (const dialog of document.querySelectorAll('dialog')) dialog.close()
    this.#wait.hidden = true
    clearInterval(this.#timer)
    this.begin(notice)
  }

  async #speak(choice: HTMLSelectElement): Promise<void> {
    await setLanguage(choice.value).catch(() => (choice.value = currentLanguage()))
    if (this.api.language === currentLanguage()) return
    state.renew()
    forgetPeople(this.api)
    this.#live.textContent = ''
    this.begin()
    document.querySelector<HTMLElement>('header select')?.focus()
  }

  #showBudget(): void {
    const { budget } = this.api
    this.#budget.textContent = budget ? t.budget(budget.remaining, budget.limit) : ''
  }

  /** Shows that requests wait for an engine, or asks whether they continue. */
  #showEngine(): void {
    const isLate = this.#engineState === 'late'
    const retry = () => {
      this.#main.focus()
      this.api.engine.resume()
    }
    this.#engine.hidden = this.#engineState === 'ready'
    fill(
      this.#engine,
      !this.#engine.hidden && (isLate ? t.engine.late : t.engine.compiling),
      isLate && [' ', h('button', { type: 'button', on: { click: retry } }, t.engine.retry)],
    )
  }

  /** Shows or hides the banner about a server that cannot be reached. */
  #unreachable(isUnreachable: boolean): void {
    this.#isUnreachable = isUnreachable
    clearInterval(this.#timer)
    fill(this.#wait, isUnreachable && t.unreachable)
    this.#wait.hidden = !isUnreachable
    this.#live.textContent = isUnreachable ? '' : t.reachable
  }

  #leave(): void {
    this.#view?.close?.()
    this.#view = undefined
  }

  /** Ctrl+Enter runs the rule; the shortcut of a digit opens the view with this number, and that of 0 focuses the result. */
  #onKey(event: KeyboardEvent): void {
    const act = this.#actOf(event)
    if (!act || !this.#isSignedIn || document.querySelector('dialog[open]')) return
    event.preventDefault()
    act()
  }

  #actOf(event: KeyboardEvent): (() => void) | undefined {
    if (isRunKey(event)) return this.#view?.run
    const digit = shortcutDigit(event)
    if (digit === 0) return () => focusResult(this.#main)
    const view = digit === undefined ? undefined : this.#views[digit - 1]
    return view && (() => this.#go(view))
  }

  #go(view: ViewName): void {
    if (location.hash === `#${view}`) void this.#show(true)
    else location.hash = view
  }

  #skip(event: Event): void {
    // The URL contains the current view, so it is kept.
    event.preventDefault()
    this.#main.focus()
  }

  async #show(isMove: boolean): Promise<void> {
    const [named, ...place] = location.hash.slice(1).split('/')
    const name = this.#views.find((view) => view === named) ?? this.#views[0] ?? 'rule'
    this.#shown += 1
    const turn = this.#shown
    for (const link of document.querySelectorAll('nav a')) {
      if (link.getAttribute('data-view') === name) link.setAttribute('aria-current', 'page')
      else link.removeAttribute('aria-current')
    }
    this.#leave()
    fill(this.#main, h('p', { class: 'hint' }, t.loading))
    try {
      const view = await load[name]()
      if (turn !== this.#shown || !this.#isSignedIn) return
      this.#view = view({
        api: this.api,
        place: decoded(place.join('/')),
        go: (to) => this.#go(to),
        say: (text) => {
          this.#live.textContent = text
        },
      })
      fill(this.#main, this.#view.dom)
      if (isMove) focus(this.#main)
    } catch (error) {
      if (turn !== this.#shown || !this.#isSignedIn) return
      fill(this.#main, h('p', { class: 'problem', role: 'alert' }, sentence(error)))
      if (isMove) focus(this.#main)
    }
  }

  /** Shows the seconds to wait, updated every second; it is announced once. */
  #countDown(): void {
    clearInterval(this.#timer)
    const seconds = h('span', { 'aria-hidden': 'true' })
    const announced = h('span', { class: 'visually-hidden' }, t.wait(Math.ceil(this.api.waitMs / 1000)))
    fill(this.#wait, seconds, announced)
    this.#wait.hidden = false
    const tick = () => {
      const left = Math.ceil(this.api.waitMs / 1000)
      seconds.textContent = t.wait(left)
      if (left > 0) return
      fill(this.#wait)
      this.#wait.hidden = true
      clearInterval(this.#timer)
    }
    tick()
    this.#timer = setInterval(tick, 500)
  }
}

/** Opens the rule of a link; the fragment is then that of the view, so that a reload does not open the rule again. */
function openLinked(): void {
  const rule = linked(location.hash)
  if (!rule) return
  history.replaceState(null, '', '#rule')
  openRule(rule)
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return ''
  }
}

/** A file beside the page's other files, regardless of their location. */
function beside(name: string): string {
  return new URL(`${import.meta.env.DEV ? '/' : './'}${name}`, import.meta.url).href
}
