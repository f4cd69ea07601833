// Embeds the example rules as the module `virtual:rules`: the texts of their files by name. They are beside this file
// where `cargo xtask build` builds the page, and in the folder of examples otherwise.

import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

const FOLDERS = ['example-rules', '../../examples/rules']
const NAME = 'virtual:rules'

export function exampleRules() {
  return {
    name: 'example-rules',
    resolveId: (id) => (id === NAME ? `\0${NAME}` : undefined),
    load(id) {
      if (id !== `\0${NAME}`) return undefined
      const folder = FOLDERS.find((path) => existsSync(path))
      if (!folder) throw new Error(`no example rules in ${FOLDERS.join(' or ')}`)
      const files = readdirSync(folder).filter((name) => name.endsWith('.toml')).sort()
      const texts = files.map((name) => [name.slice(0, -'.toml'.length), readFileSync(join(folder, name), 'utf8')])
      return `export default ${JSON.stringify(Object.fromEntries(texts))}`
    },
  }
}
