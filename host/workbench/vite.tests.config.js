// Bundles the unit tests for Node.js.

import { readdirSync } from 'node:fs'
import { join } from 'node:path'

import { defineConfig } from 'vite'

import { exampleRules } from './example-rules.js'

const below = (folder) =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    return entry.isDirectory() ? below(path) : path.endsWith('.test.ts') ? [path] : []
  })

export default defineConfig({
  plugins: [exampleRules()],
  publicDir: false,
  build: { ssr: true, outDir: 'dist-tests', rollupOptions: { input: Object.fromEntries(below('src').map((path) => [path.replaceAll(/[\\/]/g, '-').replace(/\.ts$/, ''), path])) } },
})
