import assert from 'node:assert/strict'
import test from 'node:test'

import { type Tree, isSame, parse } from './parse'

/** A tree as a nested list. */
function shape(tree: Tree): unknown {
  switch (tree.kind) {
    case 'name':
      return tree.name
    case 'literal':
      return tree.type === 'text' ? `'${tree.value}'` : tree.value
    case 'field':
      return [`.${tree.name}`, shape(tree.of)]
    case 'index':
      return ['[]', shape(tree.of), shape(tree.at)]
    case 'unary':
      return [tree.operator, shape(tree.of)]
    case 'binary':
      return [tree.operator, shape(tree.left), shape(tree.right)]
    case 'chain':
      return [tree.operator, ...tree.parts.map(shape)]
    case 'choice':
      return ['?', shape(tree.when), shape(tree.then), shape(tree.otherwise)]
    case 'call':
      return [`${tree.name}()`, ...(tree.of ? [shape(tree.of)] : []), ...tree.given.map(shape)]
    case 'list':
      return ['list', ...tree.items.map(shape)]
    case 'map':
      return ['map', ...tree.entries.flat().map(shape)]
  }
}

const of = (text: string) => {
  const parsed = parse(text)
  return parsed && shape(parsed.tree)
}

test('operators bind as in CEL', () => {
  assert.deepEqual(of('a || b && c == 1 + 2 * 3'), ['||', 'a', ['&&', 'b', ['==', 'c', ['+', '1', ['*', '2', '3']]]]])
  assert.deepEqual(of('not a == b'), ['==', ['!', 'a'], 'b'])
  assert.deepEqual(of('a and (b and c) or not d'), ['||', ['&&', 'a', 'b', 'c'], ['!', 'd']])
  assert.deepEqual(of('a ? 1 : b ? -2 : - x'), ['?', 'a', '1', ['?', 'b', '-2', ['-', 'x']]])
  assert.deepEqual(of("x.and in [1, 'in']"), ['in', ['.and', 'x'], ['list', '1', "'in'"]])
})

test('members, calls, indexes and maps', () => {
  assert.deepEqual(of("me.?rooms.orValue(0) > m['a'][?1]"), ['>', ['orValue()', ['.rooms', 'me'], '0'], ['[]', ['[]', 'm', "'a'"], '1']])
  assert.deepEqual(of('members.filter(m, f(m),).size()'), ['size()', ['filter()', 'members', 'm', ['f()', 'm']]])
  assert.deepEqual(of("{'a': 1, ?b: 2}[x]"), ['[]', ['map', "'a'", '1', 'b', '2'], 'x'])
})

test('texts have their values, and comments are noticed', () => {
  assert.deepEqual(of(String.raw`'it\'s \u00e9' + r"a\b" + """q"q"""`), ['+', ['+', "'it's é'", String.raw`'a\b'`], "'q\"q'"])
  assert.deepEqual([parse('a // why')?.hasComments, parse("'// not one'")?.hasComments], [true, false])
})

test('an incomplete or malformed text has no tree', () => {
  for (const text of ['', 'a &&', '(a', 'a)', "'open", 'a b', 'f(', 'a ? b', 'x.1', '§', `${'('.repeat(500)}a${')'.repeat(500)}`]) {
    assert.equal(parse(text), undefined, text.slice(0, 20))
  }
})

test('trees are the same without their positions and parentheses', () => {
  const same = (one: string, other: string) => isSame(parse(one)!.tree, parse(other)!.tree)
  assert.ok(same('a&&(b||c)', '(a and\n (b or c))'))
  assert.ok(!same('a && b || c', 'a && (b || c)'))
})
