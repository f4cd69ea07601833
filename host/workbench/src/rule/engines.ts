// The choice of the eligibility engine, where a server has several.

import type { Api } from '../api'
import { field, h } from '../dom'
import { t } from '../i18n'
import { state } from '../state'

interface Metadata {
  modules?: { name: string; kind: string }[]
}

/** The names of the installed engines. */
export async function engineNames(api: Api): Promise<string[]> {
  const { modules = [] } = await api.get<Metadata>('metadata')
  return modules.filter(({ kind }) => kind === 'eligibility-engine').map(({ name }) => name)
}

/** A field for the engine; hidden unless there are several. `onChange` is called after a choice. */
export function engineChoice(api: Api, onChange: () => void): HTMLElement {
  const choice = h('select', {
    on: {
      change: () => {
        state.engine = choice.value
        state.save()
        onChange()
      },
    },
  })
  const whole = field(t.engine.label, choice)
  whole.hidden = true
  void engineNames(api).then(
    (names) => {
      // An engine that was removed is not chosen any more.
      if (!names.includes(state.engine)) state.engine = ''
      choice.replaceChildren(h('option', { value: '' }, t.engine.active), ...names.map((name) => h('option', { value: name }, name)))
      choice.value = state.engine
      whole.hidden = names.length < 2
    },
    () => {},
  )
  return whole
}
