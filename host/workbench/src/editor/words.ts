// The keywords and helpers of the rule language, with their descriptions. `host/docs/RULES.md` describes the whole
// language.

export interface Word {
  name: string
  /** Its usage, shown to the user. */
  form: string
  kind: 'function' | 'method' | 'root' | 'keyword'
  says: { en: string; fr: string }
  /** The text inserted by completion; the cursor is placed at `|`. */
  inserts: string
}

const word = (kind: Word['kind'], name: string, form: string, inserts: string, en: string, fr: string): Word => ({
  kind,
  name,
  form,
  inserts,
  says: { en, fr },
})

export const WORDS: Word[] = [
  word('root', 'me', 'me', 'me', 'The subject of the rule.', 'Le sujet de la règle.'),
  word('root', 'members', 'members', 'members', 'The active members of the group; of a person, those of its one active household.', 'Les membres actifs du groupe ; pour une personne, ceux de son seul ménage actif.'),
  word('root', 'programs', 'programs', 'programs', 'Memberships in programs, with any status.', 'Inscriptions à des programmes, quel que soit leur état.'),
  word('root', 'as_of', 'as_of', 'as_of', 'The day of the evaluation.', 'Le jour de l’évaluation.'),
  word('function', 'is_female', 'is_female(x)', 'is_female(|)', 'True if a gender is in the concept group feminine_gender. x is a person or the coded value.', 'Si un sexe est dans le groupe feminine_gender. x est une personne ou la valeur codée.'),
  word('function', 'is_male', 'is_male(x)', 'is_male(|)', 'True if a gender is in the concept group masculine_gender.', 'Si un sexe est dans le groupe masculine_gender.'),
  word('function', 'is_head', 'is_head(x)', 'is_head(|)', 'True if a role is in head_of_household.', 'Si un rôle est dans head_of_household.'),
  word('function', 'is_pregnant', 'is_pregnant(x)', 'is_pregnant(|)', 'True if a pregnancy status is in pregnant_eligible.', 'Si un état de grossesse est dans pregnant_eligible.'),
  word('function', 'is_alive', 'is_alive(x)', 'is_alive(|)', 'True if no date of death up to as_of is recorded.', 'S’il n’y a pas de date de décès jusqu’à as_of.'),
  word('function', 'in_group', "in_group(value, 'name')", "in_group(|, '')", 'True if a code is in a concept group.', 'Si un code est dans un groupe de concepts.'),
  word('function', 'descends_from', "descends_from(value, 'uri')", "descends_from(|, '')", 'True if a code is that code or a descendant.', 'Si un code est ce code ou un code en dessous.'),
  word('function', 'code', "code('uri')", "code('|')", 'A code, to compare a coded field with.', 'Un code, à comparer avec un champ codé.'),
  word('function', 'age_years', 'age_years(d)', 'age_years(|)', 'Completed years at as_of.', 'Années révolues à as_of.'),
  word('function', 'days_since', 'days_since(d)', 'days_since(|)', 'Days from a date to as_of.', 'Jours d’une date jusqu’à as_of.'),
  word('function', 'between', 'between(x, lo, hi)', 'between(|, , )', 'True if lo <= x and x <= hi.', 'Si lo <= x et x <= hi.'),
  word('function', 'date', "date('2026-01-31')", "date('|')", 'A date.', 'Une date.'),
  word('function', 'today', 'today()', 'today()', 'The day of the evaluation.', 'Le jour de l’évaluation.'),
  word('function', 'has', 'has(me.birth_date)', 'has(|)', 'True if a fact is recorded; never undetermined.', 'Si un fait est renseigné ; jamais indéterminé.'),
  word('method', 'exists', 'list.exists(m, …)', 'exists(m, |)', 'True if any item matches.', 'Si c’est vrai pour au moins un.'),
  word('method', 'all', 'list.all(m, …)', 'all(m, |)', 'True if all items match.', 'Si c’est vrai pour chacun.'),
  word('method', 'exists_one', 'list.exists_one(m, …)', 'exists_one(m, |)', 'True if exactly one item matches.', 'Si c’est vrai pour exactement un.'),
  word('method', 'filter', 'list.filter(m, …)', 'filter(m, |)', 'The matching items.', 'Les éléments retenus.'),
  word('method', 'map', 'list.map(m, …)', 'map(m, |)', 'The results for all items.', 'Les résultats de tous les éléments.'),
  word('method', 'size', 'list.size()', 'size()', 'The number of items.', 'Le nombre d’éléments.'),
  word('keyword', 'and', 'a and b', 'and ', 'Both are true; same as &&.', 'Les deux sont vrais ; comme &&.'),
  word('keyword', 'or', 'a or b', 'or ', 'At least one is true; same as ||.', 'L’un des deux est vrai ; comme ||.'),
  word('keyword', 'not', 'not a', 'not ', 'It is false; same as !.', 'Ce n’est pas vrai ; comme !.'),
  word('keyword', 'in', 'x in [a, b]', 'in ', 'True if the list contains it.', 'Si une liste le contient.'),
  word('keyword', 'true', 'true', 'true', 'True.', 'Vrai.'),
  word('keyword', 'false', 'false', 'false', 'False.', 'Faux.'),
]

const byName = new Map(WORDS.map((known) => [known.name, known]))

export function lookUp(name: string): Word | undefined {
  return byName.get(name)
}
