// The sign-in: by client id and secret, through the token endpoint of all clients; on the admin listener with the admin
// token.

import { type Api, Refusal } from './api'
import { field, h } from './dom'
import { t } from './i18n'

export function signIn(api: Api, isAdmin: boolean, onDone: () => void, notice?: string): HTMLElement {
  const id = h('input', { name: 'client_id', autocomplete: 'username', required: true, spellcheck: 'false', autocapitalize: 'off' })
  const secret = h('input', { name: 'client_secret', type: 'password', autocomplete: 'current-password', required: true })
  const submit = h('button', { type: 'submit', class: 'primary' }, t.signIn.submit)
  const problem = h('p', { role: 'alert', class: 'problem' }, notice)
  problem.hidden = notice === undefined

  async function go(): Promise<void> {
    problem.hidden = true
    submit.disabled = true
    submit.textContent = t.signIn.busy
    try {
      if (isAdmin) await api.signInAsAdministrator(secret.value.trim())
      else await api.signIn(id.value.trim(), secret.value)
      secret.value = ''
      onDone()
    } catch (error) {
      problem.textContent = told(error)
      problem.hidden = false
    } finally {
      submit.disabled = false
      submit.textContent = t.signIn.submit
    }
  }

  return h(
    'section',
    { class: 'card sign-in', 'aria-labelledby': 'sign-in' },
    h('h1', { id: 'sign-in' }, t.signIn.heading),
    h('p', {}, isAdmin ? t.signIn.adminLead : t.signIn.lead),
    h(
      'form',
      {
        on: {
          submit: (event) => {
            event.preventDefault()
            void go()
          },
        },
      },
      !isAdmin && field(t.signIn.id, id),
      isAdmin ? field(t.signIn.adminToken, secret, t.signIn.adminTokenHint) : field(t.signIn.secret, secret),
      problem,
      submit,
    ),
    h('p', { class: 'hint' }, t.signIn.memory),
  )
}

function told(error: unknown): string {
  if (!(error instanceof Refusal)) return t.signIn.unreachable
  return error.status === 429 && error.retryAfterS !== undefined ? t.signIn.wait(error.retryAfterS) : error.message
}
