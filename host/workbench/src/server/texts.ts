// Texts of the server in another language than English, by stable names: the codes of problems, the reasons of
// diagnostics, the paths of fields. A language without a text for a name has a general one, never the English text.
//
// Places in a text, by the number of their first parameter: `{0}` the parameter, `{any:0}` alternatives, `{range:0}` a
// count from one to another, `{type:0}` a type, `{list:0}` a list of such values, `{is:0}` a description of a part: its
// text, its type and a field of it.

export interface ServerTexts {
  /** Problems of requests, by code. */
  problems: Record<string, string>
  /** A problem without a text of its own: its code. */
  problem: string
  /** Problems of single values of a request, by code; `{0}` is the field. */
  values: Record<string, string>
  /** A value without a text of its own. */
  value: string
  /** Diagnostics of rules, by reason or by code. */
  diagnostics: Record<string, string>
  /** A diagnostic without a text of its own: its code. */
  diagnostic: string
  types: Record<string, string>
  lists: Record<string, string>
  /** Between alternatives. */
  or: string
  /** Descriptions of a part: a record, a record with a field, a list, any other value. */
  isRecord: string
  isRecordWith: string
  isList: string
  is: string
  /** The description of a field: its path without the root. */
  fields: Record<string, string>
  codeOf: string
  /** Descriptions of concept groups, by name. */
  groups: Record<string, string>
  /** Names of vocabularies, by namespace, and of their domains. */
  vocabularies: Record<string, string>
  domains: Record<string, string>
}
