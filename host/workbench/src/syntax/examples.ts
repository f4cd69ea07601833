// The example rules of the repository, for tests.

import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

import type { Subject } from '../editor/schema'

/** Beside the copied sources where the page is built, and in the folder of examples otherwise. */
const FOLDERS = ['example-rules', '../../examples/rules']

export interface Example {
  name: string
  subject: Subject
  expression: string
}

export function exampleRules(): Example[] {
  const folder = FOLDERS.find((path) => existsSync(path))
  if (!folder) throw new Error(`no example rules in ${FOLDERS.join(' or ')}`)
  const files = readdirSync(folder).filter((name) => name.endsWith('.toml')).sort()
  return files.map((file) => {
    const text = readFileSync(join(folder, file), 'utf8')
    const expression = /^expression = '''\n([\s\S]*?)\n'''$/m.exec(text)?.[1]
    if (expression === undefined) throw new Error(`${file} has no expression`)
    return { name: file.replace(/\.toml$/, ''), subject: /^subject = "group"$/m.test(text) ? 'group' : 'individual', expression }
  })
}
