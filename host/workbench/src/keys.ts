// The shortcuts of the page: Ctrl+Enter, and Alt with a digit, whose place counts because layouts have other signs on it.

/** The digit that is pressed with Alt; undefined for other keys. */
export function altDigit({ altKey, ctrlKey, metaKey, shiftKey, code }: Pick<KeyboardEvent, 'altKey' | 'ctrlKey' | 'metaKey' | 'shiftKey' | 'code'>): number | undefined {
  // Some layouts write signs by Ctrl+Alt, others by AltGr, which is reported as both.
  if (!altKey || ctrlKey || metaKey || shiftKey) return undefined
  const digit = /^Digit(\d)$/.exec(code)?.[1]
  return digit === undefined ? undefined : Number(digit)
}

/** Ctrl+Enter, on a Mac also Command+Enter. */
export function isRunKey({ key, ctrlKey, metaKey }: Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey'>): boolean {
  return key === 'Enter' && (ctrlKey || metaKey)
}

/** Focuses the result of a view; without one, the first part that is in its place. */
export function focusResult(main: HTMLElement): void {
  const all = main.querySelectorAll<HTMLElement>('.result, .detail, .start')
  const result = [...all].find((element) => element.checkVisibility()) ?? main
  if (!result.hasAttribute('tabindex')) result.setAttribute('tabindex', '-1')
  result.focus()
}
