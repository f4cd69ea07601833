// The list of a preview as CSV (RFC 4180), built in chunks so that a long one does not block the page.

import type { Decided } from './preview'

/** The number of lines per chunk. */
const LINES_MAX = 5_000

export class Csv {
  #parts: Blob[] = []
  #lines: string[] = ['subject,outcome,missing']

  add({ subject, outcome, missing }: Decided): void {
    this.#lines.push([subject, outcome, missing.join(' ')].map(cell).join(','))
    if (this.#lines.length >= LINES_MAX) this.#pack()
  }

  file(): Blob {
    this.#pack()
    return new Blob(this.#parts, { type: 'text/csv;charset=utf-8' })
  }

  #pack(): void {
    if (this.#lines.length === 0) return
    this.#parts.push(new Blob([this.#lines.join('\r\n'), '\r\n']))
    this.#lines = []
  }
}

/** Quotes a cell if needed; a cell that a spreadsheet would interpret as a formula is converted to text. */
function cell(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

export function save(file: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(file)
  link.download = name
  link.click()
  // The browser has started the download by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}
