// Programs with their rules.

import type { Api } from '../api'
import type { Page } from '../codes'
import type { Subject } from '../editor/schema'

export interface ProgramShown {
  reference: string
  name: string
  expression: string
  subject: Subject
  engine: string
}

interface Program {
  identifier: { system: string; value: string }[]
  name?: string
  eligibility?: string
  engine?: string
  target_type?: Subject
}

const PAGE = 100

/** The programs that the client may read, with their present rules; empty without the scope. */
export async function programs(api: Api): Promise<ProgramShown[]> {
  if (!api.may('program:read')) return []
  const { data } = await api.read<Page<Program>>(`Program?_count=${PAGE}`)
  return data.map(({ identifier: [id], name, eligibility = '', engine = '', target_type: subject = 'individual' }) => {
    const reference = id ? `Program/${id.system}|${id.value}` : ''
    return { reference, name: name ?? id?.value ?? '', expression: eligibility, subject, engine }
  })
}
