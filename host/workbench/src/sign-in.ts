// The sign-in: by client id and secret, through the token endpoint of all clients; on the admin listener with the admin
// token.

import { type Api, Refusal, sentence } from './api'
import { field, h } from './dom'
import { t } from './i18n'

export function signIn(api: Api, isAdmin: boolean, onDone: () => void, notice?: string): HTMLElement {
  const id = h('input', { name: 'client_id', autocomplete: 'username', required: true, spellcheck: 'false', autocapitalize: 'off' })
  const secret = h('input', { name: 'client_secret', type: 'password', autocomplete: 'current-password', required: true })
  const submit = h('button', { type: 'submit', class: 'primary' }, t.signIn.submit)
  const problem = h('p', { role: 'alert', class: 'problem' }, notice)
  problem.hidden = notice === undefined

  let isBusy = false
  async function go(): Promise<void> {
    if (isBusy) return
    isBusy = true
    problem.hidden = true
    submit.setAttribute('aria-disabled', 'true')
    submit.textContent = t.signIn.busy
    try {
      await attempt()
      secret.value = ''
      onDone()
    } catch (error) {
      problem.textContent = sentence(error)
      problem.hidden = false
    } finally {
      isBusy = false
      submit.removeAttribute('aria-disabled')
      submit.textContent = t.signIn.submit
    }
  }

  /** Signs in; after too many attempts it waits as long as the server requires. */
  async function attempt(): Promise<void> {
    for (;;) {
      try {
        return await (isAdmin ? api.signInAsAdministrator(secret.value.trim()) : api.signIn(id.value.trim(), secret.value))
      } catch (error) {
        if (!(error instanceof Refusal) || error.status !== 429 || error.retryAfterS === undefined) throw error
        problem.textContent = t.signIn.wait(error.retryAfterS)
        problem.hidden = false
        await new Promise((resolve) => setTimeout(resolve, (error.retryAfterS ?? 1) * 1000))
        problem.hidden = true
      }
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
