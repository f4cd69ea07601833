// A button that starts a long operation, with its progress, a cancel button, and its error.

import { isAbort, sentence } from '../api'
import { fill, h, prose } from '../dom'
import { t } from '../i18n'
import { shortcut } from '../keys'

export type Work = (signal: AbortSignal, onProgress: (done: number, total: number) => void) => Promise<void>

/** The shortest time after which a progress bar is shown, in milliseconds. */
const SHOWN_AFTER_MS = 150

export class Running {
  readonly dom: HTMLElement
  #stop: AbortController | undefined
  #isEnabled = true
  #begin: HTMLButtonElement
  #cancel: HTMLButtonElement
  #bar = h('progress', { max: 1, 'aria-label': t.reach.progressLabel })
  #count = h('span', { class: 'hint' })
  #progress = h('div', { class: 'progress', hidden: true }, this.#bar, this.#count)
  #problem = h('p', { role: 'alert', class: 'problem', hidden: true })

  constructor(
    label: string,
    private readonly work: Work,
  ) {
    this.#begin = h('button', { type: 'button', class: 'primary', 'aria-keyshortcuts': 'Control+Enter', on: { click: () => void this.#run() } }, label)
    this.#cancel = h('button', { type: 'button', hidden: true, on: { click: () => this.cancel() } }, t.reach.cancel)
    const keys = h('span', { class: 'hint keys' }, t.reach.keys(shortcut(0)))
    this.dom = h('div', { class: 'running' }, h('div', { class: 'row' }, this.#begin, this.#cancel, keys), this.#progress, this.#problem)
  }

  enable(isEnabled: boolean): void {
    this.#isEnabled = isEnabled
    this.#begin.disabled = !isEnabled || this.#stop !== undefined
  }

  /** Starts the work, as the button does, unless it runs. */
  run(): void {
    if (this.#isEnabled) void this.#run()
  }

  /** Cancels the work of an earlier request and starts it for the current one. */
  restart(): void {
    this.cancel()
    if (!this.#isEnabled) return
    this.#stop = undefined
    void this.#run()
  }

  cancel(): void {
    this.#stop?.abort()
  }

  /** Called when the view closes: cancels the work. Returns true if it had no result yet. */
  close(): boolean {
    const isRunning = this.#stop?.signal.aborted === false
    this.cancel()
    return isRunning
  }

  async #run(): Promise<void> {
    if (this.#stop) return
    const stop = new AbortController()
    this.#stop = stop
    const isCurrent = () => this.#stop === stop
    this.#problem.hidden = true
    const hadBegun = document.activeElement === this.#begin
    this.#cancel.hidden = false
    if (hadBegun) this.#cancel.focus()
    this.#begin.disabled = true
    this.#bar.removeAttribute('value')
    this.#count.textContent = ''
    const shown = setTimeout(() => (this.#progress.hidden = false), SHOWN_AFTER_MS)
    try {
      await this.work(stop.signal, (done, total) => {
        if (!isCurrent()) return
        this.#bar.max = Math.max(total, 1)
        this.#bar.value = done
        this.#count.textContent = t.reach.progress(done, total)
      })
    } catch (error) {
      if (isCurrent()) {
        fill(this.#problem, prose(isAbort(error) ? t.reach.cancelled : sentence(error)))
        this.#problem.hidden = false
      }
    } finally {
      clearTimeout(shown)
      if (isCurrent()) this.#end()
    }
  }

  #end(): void {
    this.#stop = undefined
    this.#progress.hidden = true
    const hadFocus = document.activeElement === this.#cancel
    this.enable(this.#isEnabled)
    if (hadFocus) this.#begin.focus()
    this.#cancel.hidden = true
  }
}
