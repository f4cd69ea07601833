import assert from 'node:assert/strict'
import test from 'node:test'

import { EngineWait } from './engine-wait'

const passed = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

test('after the longest wait all requests continue when the user does', async () => {
  const states: string[] = []
  const wait = new EngineWait((state) => states.push(state), 0)
  const { signal } = new AbortController()
  wait.enter()
  wait.enter()
  await passed(5)
  let ended = 0
  const both = [wait.pause(1, signal), wait.pause(1, signal)].map((one) => one.then(() => (ended += 1)))
  await passed(20)
  assert.deepEqual([ended, states], [0, ['compiling', 'late']])
  wait.resume()
  await Promise.all(both)
  assert.deepEqual(states, ['compiling', 'late', 'compiling'])
  wait.leave()
  assert.equal(states.at(-1), 'compiling', 'another request still waits')
  wait.leave()
  assert.equal(states.at(-1), 'ready')
})

test('a request that is cancelled after the longest wait ends', async () => {
  const wait = new EngineWait(() => {}, 0)
  const stop = new AbortController()
  wait.enter()
  await passed(5)
  const pause = wait.pause(1, stop.signal)
  stop.abort()
  await assert.rejects(pause, { name: 'AbortError' })
})
