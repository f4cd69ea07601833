// The page is served at `/workbench` and its files below that, so every address in it is relative to the page's own.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'

import { defineConfig } from 'vite'

// Each file once more, compressed: the server sends whichever form a browser takes.
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

export default defineConfig({
  plugins: [compressed()],
  build: {
    target: 'es2022',
    // `name.digest.extension`: the server lets browsers keep such a file for good.
    rollupOptions: {
      output: {
        entryFileNames: '[name].[hash:8].js',
        chunkFileNames: '[name].[hash:8].js',
        assetFileNames: '[name].[hash:8].[ext]',
        hashCharacters: 'hex',
      },
    },
    assetsDir: '',
    // A picture inside a style is nothing that the page's policy lets a browser show.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  experimental: {
    renderBuiltUrl: (name, { hostType }) => (hostType === 'html' ? `workbench/${name}` : { relative: true }),
  },
  // While one works on the page: `DAFTAR=http://127.0.0.1:8080 npm run dev`
  server: { proxy: { '/api': process.env.DAFTAR ?? 'http://127.0.0.1:8080', '/openapi.json': process.env.DAFTAR ?? 'http://127.0.0.1:8080' } },
})
