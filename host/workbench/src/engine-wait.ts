// Requests that wait for an eligibility engine, which the server compiles for some seconds after a start. They continue by
// themselves; after two minutes the user is asked.

import { pause } from './pause'

export type EngineState = 'ready' | 'compiling' | 'late'

/** The longest wait before the user is asked, in milliseconds. */
const ASKED_AFTER_MS = 120_000

export class EngineWait {
  #state: EngineState = 'ready'
  #waiting = 0
  #since = 0
  #resumed = new AbortController()

  constructor(
    private readonly onState: (state: EngineState) => void,
    private readonly askedAfterMs = ASKED_AFTER_MS,
  ) {}

  /** Called when the first response to a request says that the engine is being compiled. */
  enter(): void {
    this.#waiting += 1
    if (this.#state !== 'ready') return
    this.#since = Date.now()
    this.#set('compiling')
  }

  /** Called when such a request has its result, or was cancelled. */
  leave(): void {
    this.#waiting -= 1
    if (this.#waiting === 0) this.#set('ready')
  }

  /** Waits before the request is sent again: the required time, or until the user continues. */
  async pause(ms: number, signal: AbortSignal): Promise<void> {
    if (Date.now() - this.#since <= this.askedAfterMs) return pause(ms, signal)
    this.#set('late')
    const { signal: resumed } = this.#resumed
    await pause(Infinity, AbortSignal.any([signal, resumed])).catch((error: unknown) => {
      if (signal.aborted) throw error
    })
  }

  /** The user continues. */
  resume(): void {
    this.#since = Date.now()
    this.#set('compiling')
    this.#resumed.abort()
    this.#resumed = new AbortController()
  }

  #set(state: EngineState): void {
    if (state === this.#state) return
    this.#state = state
    this.onState(state)
  }
}
