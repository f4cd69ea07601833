// The language of the page: strings, direction, numbers, dates and lists.

import type { ServerTexts } from './server/texts'
import { en, type Strings } from './strings/en'

interface Language {
  name: string
  /** Its tag for numbers and dates, if it differs: codes and rules have Latin digits, so the page has them too. */
  format?: string
  isRightToLeft?: boolean
  load: () => Promise<Strings>
  /** Texts of the server; English ones come from the server. */
  server?: () => Promise<ServerTexts>
}

/** Other languages than English are loaded when they are chosen. */
export const LANGUAGES: Record<string, Language> = {
  en: { name: 'English', load: () => Promise.resolve(en) },
  fr: { name: 'Français', load: async () => (await import('./strings/fr')).fr, server: async () => (await import('./server/fr')).server },
  es: { name: 'Español', load: async () => (await import('./strings/es')).es, server: async () => (await import('./server/es')).server },
  pt: { name: 'Português', load: async () => (await import('./strings/pt')).pt, server: async () => (await import('./server/pt')).server },
  ar: {
    name: 'العربية',
    format: 'ar-u-nu-latn',
    isRightToLeft: true,
    load: async () => (await import('./strings/ar')).ar,
    server: async () => (await import('./server/ar')).server,
  },
}

let language = 'en'
/** The active strings. */
export let t: Strings = en
/** The texts of the server in that language; none for English. */
export let server: ServerTexts | undefined

/** The first of the browser's languages that the page supports. */
export function preferred(): string {
  const wanted = navigator.languages.map((tag) => tag.split('-')[0] ?? '')
  return wanted.find((tag) => tag in LANGUAGES) ?? 'en'
}

/** The language that was chosen last. */
let chosen = language

/** Activates a language, unless another one is chosen first; if its strings cannot be loaded the previous one stays. */
export async function setLanguage(tag: string): Promise<void> {
  const known = LANGUAGES[tag]
  if (!known) return
  chosen = tag
  const [strings, ofServer] = await Promise.all([known.load(), known.server?.()])
  if (chosen !== tag) return
  useStrings(tag, strings, ofServer)
  document.documentElement.lang = tag
  document.documentElement.dir = known.isRightToLeft ? 'rtl' : 'ltr'
  document.title = t.title
}

export function useStrings(tag: string, strings: Strings, ofServer?: ServerTexts): void {
  language = tag
  t = strings
  server = ofServer
}

export function currentLanguage(): string {
  return language
}

/** The tag of numbers, dates and lists. */
function format(): string {
  return LANGUAGES[language]?.format ?? language
}

export function number(value: number, digits = 0): string {
  return new Intl.NumberFormat(format(), { maximumFractionDigits: digits }).format(value)
}

export function percent(part: number, whole: number): string {
  if (whole === 0) return '–'
  return new Intl.NumberFormat(format(), { style: 'percent', maximumFractionDigits: 1 }).format(part / whole)
}

/** A day such as `2026-01-31`, written out. */
export function day(date: string): string {
  const parsed = new Date(`${date}T00:00:00Z`)
  if (Number.isNaN(parsed.getTime())) return date
  return new Intl.DateTimeFormat(format(), { dateStyle: 'long', timeZone: 'UTC' }).format(parsed)
}

/** A part of a rule or a number with a sign: it is read from left to right in every language. */
export function leftToRight(text: string): string {
  if (!LANGUAGES[language]?.isRightToLeft) return text
  // Formats of numbers have marks that would reverse a range.
  return `\u2066${text.replaceAll(/[\u200e\u200f\u061c]/g, '')}\u2069`
}

/** The present time, for a printed sheet. */
export function now(): string {
  return new Intl.DateTimeFormat(format(), { dateStyle: 'long', timeStyle: 'short' }).format(new Date())
}

/** The name of a language by its tag. */
export function languageName(tag: string): string {
  try {
    return new Intl.DisplayNames([format()], { type: 'language' }).of(tag) ?? tag
  } catch {
    return tag
  }
}

/** `a, b or c`; each item keeps its own direction. */
export function either(items: string[]): string {
  const isolated = items.map((item) => `\u2068${item}\u2069`)
  return new Intl.ListFormat(language, { type: 'disjunction' }).format(isolated)
}
