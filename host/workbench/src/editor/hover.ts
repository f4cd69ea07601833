// Hover descriptions of the words of a rule.

import type { Extension } from '@codemirror/state'
import { hoverTooltip } from '@codemirror/view'

import { h, prose } from '../dom'
import { t } from '../i18n'
import { fieldText } from '../server/translate'
import { type Schema, type Subject, findField } from './schema'
import { lookUp, says } from './words'

export function hover(schema: () => Schema | undefined, subject: () => Subject): Extension {
  return hoverTooltip((view, position) => {
    const line = view.state.doc.lineAt(position)
    const isPart = (at: number) => /[\w.]/.test(line.text[at - line.from] ?? '')
    let [from, to] = [position, position]
    while (from > line.from && isPart(from - 1)) from -= 1
    while (to < line.to && /\w/.test(line.text[to - line.from] ?? '')) to += 1
    const path = line.text.slice(from - line.from, to - line.from).split('.')
    const word = describe(path, view.state.doc.toString(), schema(), subject())
    if (!word) return null
    const start = to - (path.at(-1)?.length ?? 0)
    return {
      pos: start,
      end: to,
      above: true,
      create: () => ({ dom: h('div', { class: 'description' }, h('strong', {}, word.name), h('p', { dir: 'auto' }, prose(word.says))) }),
    }
  })
}

function describe(path: string[], text: string, schema: Schema | undefined, subject: Subject) {
  const last = path.at(-1) ?? ''
  const field = schema && findField(schema, subject, text, path)
  if (field) return { name: `${field.name}: ${t.kinds[field.type] ?? field.type}`, says: fieldText(path.slice(1), field.vocabularies, field.says) }
  const word = lookUp(last)
  if (!word) return undefined
  // A field may have the name of a helper.
  if (path.length > 1 && word.kind !== 'method') return undefined
  return { name: word.form, says: says(word) }
}
