// Imports forms into the register: creates individuals, or updates existing ones.
//
//   node job.mjs FORMS.json
//
// Takes the server and the client from DAFTAR_URL, CLIENT_ID and CLIENT_SECRET.

import { readFile } from 'node:fs/promises'
import { Daftar, identifier } from '../clients/daftar-client.mjs'

const NATIONAL_ID = 'urn:svc:vocab:id-type#national_id'
const SEX = { f: 'urn:iso:std:iso:5218#2', m: 'urn:iso:std:iso:5218#1' }
const ATTEMPTS = 5

const { DAFTAR_URL: url, CLIENT_ID: clientId, CLIENT_SECRET: clientSecret } = process.env
let waitedS = 0
const sleep = (seconds) => new Promise((done) => { waitedS += seconds; setTimeout(done, seconds * 1000) })
const daftar = new Daftar({ url, clientId, clientSecret, sleep })

// The fields of a form; missing ones are omitted, so that recorded values are kept.
function personOf(form) {
  const person = {}
  if (form.given || form.family) person.name = { given: form.given, family: form.family }
  if (form.sex) person.gender = SEX[form.sex] ?? `urn:iso:std:iso:5218#${form.sex}`
  if (form.born) person.birth_date = form.born
  if (form.phone) person.telecom = [{ system: 'phone', value: form.phone }]
  return person
}

// Creates or updates an individual, and returns the outcome.
async function upsert(form) {
  const place = `/Individual/${identifier(NATIONAL_ID, form.national_id)}`
  let answer
  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    const known = await daftar.call('GET', place)
    if (known.status === 200) {
      answer = await daftar.call('PATCH', place, personOf(form), { 'if-match': known.headers.get('etag') })
    } else if (known.status === 404) {
      const person = { identifier: [{ system: NATIONAL_ID, value: form.national_id }], ...personOf(form) }
      answer = await daftar.call('POST', '/Individual', person, { 'idempotency-key': form.id })
    } else {
      answer = known
    }
    // Concurrent change: read again.
    if (answer.status !== 409) break
  }
  if (answer.ok) return answer.status === 201 ? 'created' : 'changed'
  const { detail, errors } = await answer.json()
  return `refused: ${errors?.map(({ field, message }) => `${field} ${message}`).join('; ') || detail}`
}

const results = []
for (const form of JSON.parse(await readFile(process.argv[2], 'utf8'))) {
  const result = await upsert(form)
  results.push(result)
  console.log(form.id, result)
}
console.log(`waited ${waitedS} s`)
const refused = results.filter((result) => result.startsWith('refused')).length
console.log(`${results.length - refused} done, ${refused} refused`)
