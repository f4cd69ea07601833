// A vocabulary pack in AssemblyScript: three listed classes of flood risk, and codes such as `return:100`, a return
// period in years. `examples/c-plugin/daftar.h` describes the same layouts of the canonical ABI.

const NAMESPACE = 'urn:example:flood-risk'
const CODES: string[] = ['low', 'medium', 'high']
const LABELS: string[] = ['Low flood risk', 'Medium flood risk', 'High flood risk']
const YEARS_MAX: i32 = 10_000

const VOCABULARY_BYTES: usize = 84
const CONCEPT_BYTES: usize = 76
const PAGE_UNKNOWN_NAMESPACE: u8 = 0
const PAGE_INVALID_CURSOR: u8 = 1
const RESOLVE_UNKNOWN_NAMESPACE: u8 = 0
const RESOLVE_MALFORMED: u8 = 2

// An instance lives for one request, so nothing is freed.
function zeros(bytes: usize): usize {
  const at = heap.alloc(bytes)
  memory.fill(at, 0, bytes)
  return at
}

// A string of the interface: an address and a number of bytes of UTF-8.
function putText(at: usize, value: string): void {
  const utf8 = String.UTF8.encode(value)
  store<usize>(at, changetype<usize>(utf8))
  store<i32>(at, utf8.byteLength, 4)
}

function putList(at: usize, items: usize, count: i32): void {
  store<usize>(at, items)
  store<i32>(at, count, 4)
}

function readText(at: usize, bytes: usize): string {
  return String.UTF8.decodeUnsafe(at, bytes)
}

// A concept with one English label, at an address.
function putConcept(at: usize, code: string, label: string, parent: string): void {
  putText(at, code)
  store<u8>(at, 1, 9) // selectable
  if (parent.length > 0) {
    const parents = zeros(8)
    putText(parents, parent)
    putList(at + 12, parents, 1)
  }
  const labels = zeros(16)
  putText(labels, 'en')
  putText(labels + 8, label)
  putList(at + 32, labels, 1)
}

export function describe(): usize {
  const vocabulary = zeros(VOCABULARY_BYTES)
  const texts: string[] = [
    NAMESPACE, 'Flood risk', 'Housing', '1.0.0', 'Written for this example', 'CC0-1.0',
    'The example of a plugin in AssemblyScript', 'en',
  ]
  for (let i = 0; i < texts.length; i += 1) putText(vocabulary + 8 * i, texts[i])
  const languages = zeros(8)
  putText(languages, 'en')
  putList(vocabulary + 64, languages, 1)
  store<u8>(vocabulary, 1, 72) // hierarchical
  store<u8>(vocabulary, 1, 74) // open
  store<u8>(vocabulary, 1, 75) // system
  store<i32>(vocabulary, CODES.length, 80)
  const all = zeros(8)
  putList(all, vocabulary, 1)
  return all
}

export function conceptGroups(): usize {
  return zeros(8)
}

export function concepts(namespaceAt: usize, namespaceBytes: usize, cursor: i32, limit: i32): usize {
  const result = zeros(20)
  if (readText(namespaceAt, namespaceBytes) != NAMESPACE || cursor >= CODES.length) {
    store<u8>(result, 1)
    store<u8>(result, cursor >= CODES.length ? PAGE_INVALID_CURSOR : PAGE_UNKNOWN_NAMESPACE, 4)
    return result
  }
  const count = min(CODES.length - cursor, limit)
  const page = zeros(CONCEPT_BYTES * count)
  for (let i = 0; i < count; i += 1) putConcept(page + CONCEPT_BYTES * i, CODES[cursor + i], LABELS[cursor + i], '')
  putList(result + 4, page, count)
  if (cursor + count < CODES.length) {
    store<u8>(result, 1, 12)
    store<i32>(result, cursor + count, 16)
  }
  return result
}

// `return:` and a number of years without leading zeros; -1 if the code is none.
function yearsOf(code: string): i32 {
  if (!code.startsWith('return:')) return -1
  const digits = code.substring(7)
  if (digits.length == 0 || digits.length > 5 || digits.charCodeAt(0) == 48) return -1
  let years = 0
  for (let i = 0; i < digits.length; i += 1) {
    const digit = digits.charCodeAt(i) - 48
    if (digit < 0 || digit > 9) return -1
    years = 10 * years + digit
  }
  return years > YEARS_MAX ? -1 : years
}

export function resolve(namespaceAt: usize, namespaceBytes: usize, codeAt: usize, codeBytes: usize): usize {
  const result = zeros(80)
  const code = readText(codeAt, codeBytes)
  const years = yearsOf(code)
  if (readText(namespaceAt, namespaceBytes) != NAMESPACE) {
    store<u8>(result, 1)
    store<u8>(result, RESOLVE_UNKNOWN_NAMESPACE, 4)
  } else if (years < 0) {
    store<u8>(result, 1)
    store<u8>(result, RESOLVE_MALFORMED, 4)
    putText(result + 8, 'a flood risk is `return:` and 1 to 10000 years, as `return:100` is')
  } else {
    const parent = years >= 500 ? 'low' : years >= 50 ? 'medium' : 'high'
    putConcept(result + 4, code, `A flood in ${years} years`, parent)
  }
  return result
}

// The memory of arguments.
export function cabi_realloc(old: usize, oldBytes: usize, align: usize, newBytes: usize): usize {
  if (old != 0 || oldBytes != 0 || align > 16) unreachable()
  return heap.alloc(newBytes)
}

// In place of an import of the host that does not exist.
export function abort(message: usize, file: usize, line: u32, column: u32): void {
  unreachable()
}
