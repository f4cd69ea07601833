// The value that a rule expects at a position: a code of a field, part of one, or a concept group. Only the text around
// the position is read; the server checks the rule.

export type Form =
  /** `code('uri')` */
  | 'code'
  /** A URI within quotation marks. */
  | 'uri'
  /** A code without its namespace within quotation marks. */
  | 'part'
  /** The name of a concept group within quotation marks. */
  | 'group'

export interface Expected {
  form: Form
  /** The path of the field; undefined if the text does not contain it. */
  path: string | undefined
  /** The text that was written so far, and where it begins. */
  written: string
  from: number
}

const PATH = String.raw`([A-Za-z_]\w*(?:\.\w+)*)`
/** The most text before the position that is read. */
const LENGTH_MAX = 2_000

const SET = new RegExp(String.raw`\b(in_group|descends_from)\(\s*${PATH}\s*,\s*(['"])([^'"]*)$`)
const COMPARED = new RegExp(String.raw`${PATH}\s*(?:==|!=)\s*(code\(\s*['"]|['"])?((?<=['"])[^'"]*|[\p{L}\p{N}_]*)$`, 'u')
const LISTED = new RegExp(String.raw`${PATH}\s+in\s+\[(?:[^\[\]]*,)?\s*(code\(\s*['"]|['"])?((?<=['"])[^'"]*|[\p{L}\p{N}_]*)$`, 'u')
const NAMED = /\b(in_group|descends_from|code)\((?:(?:[^()'"]|\([^()]*\))*,)?\s*['"]([^'"]*)$/
const AFTER = new RegExp(String.raw`^[^'"\n]*['"]?\s*\)?\s*(?:==|!=|in)\s*${PATH}`)

export function expected(before: string, after: string): Expected | undefined {
  const cut = Math.max(0, before.length - LENGTH_MAX)
  const text = before.slice(cut)
  const at = (written: string) => before.length - written.length
  const set = SET.exec(text)
  if (set) {
    const written = set[4] ?? ''
    return { form: set[1] === 'in_group' ? 'group' : 'uri', path: set[2], written, from: at(written) }
  }
  const compared = COMPARED.exec(text) ?? LISTED.exec(text)
  if (compared) return ofComparison(compared, at)
  const named = NAMED.exec(text)
  if (!named) return undefined
  const written = named[2] ?? ''
  const path = named[1] === 'code' ? AFTER.exec(after)?.[1] : undefined
  return { form: named[1] === 'in_group' ? 'group' : 'uri', path, written, from: at(written) }
}

function ofComparison(found: RegExpExecArray, at: (written: string) => number): Expected {
  const [, path = '', opening, written = ''] = found
  const part = /\.(code|uri)$/.exec(path)
  if (part) {
    const form = part[1] === 'uri' ? 'uri' : 'part'
    // Without a quotation mark it may be a field, which is completed elsewhere.
    return { form: opening ? form : 'code', path: opening ? path.slice(0, -part[0].length) : path, written, from: at(written) }
  }
  if (opening?.startsWith('code')) return { form: 'uri', path, written, from: at(written) }
  // A quotation mark belongs to the text that the code replaces.
  return { form: 'code', path, written, from: at(written) - (opening?.length ?? 0) }
}
