// Installs a plugin, after a report of the effects.

import { type Api, sentence } from '../api'
import { field, fill, h, prose } from '../dom'
import { t } from '../i18n'
import type { Plugin } from './view'

interface Report {
  plugin: string
  from: string | null
  to: string
  vocabularies: { namespace: string; codes_added: number; removed_codes: number; records_touched: number }[]
}

export function install(api: Api, onInstalled: (plugin: Plugin) => void): HTMLElement {
  const result = h('div', { 'aria-live': 'polite' })
  const component = h('input', { type: 'file', accept: '.wasm', on: { change: () => enable(component.files?.length === 1) } })
  const signature = h('input', { type: 'file', accept: '.sig' })
  const isUnsigned = h('input', { type: 'checkbox' })
  const look = h('button', { type: 'button', disabled: true, on: { click: () => void go(report) } }, t.plugins.report)
  const put = h('button', { type: 'button', class: 'primary', disabled: true, on: { click: () => void go(send) } }, t.plugins.doInstall)

  function enable(isReady: boolean): void {
    look.disabled = !isReady
    put.disabled = !isReady
  }

  async function go(what: (file: File, headers: Record<string, string>) => Promise<void>): Promise<void> {
    const file = component.files?.[0]
    if (!file) return
    enable(false)
    try {
      const line = (await signature.files?.[0]?.text())?.trim()
      await what(file, line ? { 'Daftar-Plugin-Signature': line } : {})
    } catch (error) {
      fill(result, h('p', { class: 'problem', role: 'alert' }, prose(sentence(error))))
    } finally {
      enable(true)
    }
  }

  async function report(file: File, headers: Record<string, string>): Promise<void> {
    const effects = await api.upload<Report>('plugin-reports', file, headers)
    const line = (one: Report['vocabularies'][number]) => {
      const changes = [t.plugins.added(one.codes_added), t.plugins.gone(one.removed_codes), t.plugins.touched(one.records_touched)]
      return h('li', {}, h('code', {}, one.namespace), ` ${changes.join(', ')}`)
    }
    fill(
      result,
      h('p', {}, h('strong', {}, effects.plugin), ` ${t.plugins.from(effects.from, effects.to)}`),
      effects.vocabularies.length > 0 ? h('ul', {}, effects.vocabularies.map(line)) : h('p', { class: 'hint' }, t.plugins.noCodes),
    )
  }

  async function send(file: File, headers: Record<string, string>): Promise<void> {
    const plugin = await api.upload<Plugin>(`plugins${isUnsigned.checked ? '?allow_unsigned=true' : ''}`, file, headers)
    fill(result, h('p', { class: 'good' }, t.plugins.installed(plugin.name)))
    onInstalled(plugin)
  }

  return h(
    'details',
    { class: 'install' },
    h('summary', {}, t.plugins.install),
    field(t.plugins.file, component),
    field(t.plugins.signature, signature),
    h('label', { class: 'check' }, isUnsigned, t.plugins.unsigned),
    h('div', { class: 'row' }, look, put),
    result,
  )
}
