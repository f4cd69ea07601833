// Warnings that need the codes of vocabularies, which the server's check of an expression does not read: a part of a
// code compared with a text that no code has, and a concept group without any code of the field.

import type { Api, Diagnostic } from '../api'
import { type FoundCode, conceptGroups, groupsOf, nameOf, searchVocabularies } from '../codes'
import { t } from '../i18n'
import { type Schema, type Subject, valueField } from './schema'

const PATH = String.raw`([A-Za-z_]\w*(?:\.\w+)*)`
const TEXT = String.raw`('[^'\n]*'|"[^"\n]*")`
const LEFT = new RegExp(String.raw`${PATH}\.code\s*(?:==|!=)\s*${TEXT}`, 'gd')
const RIGHT = new RegExp(String.raw`${TEXT}\s*(?:==|!=)\s*${PATH}\.code\b`, 'gd')
const GROUP = new RegExp(String.raw`\bin_group\(\s*${PATH}\s*,\s*${TEXT}\s*\)`, 'gd')

/** A path with a text, and the position of the text. */
interface Found {
  path: string
  literal: string
  at: number
}

export async function localWarnings(api: Api, schema: Schema, subject: Subject, text: string): Promise<Diagnostic[]> {
  const warnings: Diagnostic[] = []
  const vocabulariesOf = (path: string) => valueField(schema, subject, text, path)?.vocabularies ?? []
  for (const found of [...matches(text, LEFT, 1, 2), ...matches(text, RIGHT, 2, 1)]) {
    const vocabularies = vocabulariesOf(found.path)
    const code = found.literal.slice(1, -1)
    if (vocabularies.length === 0 || (await hasCode(api, vocabularies, code))) continue
    const warning = at(text, found, t.rule.neverCode(`${found.path}.code`, code))
    const named = code.trim() ? await codeNamed(api, vocabularies, code) : undefined
    warnings.push(named === undefined ? warning : { ...warning, suggestion: named.code, name: named.display })
  }
  const groups = matches(text, GROUP, 1, 2)
  const all = groups.length > 0 ? await conceptGroups(api) : []
  for (const found of groups) {
    const vocabularies = vocabulariesOf(found.path)
    const name = found.literal.slice(1, -1)
    const group = all.find((one) => one.name === name)
    if (!group || group.unset || vocabularies.length === 0 || groupsOf([group], vocabularies).length > 0) continue
    warnings.push(at(text, found, t.rule.neverGroup(found.path, name)))
  }
  return warnings
}

function matches(text: string, pattern: RegExp, path: number, literal: number): Found[] {
  return [...text.matchAll(pattern)].flatMap((found) => {
    const position = found.indices?.[literal]?.[0] ?? 0
    const line = text.lastIndexOf('\n', position - 1) + 1
    // In a comment it is not part of the rule.
    if (text.slice(line, found.index).includes('//')) return []
    return [{ path: found[path] ?? '', literal: found[literal] ?? '', at: position }]
  })
}

async function hasCode(api: Api, vocabularies: string[], code: string): Promise<boolean> {
  for (const namespace of vocabularies) {
    if (code && (await nameOf(api, `${namespace}#${code}`)) !== undefined) return true
  }
  return false
}

/** The code of that name, if there is exactly one. */
async function codeNamed(api: Api, vocabularies: string[], name: string): Promise<FoundCode | undefined> {
  const found = await searchVocabularies(api, vocabularies, name)
  const same = found.filter(({ display }) => display.toLowerCase() === name.trim().toLowerCase())
  return same.length === 1 ? same[0] : undefined
}

function at(text: string, { literal, at }: Found, message: string): Diagnostic {
  const lines = text.slice(0, at).split('\n')
  return {
    severity: 'warning',
    code: 'never_true',
    message,
    line: lines.length,
    column: [...(lines.at(-1) ?? '')].length + 1,
    length: [...literal].length,
  }
}

/** The warnings of the server, and those of the page about other positions. */
export function merged(ofServer: Diagnostic[], ofPage: Diagnostic[]): Diagnostic[] {
  const isKnown = (one: Diagnostic) => ofServer.some((other) => other.line === one.line && other.column === one.column)
  const all = [...ofServer, ...ofPage.filter((one) => !isKnown(one))]
  return all.sort((one, other) => one.line - other.line || one.column - other.column)
}
