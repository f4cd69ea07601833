// The views, loaded together because they share the editor.

export { oneCase } from './case/view'
export { compare } from './compare/view'
export { rule } from './rule/view'
export { vocabularies } from './vocabularies/view'
