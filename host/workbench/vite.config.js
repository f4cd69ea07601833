// The page is served at `/workbench` and its files below that, so all URLs in it are relative.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'

import { defineConfig } from 'vite'

import { exampleRules } from './example-rules.js'

// Each file is also emitted compressed: the server sends the encoding that the browser accepts.
function compressed() {
  let folder
  return {
    name: 'compressed',
    apply: 'build',
    configResolved: (config) => void (folder = config.build.outDir),
    closeBundle() {
      for (const name of readdirSync(folder).filter((name) => !name.endsWith('.gz'))) {
        writeFileSync(join(folder, `${name}.gz`), gzipSync(readFileSync(join(folder, name)), { level: 9 }))
      }
    },
  }
}

// The licences of the bundled third-party code, which require their inclusion.
function licences() {
  return {
    name: 'licences',
    apply: 'build',
    generateBundle() {
      const folders = new Set()
      for (const id of this.getModuleIds()) {
        const folder = /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id.replaceAll('\\', '/'))?.[0]
        if (folder) folders.add(folder.replace(/^\0/, ''))
      }
      const texts = [...folders].sort().map((folder) => {
        const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
        const file = readdirSync(folder).find((name) => /^licen[cs]e/i.test(name))
        if (!file) throw new Error(`${name} has no licence`)
        return `${name} ${version} (${license})\n\n${readFileSync(join(folder, file), 'utf8').trim()}\n`
      })
      this.emitFile({ type: 'asset', fileName: 'licences.txt', source: texts.join(`\n${'-'.repeat(80)}\n\n`) })
    },
  }
}

export default defineConfig({
  plugins: [exampleRules(), licences(), compressed()],
  build: {
    target: 'es2022',
    // `name.digest.extension`: the server lets browsers cache such a file permanently.
    rollupOptions: {
      output: {
        entryFileNames: '[name].[hash:8].js',
        chunkFileNames: '[name].[hash:8].js',
        assetFileNames: '[name].[hash:8].[ext]',
        hashCharacters: 'hex',
      },
    },
    assetsDir: '',
    // Images inside style sheets are blocked by the page's content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  experimental: {
    renderBuiltUrl: (name, { hostType }) => (hostType === 'html' ? `workbench/${name}` : { relative: true }),
  },
  // For development: `DAFTAR=http://127.0.0.1:8080 npm run dev`
  server: { proxy: { '/api': process.env.DAFTAR ?? 'http://127.0.0.1:8080', '/openapi.json': process.env.DAFTAR ?? 'http://127.0.0.1:8080' } },
})
