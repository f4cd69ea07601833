// The shortcuts of the page: Ctrl+Enter, and Alt with a digit, whose place counts because layouts have other signs on it.
// On a Mac it is Ctrl+Alt with a digit: Alt alone writes signs there, among them `#` and `|`, which rules need.

const IS_APPLE = /^(Mac|iP)/.test(globalThis.navigator?.platform ?? '')

/** The keys of a digit, as the page shows them. */
export function shortcut(digit: number, isApple = IS_APPLE): string {
  return `${isApple ? 'Ctrl+Alt' : 'Alt'}+${digit}`
}

/** The digit of a shortcut; undefined for other keys. */
export function shortcutDigit(
  { altKey, ctrlKey, metaKey, shiftKey, code }: Pick<KeyboardEvent, 'altKey' | 'ctrlKey' | 'metaKey' | 'shiftKey' | 'code'>,
  isApple = IS_APPLE,
): number | undefined {
  // Elsewhere some layouts write signs by Ctrl+Alt, others by AltGr, which is reported as both.
  if (!altKey || ctrlKey !== isApple || metaKey || shiftKey) return undefined
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
