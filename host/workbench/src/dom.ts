// Creates elements. Texts are inserted as text nodes, never as markup.

export type Child = Node | string | number | null | undefined | false | Child[]

type Listeners = { [K in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[K]) => void }
type Value = string | number | boolean | null | undefined

/** Attributes by their HTML names; `on` contains listeners. Values of `false`, `null` or `undefined` are omitted. */
export interface Attributes {
  on?: Listeners
  [name: string]: Value | Listeners
}

/** The current value of a form element is a property; the attribute is its initial value. */
const PROPERTIES = new Set(['value', 'checked', 'disabled', 'selected', 'open', 'indeterminate'])

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag)
  // A select can show a value only after its options exist.
  append(element, children)
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'on') {
      for (const [event, listener] of Object.entries(value as Listeners)) {
        element.addEventListener(event, listener as EventListener)
      }
    } else if (PROPERTIES.has(name)) {
      if (value !== undefined && value !== null) Reflect.set(element, name, value)
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value === true ? '' : String(value))
    }
  }
  return element
}

export function svg(tag: string, attributes: Record<string, string | number>, ...children: Node[]): SVGElement {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag)
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value))
  element.append(...children)
  return element
}

/** Replaces the children. */
export function fill(element: Element, ...children: Child[]): void {
  element.replaceChildren()
  append(element, children)
}

function append(element: Element, children: Child[]): void {
  for (const child of children.flat(Infinity as 1) as Child[]) {
    if (child === null || child === undefined || child === false) continue
    element.append(child instanceof Node ? child : String(child))
  }
}

/** A sentence of the server; text between backticks is code. */
export function prose(text: string): Child[] {
  return text.split(/`([^`]+)`/).map((part, at) => (at % 2 === 1 ? h('code', {}, part) : part))
}

/** Scrolls new content into view if it is below the window, as on a narrow screen. */
export function reveal(element: HTMLElement): void {
  if (element.getBoundingClientRect().top > innerHeight * 0.75) element.scrollIntoView({ block: 'start' })
}

let last = 0

/** An id that is unique on the page. */
export function freshId(what: string): string {
  last += 1
  return `${what}-${last}`
}

/** A field with its label above it and an optional hint below. */
export function field(label: string, control: HTMLElement, hint?: string): HTMLElement {
  control.id ||= freshId('field')
  const hintElement = hint === undefined ? undefined : h('p', { class: 'hint', id: `${control.id}-hint` }, hint)
  if (hintElement) control.setAttribute('aria-describedby', hintElement.id)
  return h('div', { class: 'field' }, h('label', { for: control.id }, label), control, hintElement)
}
