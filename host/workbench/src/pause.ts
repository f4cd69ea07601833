// A wait that a signal aborts.

/** The longest wait of a timer of the browser. */
const TIMER_MAX_MS = 2 ** 31 - 1

/** Waits, until a signal aborts the wait, or if requested until the browser is online again. */
export function pause(ms: number, signal?: AbortSignal | null, untilOnline = false): Promise<void> {
  if (signal?.aborted) return Promise.reject(new DOMException('', 'AbortError'))
  if (ms <= 0) return Promise.resolve()
  return new Promise((resolve, reject) => {
    const end = (act: () => void) => () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
      if (untilOnline) removeEventListener('online', go)
      act()
    }
    const go = end(resolve)
    const abort = end(() => reject(new DOMException('', 'AbortError')))
    const timer = setTimeout(go, Math.min(ms, TIMER_MAX_MS))
    signal?.addEventListener('abort', abort)
    if (untilOnline) addEventListener('online', go)
  })
}
