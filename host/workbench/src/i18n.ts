// The language of the page: strings, numbers, and labels of codes.

import { en, type Strings } from './strings/en'
import { fr } from './strings/fr'

export const LANGUAGES: Record<string, { name: string; strings: Strings }> = {
  en: { name: 'English', strings: en },
  fr: { name: 'Français', strings: fr },
}

let language = 'en'
/** The active strings. */
export let t: Strings = en

/** The first of the browser's languages that the page supports. */
export function preferred(): string {
  const wanted = navigator.languages.map((tag) => tag.split('-')[0] ?? '')
  return wanted.find((tag) => tag in LANGUAGES) ?? 'en'
}

export function setLanguage(tag: string): void {
  const known = LANGUAGES[tag]
  if (!known) return
  language = tag
  t = known.strings
  document.documentElement.lang = tag
  document.title = t.title
}

export function currentLanguage(): string {
  return language
}

export function number(value: number, digits = 0): string {
  return new Intl.NumberFormat(language, { maximumFractionDigits: digits }).format(value)
}

export function percent(part: number, whole: number): string {
  if (whole === 0) return '–'
  return new Intl.NumberFormat(language, { style: 'percent', maximumFractionDigits: 1 }).format(part / whole)
}
