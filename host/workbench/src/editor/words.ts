// The keywords and helpers of the rule language. `host/docs/RULES.md` describes the whole language; the strings of the
// page have a description of each.

import { t } from '../i18n'
import type { Strings } from '../strings/en'

export interface Word {
  name: keyof Strings['words']
  /** Its usage, shown to the user. */
  form: string
  kind: 'function' | 'method' | 'root' | 'keyword'
  /** The text inserted by completion; the cursor is placed at each `|` in turn. */
  inserts: string
}

const word = (kind: Word['kind'], name: Word['name'], form: string, inserts: string): Word => ({ kind, name, form, inserts })

export const WORDS: Word[] = [
  word('root', 'me', 'me', 'me'),
  word('root', 'members', 'members', 'members'),
  word('root', 'programs', 'programs', 'programs'),
  word('root', 'as_of', 'as_of', 'as_of'),
  word('function', 'is_female', 'is_female(x)', 'is_female(|)'),
  word('function', 'is_male', 'is_male(x)', 'is_male(|)'),
  word('function', 'is_head', 'is_head(x)', 'is_head(|)'),
  word('function', 'is_pregnant', 'is_pregnant(x)', 'is_pregnant(|)'),
  word('function', 'is_alive', 'is_alive(x)', 'is_alive(|)'),
  word('function', 'in_group', "in_group(value, 'name')", "in_group(|, '|')"),
  word('function', 'descends_from', "descends_from(value, 'uri')", "descends_from(|, '|')"),
  word('function', 'code', "code('uri')", "code('|')"),
  word('function', 'age_years', 'age_years(d)', 'age_years(|)'),
  word('function', 'days_since', 'days_since(d)', 'days_since(|)'),
  word('function', 'between', 'between(x, lo, hi)', 'between(|, |, |)'),
  word('function', 'date', "date('2026-01-31')", "date('|')"),
  word('function', 'today', 'today()', 'today()'),
  word('function', 'has', 'has(me.birth_date)', 'has(|)'),
  word('method', 'exists', 'list.exists(m, …)', 'exists(m, |)'),
  word('method', 'all', 'list.all(m, …)', 'all(m, |)'),
  word('method', 'exists_one', 'list.exists_one(m, …)', 'exists_one(m, |)'),
  word('method', 'filter', 'list.filter(m, …)', 'filter(m, |)'),
  word('method', 'map', 'list.map(m, …)', 'map(m, |)'),
  word('method', 'size', 'list.size()', 'size()'),
  word('keyword', 'and', 'a and b', 'and '),
  word('keyword', 'or', 'a or b', 'or '),
  word('keyword', 'not', 'not a', 'not '),
  word('keyword', 'in', 'x in [a, b]', 'in '),
  word('keyword', 'true', 'true', 'true'),
  word('keyword', 'false', 'false', 'false'),
]

const byName = new Map<string, Word>(WORDS.map((known) => [known.name, known]))

export function lookUp(name: string): Word | undefined {
  return byName.get(name)
}

/** The description of a word in the language of the page. */
export function says(word: Word): string {
  return t.words[word.name]
}
