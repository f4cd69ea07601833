//! Parameters of a search: conditions, order and page.

use super::query::Parameters;
use crate::api::error::{ApiError, Problem};
use daftar_domain::calendar::parse_date;
use daftar_domain::code::CodeUri;
use daftar_domain::extension::{EXTENSION, ExtensionFields};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::manifest::ExtensionFieldKind;
use daftar_domain::person_name::{search_phrase, search_words};
use daftar_domain::record::RecordKind;
use daftar_domain::search::instant::InstantCondition;
use daftar_domain::search::order::{Direction, SORT_KEYS_MAX, SortField, SortKey};
use daftar_domain::search::phrase::PhraseField;
use daftar_domain::search::{
    CodedPlace, DateCondition, DateConditions, DateOperator, TextConditions, code_filters, date_filters,
};
use daftar_service::search::{CodeFilter, CommonConditions, Reach};

/// Parameters of every search, in addition to its filters.
pub const ENVELOPE: [&str; 6] = ["_count", "_offset", "_cursor", "_sort", "_last_updated", "_elements"];
/// Suffix of a coded filter that includes the descendants of a code.
const BELOW: &str = ":below";
/// Maximum length of a filter's text, in bytes.
pub const TEXT_BYTES_MAX: usize = 1_000;
/// Maximum number of words in a search, of codes, and of conditions on one date or time.
const CONDITIONS_MAX: usize = 50;

const OPERATORS: [(&str, DateOperator); 6] = [
    ("eq", DateOperator::Equal),
    ("ne", DateOperator::NotEqual),
    ("gt", DateOperator::After),
    ("ge", DateOperator::OnOrAfter),
    ("lt", DateOperator::Before),
    ("le", DateOperator::OnOrBefore),
];

/// A filter by name, with the field of the record that it checks; none if no field permission is required.
pub type NamedFilter = (&'static str, Option<&'static str>);

/// The filters of a kind of record: those that its search reads by name, those on days, on complete texts and by code.
/// The latter three follow from the schema and from the fields of installed modules.
pub struct Filters {
    named: &'static [NamedFilter],
    dates: Vec<&'static str>,
    phrases: Vec<(String, PhraseField)>,
    coded: Vec<(String, CodedPlace)>,
}

impl Filters {
    /// The filters of that kind.
    #[must_use]
    pub fn new(kind: RecordKind, named: &'static [NamedFilter], extension: &ExtensionFields) -> Self {
        let fields = code_filters(kind).into_iter().map(|field| (field.path().to_owned(), CodedPlace::Field(field)));
        let coded = extension.iter().filter(|field| field.kind == ExtensionFieldKind::Coded);
        let added =
            coded.map(|field| (format!("{EXTENSION}.{}", field.path), CodedPlace::Extension(field.path.clone())));
        let phrases = PhraseField::all(kind).map(|field| (field.name(), field)).collect();
        Self { named, dates: date_filters(kind).collect(), phrases, coded: fields.chain(added).collect() }
    }

    /// The names of the parameters.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let single = self.named.iter().map(|(name, _)| *name).chain(self.dates.iter().copied()).map(str::to_owned);
        let single = single.chain(self.phrases.iter().map(|(name, _)| name.clone()));
        single.chain(self.coded.iter().flat_map(|(name, _)| [name.clone(), format!("{name}{BELOW}")])).collect()
    }

    /// The fields of the record that parameters check.
    #[must_use]
    pub fn inspected(&self, parameters: &Parameters) -> Vec<String> {
        parameters.names().filter_map(|name| self.field(name)).collect()
    }

    fn field(&self, name: &str) -> Option<String> {
        if let Some((_, field)) = self.named.iter().find(|(known, _)| *known == name) {
            return field.map(str::to_owned);
        }
        if self.dates.contains(&name) {
            return Some(name.to_owned());
        }
        if let Some((_, phrase)) = self.phrases.iter().find(|(known, _)| known == name) {
            return Some(phrase.field.to_owned());
        }
        let name = name.strip_suffix(BELOW).unwrap_or(name);
        self.coded.iter().find(|(known, _)| known == name).map(|(_, place)| place.field().into_owned())
    }

    /// Reads the conditions that all kinds of subjects have.
    ///
    /// # Errors
    /// 400 naming the parameter.
    pub fn conditions(&self, parameters: &Parameters) -> Result<CommonConditions, ApiError> {
        Ok(CommonConditions {
            identifiers: identifiers(parameters, "identifier")?,
            texts: self.texts(parameters)?,
            dates: self.dates(parameters)?,
            codes: self.codes(parameters)?,
            active: parameters.boolean("active")?,
            last_updated: last_updated(parameters)?,
        })
    }

    fn codes(&self, parameters: &Parameters) -> Result<Vec<CodeFilter>, ApiError> {
        let mut filters = Vec::new();
        for (name, place) in &self.coded {
            for (code, reach) in codes(parameters, name)? {
                filters.push(CodeFilter { place: place.clone(), code, reach });
            }
        }
        limited("codes", filters)
    }

    fn texts(&self, parameters: &Parameters) -> Result<TextConditions, ApiError> {
        let mut wanted = Vec::new();
        for (name, field) in &self.phrases {
            wanted.extend(phrases(parameters, name)?.into_iter().map(|phrase| (*field, phrase)));
        }
        Ok(TextConditions {
            name_words: words(parameters, "name")?,
            address_words: words(parameters, "address")?,
            phrases: wanted,
        })
    }

    fn dates(&self, parameters: &Parameters) -> Result<DateConditions, ApiError> {
        let mut conditions = DateConditions::new();
        for name in &self.dates {
            let of_field = days(parameters, name)?;
            if !of_field.is_empty() {
                conditions.insert(*name, of_field);
            }
        }
        Ok(conditions)
    }
}

/// The codes of a filter, each with its reach.
///
/// # Errors
/// 400 naming the parameter.
pub fn codes(parameters: &Parameters, name: &str) -> Result<Vec<(CodeUri, Reach)>, ApiError> {
    let mut found = Vec::new();
    for (name, reach) in [(name.to_owned(), Reach::Exact), (format!("{name}{BELOW}"), Reach::Below)] {
        for text in parameters.all(&name) {
            let code = CodeUri::parse(text);
            let code = code.map_err(|error| Problem::malformed(format!("`{name}`: {}", error.in_url())))?;
            if !found.contains(&(code.clone(), reach)) {
                found.push((code, reach));
            }
        }
    }
    limited("codes", found)
}

/// The conditions of a search, if they are not too many: each costs time.
fn limited<T>(of: &str, conditions: Vec<T>) -> Result<Vec<T>, ApiError> {
    if conditions.len() <= CONDITIONS_MAX {
        return Ok(conditions);
    }
    Err(Problem::malformed(format!("the search has more than {CONDITIONS_MAX} {of}")).into())
}

/// The identifiers of a filter.
///
/// # Errors
/// 400 naming the parameter.
pub fn identifiers(parameters: &Parameters, name: &str) -> Result<Vec<IdentifierKey>, ApiError> {
    let keys = parameters.all(name).map(|text| {
        IdentifierKey::parse(text).map_err(|error| Problem::malformed(format!("`{name}`: {}", error.in_url())).into())
    });
    keys.collect()
}

/// The words of a filter.
///
/// # Errors
/// 400 if there is none, or more than a search permits.
pub fn words(parameters: &Parameters, name: &str) -> Result<Vec<String>, ApiError> {
    let mut all = Vec::new();
    for text in parameters.all(name) {
        let words = search_words(bounded(name, text)?);
        if words.is_empty() {
            return Err(Problem::malformed(format!("`{name}` contains no word to search for")).into());
        }
        all.extend(words);
        if all.len() > CONDITIONS_MAX {
            return Err(Problem::malformed(format!("`{name}` contains more than {CONDITIONS_MAX} words")).into());
        }
    }
    // A prefix of another word matches wherever that word does, and sorts directly before it.
    all.sort_unstable();
    all.reverse();
    all.dedup_by(|beginning, word| word.starts_with(beginning.as_str()));
    Ok(all)
}

/// The complete texts of a filter, normalized for comparison.
///
/// # Errors
/// 400 if one has no word.
pub fn phrases(parameters: &Parameters, name: &str) -> Result<Vec<String>, ApiError> {
    let mut all = Vec::new();
    for text in parameters.all(name) {
        let phrase = search_phrase(bounded(name, text)?);
        if phrase.is_empty() {
            return Err(Problem::malformed(format!("`{name}` contains no word to search for")).into());
        }
        all.push(phrase);
    }
    Ok(all)
}

fn bounded<'t>(name: &str, text: &'t str) -> Result<&'t str, ApiError> {
    if text.len() <= TEXT_BYTES_MAX {
        return Ok(text);
    }
    Err(Problem::malformed(format!("`{name}` is longer than {TEXT_BYTES_MAX} bytes")).into())
}

/// The conditions of a filter on a day.
///
/// # Errors
/// 400 naming the parameter.
pub fn days(parameters: &Parameters, name: &str) -> Result<Vec<DateCondition>, ApiError> {
    let conditions = parameters.all(name).map(|text| {
        let (operator, day) = compared(text);
        let date = parse_date(day).map_err(|error| {
            Problem::malformed(format!(
                "`{name}` is a date, perhaps after eq, ne, gt, ge, lt or le, such as `ge2000-01-31`: {error}"
            ))
        })?;
        Ok(DateCondition { operator, date })
    });
    limited(&format!("conditions on `{name}`"), conditions.collect::<Result<_, ApiError>>()?)
}

/// The conditions on the time of a record's last write.
///
/// # Errors
/// 400 naming the parameter.
pub fn last_updated(parameters: &Parameters) -> Result<Vec<InstantCondition>, ApiError> {
    let conditions = parameters.all("_last_updated").map(|text| {
        let (operator, at) = compared(text);
        InstantCondition::parse(operator, at).ok_or_else(|| {
            Problem::malformed(
                "`_last_updated` is a date or an instant with its offset from UTC, perhaps after eq, ne, gt, ge, lt or le, such as \
                 `ge2026-01-31` or `gt2026-01-31T12:00:00Z`; in a URL encode + as %2B",
            )
            .into()
        })
    });
    limited("conditions on `_last_updated`", conditions.collect::<Result<_, ApiError>>()?)
}

fn compared(text: &str) -> (DateOperator, &str) {
    let prefixed =
        OPERATORS.iter().find_map(|(prefix, operator)| text.strip_prefix(prefix).map(|rest| (*operator, rest)));
    prefixed.unwrap_or((DateOperator::Equal, text))
}

/// Reads `_sort=name,-birth_date`.
///
/// # Errors
/// 400 naming an unknown sort key, and the sort keys of such records.
pub fn sort(parameters: &Parameters, sortable: &[SortField]) -> Result<Vec<SortKey>, ApiError> {
    let Some(text) = parameters.one("_sort")? else { return Ok(Vec::new()) };
    let mut keys: Vec<SortKey> = Vec::new();
    for part in text.split(',') {
        let (name, direction) = match part.strip_prefix('-') {
            Some(name) => (name, Direction::Descending),
            None => (part, Direction::Ascending),
        };
        let Some(field) = sortable.iter().copied().find(|field| field.name() == name) else {
            let shown: String = name.chars().take(60).filter(|character| !character.is_control()).collect();
            let known: Vec<&str> = sortable.iter().map(|field| field.name()).collect();
            let detail =
                format!("`_sort` names `{shown}`, which is nothing to sort by here; known: {}", known.join(", "));
            return Err(Problem::malformed(detail).into());
        };
        if keys.iter().any(|key| key.field == field) {
            return Err(Problem::malformed(format!("`_sort` names `{name}` twice")).into());
        }
        if keys.len() == SORT_KEYS_MAX {
            return Err(Problem::malformed(format!("`_sort` names more than {SORT_KEYS_MAX} keys")).into());
        }
        keys.push(SortKey { field, direction });
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(query: &str) -> Parameters {
        Parameters::parse(query).unwrap()
    }

    #[test]
    fn reads_every_date_operator() {
        for (text, operator) in [
            ("2000-01-31", DateOperator::Equal),
            ("eq2000-01-31", DateOperator::Equal),
            ("ne2000-01-31", DateOperator::NotEqual),
            ("gt2000-01-31", DateOperator::After),
            ("ge2000-01-31", DateOperator::OnOrAfter),
            ("lt2000-01-31", DateOperator::Before),
            ("le2000-01-31", DateOperator::OnOrBefore),
        ] {
            let conditions = days(&parameters(&format!("birth_date={text}")), "birth_date").unwrap();
            assert_eq!(conditions, [DateCondition { operator, date: parse_date("2000-01-31").unwrap() }]);
            let instants = last_updated(&parameters(&format!("_last_updated={text}"))).unwrap();
            assert_eq!(instants.first().map(|condition| condition.operator), Some(operator));
        }
        for wrong in ["sa2000-01-31", "2000", "ge", "ge 2000-01-31", ""] {
            assert!(days(&parameters(&format!("birth_date={wrong}")), "birth_date").is_err(), "{wrong}");
            assert!(last_updated(&parameters(&format!("_last_updated={wrong}"))).is_err(), "{wrong}");
        }
    }

    #[test]
    fn reads_keys_of_an_order() {
        let sortable = [SortField::Name, SortField::Date("birth_date"), SortField::LastUpdated];
        let keys = sort(&parameters("_sort=-birth_date,name"), &sortable).unwrap();
        assert_eq!(
            keys,
            [
                SortKey { field: SortField::Date("birth_date"), direction: Direction::Descending },
                SortKey { field: SortField::Name, direction: Direction::Ascending },
            ]
        );
        assert!(sort(&parameters("name=x"), &sortable).unwrap().is_empty());
        for wrong in ["", "-", "name,", "name,-name", "--name", "+name", "gender", "Name"] {
            assert!(sort(&parameters(&format!("_sort={wrong}")), &sortable).is_err(), "{wrong}");
        }
    }

    #[test]
    fn bounds_texts_and_words() {
        assert_eq!(words(&parameters("name=ana+an+bo&name=ana+anab"), "name").unwrap(), ["bo", "anab"]);
        let many = |count: usize| parameters(&format!("name={}", "ab%20".repeat(count)));
        assert!(words(&many(CONDITIONS_MAX), "name").is_ok());
        assert!(words(&many(CONDITIONS_MAX + 1), "name").is_err());
        let codes_of = |count: usize| {
            let pairs: Vec<String> = (0..count).map(|number| format!("occupation:below=urn:x%23{number}")).collect();
            codes(&parameters(&pairs.join("&")), "occupation")
        };
        assert_eq!(codes_of(CONDITIONS_MAX).unwrap().len(), CONDITIONS_MAX);
        assert!(codes_of(CONDITIONS_MAX + 1).is_err());
        let same = parameters(&"occupation=urn:x%23a&".repeat(CONDITIONS_MAX + 1));
        assert_eq!(codes(&same, "occupation").unwrap().len(), 1, "the same code is one condition");
        let dates = |count: usize| days(&parameters(&"birth_date=ne2000-01-01&".repeat(count)), "birth_date");
        assert!(dates(CONDITIONS_MAX).is_ok() && dates(CONDITIONS_MAX + 1).is_err());
        let long = |bytes: usize| parameters(&format!("region={}", "x".repeat(bytes)));
        assert!(phrases(&long(TEXT_BYTES_MAX), "region").is_ok());
        assert!(phrases(&long(TEXT_BYTES_MAX + 1), "region").is_err());
        for empty in ["region=", "region=%20", "region=--"] {
            assert!(phrases(&parameters(empty), "region").is_err(), "{empty}");
        }
    }
}
