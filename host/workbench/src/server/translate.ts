// The texts of the server in the language of the page: by the stable name of a text and its parameters. In English they
// are as the server sends them.

import type { Diagnostic } from '../api'
import { server } from '../i18n'
import { fields as english } from './en'
import type { ServerTexts } from './texts'

/** The body of a failed request. */
export interface Problem {
  code?: string
  /** The code of the token endpoint. */
  error?: string
  detail?: string
  errors?: { field?: string; code?: string; message?: string }[]
}

/** The name of a problem of which only the status is known. */
const OF_STATUS: Record<number, string> = { 401: 'token_expired', 403: 'missing_scope', 404: 'not_found', 422: 'validation_failed', 429: 'rate_limited', 503: 'overloaded' }
/** The most quoted parts of a detail that are repeated. */
const QUOTED_MAX = 4

/** The sentence of a problem with the values that it names. */
export function problemText(problem: Problem, status: number, statusText = ''): string {
  const fields = status === 422 || status === 400 ? (problem.errors ?? []) : []
  if (!server) {
    const detail = problem.detail ?? problem.error ?? statusText
    const named = fields.map(({ field, message }) => (field ? `${field}: ${message}` : (message ?? '')))
    return [detail, ...named.filter((one) => !detail.includes(one))].join(' · ')
  }
  const texts = server
  const code = problem.code ?? problem.error ?? OF_STATUS[status] ?? ''
  const sentence = texts.problems[code] ?? texts.problems[OF_STATUS[status] ?? ''] ?? filled(texts.problem, [code || String(status)], texts)
  const named = fields.map(({ field, code: of }) => filled(texts.values[of ?? ''] ?? texts.value, [field ?? '?'], texts))
  const quoted = named.length > 0 ? [] : quotedIn(problem.detail ?? '')
  return [sentence, ...named, ...quoted].join(' · ')
}

/** The names in backticks, such as scopes and fields: they are the same in every language. */
function quotedIn(detail: string): string[] {
  const parts = detail.split('`').filter((part, at) => at % 2 === 1 && !/\s/.test(part))
  return [...new Set(parts)].slice(0, QUOTED_MAX).map((part) => `\`${part}\``)
}

/** The sentence of a diagnostic. */
export function diagnosticText({ code, reason, parameters, message }: Diagnostic): string {
  if (!server) return message
  const text = server.diagnostics[reason ?? ''] ?? server.diagnostics[code]
  // A text for the code alone has no parameters.
  return text === undefined ? filled(server.diagnostic, [code], server) : filled(text, parameters ?? [], server)
}

/** The description of a field by its path without the root, with the namespaces of its codes. */
export function fieldText(path: string[], vocabularies: string[], says: string): string {
  if (!server) return says || described(path, english)
  if (vocabularies.length > 0) return filled(server.codeOf, [vocabularies.join(' ')], server)
  return described(path, server.fields)
}

/** The description of a path; of a variable for the items of a list only the last name is known. */
function described(path: string[], fields: Record<string, string>): string {
  const last = path.at(-1) ?? ''
  const below = Object.keys(fields).find((name) => name.endsWith(`.${last}`)) ?? ''
  return fields[path.join('.')] ?? fields[last] ?? fields[below] ?? ''
}

/** The description of a concept group. */
export function groupText(name: string, description: string): string {
  return server ? (server.groups[name] ?? '') : description
}

export function vocabularyName({ namespace, name }: { namespace: string; name: string }): string {
  return server?.vocabularies[namespace] ?? name
}

export function domainName(domain: string): string {
  return server?.domains[domain] ?? domain
}

/** A text with its parameters. */
export function filled(text: string, parameters: string[], texts: ServerTexts): string {
  const at = (index: number) => parameters[index] ?? ''
  return text.replaceAll(/\{(?:(\w+):)?(\d)\}/g, (_, form: string | undefined, digit: string) => {
    const index = Number(digit)
    const value = at(index)
    switch (form) {
      case 'any':
        return value.split(' ').map((one) => `\`${one}\``).join(texts.or)
      case 'range':
        return value === at(index + 1) ? value : `${value}–${at(index + 1)}`
      case 'type':
        return texts.types[value] ?? texts.types['any'] ?? value
      case 'list':
        return texts.lists[value] ?? texts.lists['any'] ?? value
      case 'is':
        return part(value, at(index + 1), at(index + 2), texts)
      default:
        return value
    }
  })
}

/** The description of a part of a rule. */
function part(text: string, type: string, field: string, texts: ServerTexts): string {
  if (type === 'record') return filled(field ? texts.isRecordWith : texts.isRecord, [text, field], texts)
  if (type === 'list') return filled(texts.isList, [text], texts)
  return filled(texts.is, [text, texts.types[type] ?? texts.types['any'] ?? type], texts)
}
