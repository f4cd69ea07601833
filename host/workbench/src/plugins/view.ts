// The plugins view for administrators: installed plugins, their limits, use and faults; installing and removing.

import { Refusal, sentence } from '../api'
import { fill, h, prose, reveal } from '../dom'
import { number, t } from '../i18n'
import type { Context, View } from '../shell'
import { install } from './install'
import { limits } from './limits'

export interface Plugin {
  name: string
  version: string
  kind: string
  interface: string
  digest: string
  signer: string
  size_bytes: number
  installed_at: string
  licence: string
  attribution: string
  calls: number
  faults: number
  faults_by_kind: { kind: string; count: number }[]
  use: Record<string, { peak?: number; limit?: number; peak_share?: number; base?: number; per_row?: number }>
  breaker: { state: string }
  last_fault: unknown
}

interface Plugins {
  data: Plugin[]
  unloaded: { name: string; reason: string }[]
}

export const plugins: View = (context) => {
  const list = h('nav', { class: 'choices', 'aria-label': t.plugins.heading })
  const unloaded = h('div', {})
  const detail = h('section', { class: 'card detail', 'aria-live': 'polite' }, h('p', { class: 'hint' }, t.plugins.choose))
  const problem = h('p', { class: 'problem', role: 'alert', hidden: true })

  async function read(shown?: string): Promise<void> {
    problem.hidden = true
    try {
      const all = await context.api.read<Plugins>('plugins')
      fill(list, all.data.map((plugin) => choice(plugin)))
      fill(
        unloaded,
        all.unloaded.length > 0 && h('h2', {}, t.plugins.unloaded),
        all.unloaded.map(({ name, reason }) => h('p', { class: 'notice' }, h('strong', {}, name), ' ', prose(reason))),
      )
      const again = all.data.find(({ name }) => name === shown)
      if (again) show(again)
    } catch (error) {
      fill(problem, prose(sentence(error)))
      problem.hidden = false
    }
  }

  function choice(plugin: Plugin): HTMLElement {
    return h(
      'button',
      { type: 'button', 'data-plugin': plugin.name, on: { click: () => show(plugin) } },
      h('span', {}, plugin.name),
      h('small', {}, plugin.faults > 0 ? `${t.plugins.faults}: ${number(plugin.faults)}` : plugin.version),
    )
  }

  function show(plugin: Plugin): void {
    for (const button of list.children) {
      if (button.getAttribute('data-plugin') === plugin.name) button.setAttribute('aria-current', 'true')
      else button.removeAttribute('aria-current')
    }
    const onRemoved = () => {
      context.say(t.plugins.removed(plugin.name))
      fill(detail, h('p', { class: 'good' }, t.plugins.removed(plugin.name)))
      void read()
    }
    fill(detail, describe(plugin), limits(plugin), removal(context, plugin.name, onRemoved))
    reveal(detail)
  }

  const onInstalled = (plugin: Plugin) => {
    context.say(t.plugins.installed(plugin.name))
    void read(plugin.name)
  }
  void read()
  const dom = h(
    'div',
    { class: 'columns side' },
    h(
      'section',
      { class: 'card', 'aria-labelledby': 'plugins' },
      h('h1', { id: 'plugins' }, t.plugins.heading),
      problem,
      list,
      unloaded,
      install(context.api, onInstalled),
    ),
    detail,
  )
  return { dom }
}

function describe(plugin: Plugin): HTMLElement[] {
  const faults = plugin.faults_by_kind.map(({ kind, count }) => `${kind}: ${number(count)}`).join(', ')
  const facts: [string, string][] = [
    [t.plugins.kind, plugin.kind],
    [t.plugins.version, plugin.version],
    [t.plugins.interface, plugin.interface],
    [t.plugins.signer, plugin.signer],
    [t.plugins.installedAt, plugin.installed_at],
    [t.plugins.size, `${number(plugin.size_bytes / 1024)} KiB`],
    [t.plugins.licence, plugin.licence],
    [t.plugins.attribution, plugin.attribution],
    [t.plugins.digest, plugin.digest],
    [t.plugins.calls, number(plugin.calls)],
    [t.plugins.faults, faults || t.plugins.noFaults],
    [t.plugins.lastFault, plugin.last_fault ? JSON.stringify(plugin.last_fault) : ''],
  ]
  return [
    h('h2', {}, plugin.name),
    ...(plugin.breaker.state === 'closed' ? [] : [h('p', { class: 'notice' }, t.plugins.suspended)]),
    h('dl', { class: 'facts' }, facts.filter(([, value]) => value).map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)])),
  ]
}

/** Removes a plugin after a confirmation; if records use its codes, the server reports it, and the removal can be forced. */
function removal({ api }: Context, name: string, onRemoved: () => void): HTMLElement {
  const place = h('div', { class: 'removal' })
  const button = (label: string, onClick: () => void) => h('button', { type: 'button', on: { click: onClick } }, label)
  const begin = () => fill(place, button(t.plugins.remove, ask))
  const ask = () => {
    const keep = button(t.plugins.no, begin)
    fill(place, h('p', {}, t.plugins.confirm(name)), h('div', { class: 'row' }, button(t.plugins.yes, () => void remove(false)), keep))
    keep.focus()
  }
  const remove = async (isForced: boolean) => {
    try {
      await api.remove(`plugins/${encodeURIComponent(name)}${isForced ? '?force=true' : ''}`)
      onRemoved()
    } catch (error) {
      const mayForce = error instanceof Refusal && error.status === 409 && !isForced
      fill(
        place,
        h('p', { class: 'problem', role: 'alert' }, prose(sentence(error))),
        h('div', { class: 'row' }, mayForce && button(t.plugins.force, () => void remove(true)), button(t.plugins.no, begin)),
      )
    }
  }
  begin()
  return place
}
