// Keeps the keyboard focus inside the page's content.

/**
 * If the focused element is removed, hidden or disabled, the browser moves the focus to the body, from where a keyboard
 * user starts again at the top. This moves it to the closest remaining ancestor, or to `fallback`.
 */
export function guardFocus(root: HTMLElement, fallback: HTMLElement): void {
  let path: HTMLElement[] = []
  root.addEventListener('focusin', (event) => {
    path = event.composedPath().filter((node): node is HTMLElement => node instanceof HTMLElement)
  })
  const observer = new MutationObserver(() => {
    const [focused] = path
    if (document.activeElement !== root || focused === undefined || isFocusable(focused)) return
    const ancestor = path.slice(1).find((node) => node.isConnected && node !== root && node.matches('section, dialog, main'))
    path = []
    focus(ancestor ?? fallback)
  })
  observer.observe(root, { childList: true, subtree: true, attributes: true, attributeFilter: ['disabled', 'hidden'] })
}

/** Focuses an element that is not a control. */
export function focus(element: HTMLElement): void {
  if (element.tabIndex < 0 && !element.hasAttribute('tabindex')) element.setAttribute('tabindex', '-1')
  element.focus({ preventScroll: element.tagName !== 'MAIN' })
}

function isFocusable(element: HTMLElement): boolean {
  return element.isConnected && !element.matches(':disabled') && element.closest('[hidden]') === null
}
