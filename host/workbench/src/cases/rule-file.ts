// Rule files: a rule with its description and test cases, in the TOML of `daftar eval --cases`.

import { TomlError, parse } from 'smol-toml'

import type { Subject } from '../editor/schema'
import { t } from '../i18n'
import { OUTCOMES, type Outcome } from '../rule/preview'

/** The content of a record, as in the body of a create request. */
export type Body = Record<string, unknown>

/** A record with its expected result. */
export interface Case {
  name: string
  record: Body
  outcome: Outcome
  missing?: string[]
  errors?: string[]
}

export interface RuleFile {
  title: string
  about: string
  subject: Subject
  /** The day on which the cases are evaluated. */
  asOf: string
  /** Requirements in addition to the shipped packs, in plain words. */
  needs: string
  expression: string
  cases: Case[]
}

/** The most bytes of a rule file. */
export const FILE_BYTES_MAX = 1 << 20
const MEMBERS = ['title', 'about', 'subject', 'as_of', 'needs', 'expression', 'case']
const CASE_MEMBERS = ['name', 'record', 'outcome', 'missing', 'errors']

/** Reads a rule file; an error names the member that is wrong. */
export function readRuleFile(text: string): RuleFile {
  const content = table(parsed(text), MEMBERS, '')
  const subject = optional(content, 'subject', '') || 'individual'
  if (subject !== 'individual' && subject !== 'group') throw new Error(t.keep.file.oneOf('subject', 'individual, group'))
  const cases = content['case'] ?? []
  if (!Array.isArray(cases)) throw new Error(t.keep.file.wrong('case'))
  return {
    title: required(content, 'title', ''),
    about: required(content, 'about', '').trim(),
    subject,
    asOf: dayOf(required(content, 'as_of', '')),
    needs: optional(content, 'needs', ''),
    expression: required(content, 'expression', '').trim(),
    cases: cases.map((one, at) => readCase(one, `case[${at + 1}]`)),
  }
}

/** A case as the server and rule files write it. */
export function readCase(value: unknown, place: string): Case {
  const content = table(value, CASE_MEMBERS, place)
  const outcome = required(content, 'outcome', place) as Outcome
  if (!OUTCOMES.includes(outcome)) throw new Error(t.keep.file.oneOf(`${place}.outcome`, OUTCOMES.join(', ')))
  const list = (name: 'missing' | 'errors') => {
    const items = content[name] ?? []
    if (!Array.isArray(items) || items.some((item) => typeof item !== 'string')) throw new Error(t.keep.file.wrong(`${place}.${name}`))
    return items.length > 0 ? { [name]: items as string[] } : {}
  }
  const record = content['record']
  if (!isTable(record)) throw new Error(t.keep.file.wrong(`${place}.record`))
  return { name: required(content, 'name', place), record: structuredClone(record), outcome, ...list('missing'), ...list('errors') }
}

function parsed(text: string): unknown {
  try {
    // A bare date has the same text as a quoted one.
    return JSON.parse(JSON.stringify(parse(text)))
  } catch (error) {
    if (error instanceof TomlError) throw new Error(t.keep.file.syntax(error.line, error.column))
    throw error
  }
}

function isTable(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function table(value: unknown, members: string[], place: string): Record<string, unknown> {
  if (!isTable(value)) throw new Error(t.keep.file.wrong(place))
  const unknown = Object.keys(value).find((name) => !members.includes(name))
  if (unknown !== undefined) throw new Error(t.keep.file.unknown(joined(place, unknown), members.join(', ')))
  return value
}

function required(content: Record<string, unknown>, name: string, place: string): string {
  if (content[name] === undefined) throw new Error(t.keep.file.absent(joined(place, name)))
  return optional(content, name, place)
}

function optional(content: Record<string, unknown>, name: string, place: string): string {
  const value = content[name] ?? ''
  if (typeof value !== 'string') throw new Error(t.keep.file.wrong(joined(place, name)))
  return value
}

function joined(place: string, name: string): string {
  return place ? `${place}.${name}` : name
}

function dayOf(text: string): string {
  if (!/^\d{4}-\d\d-\d\d$/.test(text)) throw new Error(t.keep.file.day(text))
  return text
}

/** The text of a rule file. */
export function writeRuleFile(file: RuleFile): string {
  const head = [
    `title = ${basic(file.title)}`,
    `about = """\n${escaped(file.about, true)}\n"""`,
    file.subject === 'group' ? 'subject = "group"' : '',
    `as_of = ${basic(file.asOf)}`,
    file.needs && `needs = ${basic(file.needs)}`,
    `expression = ${literal(file.expression)}`,
  ]
  return `${[head.filter(Boolean).join('\n'), ...file.cases.map(caseText)].join('\n\n')}\n`
}

function caseText({ name, outcome, missing = [], errors = [], record }: Case): string {
  const lines = ['[[case]]', `name = ${basic(name)}`, `outcome = ${basic(outcome)}`]
  if (missing.length > 0) lines.push(`missing = ${inline(missing)}`)
  if (errors.length > 0) lines.push(`errors = ${inline(errors)}`)
  lines.push('', '[case.record]', ...entries(record).map(([name, value]) => `${key(name)} = ${isRows(value) ? rows(value) : inline(value)}`))
  return lines.join('\n')
}

function entries(content: Record<string, unknown>): [string, unknown][] {
  return Object.entries(content).filter(([, value]) => value !== undefined && value !== null)
}

function isRows(value: unknown): value is Record<string, unknown>[] {
  return Array.isArray(value) && value.length > 0 && value.every(isTable)
}

function rows(value: Record<string, unknown>[]): string {
  return `[\n${value.map((row) => `    ${inline(row)},\n`).join('')}]`
}

function inline(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(inline).join(', ')}]`
  if (isTable(value)) {
    const inside = entries(value).map(([name, one]) => `${key(name)} = ${inline(one)}`)
    return inside.length > 0 ? `{ ${inside.join(', ')} }` : '{}'
  }
  return typeof value === 'string' ? basic(value) : String(value)
}

function key(name: string): string {
  return /^[\w-]+$/.test(name) ? name : basic(name)
}

function basic(text: string): string {
  return `"${escaped(text, false)}"`
}

/** A text between quotation marks: TOML has the escapes of JSON, but no unescaped delete character and no lone surrogate. */
function escaped(text: string, isMultiline: boolean): string {
  const valid = text.replaceAll(/[\ud800-\udfff]/gu, '\ufffd')
  const json = JSON.stringify(valid).slice(1, -1).replaceAll('\u007f', '\\u007f')
  return isMultiline ? json.replaceAll(/\\(.)/g, (whole, letter: string) => (letter === 'n' ? '\n' : whole)) : json
}

/** An expression without escapes where that is possible. */
function literal(text: string): string {
  const isPlain = !text.includes("'''") && !/[\u0000-\u0008\u000b-\u001f\u007f]/.test(text)
  return isPlain ? `'''\n${text}\n'''` : `"""\n${escaped(text, true)}\n"""`
}
