//! Which fields the records of each kind have, and what their values are.

use super::path::Path;
use daftar_domain::record::RecordKind;
use daftar_domain::vocabulary::CodedField;

/// What the values of a field are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A text.
    Text,
    /// A day.
    Date,
    /// `true` or `false`.
    Boolean,
    /// A number.
    Number,
    /// A code.
    Code,
    /// Codes.
    Codes,
    /// Texts.
    Texts,
    /// A record of that kind, named by its identifier.
    Reference,
    /// People who are members, named by their identifiers.
    Members,
}

const TEXTS: [(&str, Form); 8] = [
    ("address.type", Form::Text),
    ("address.text", Form::Text),
    ("address.line", Form::Texts),
    ("address.city", Form::Text),
    ("address.district", Form::Text),
    ("address.region", Form::Text),
    ("address.postal_code", Form::Text),
    ("address.country", Form::Code),
];
const IDENTIFIER: [(&str, Form); 3] = [
    ("identifier[].value", Form::Text),
    ("identifier[].period.start", Form::Date),
    ("identifier[].period.end", Form::Date),
];
const INDIVIDUAL: [(&str, Form); 17] = [
    ("active", Form::Boolean),
    ("name.family", Form::Text),
    ("name.given", Form::Text),
    ("name.middle", Form::Text),
    ("name.prefix", Form::Text),
    ("name.suffix", Form::Text),
    ("name.text", Form::Text),
    ("birth_date", Form::Date),
    ("birth_date_estimated", Form::Boolean),
    ("deceased_date", Form::Date),
    ("telecom[].value", Form::Text),
    ("telecom[].use", Form::Text),
    ("telecom[].rank", Form::Number),
    ("income.amount", Form::Number),
    ("income.currency", Form::Code),
    ("income.period", Form::Text),
    ("photo", Form::Text),
];
const GROUP: [(&str, Form); 5] = [
    ("active", Form::Boolean),
    ("name", Form::Text),
    ("group_type", Form::Code),
    ("housing_type", Form::Code),
    ("member", Form::Members),
];
const PROGRAM: [(&str, Form); 9] = [
    ("active", Form::Boolean),
    ("name", Form::Text),
    ("description", Form::Text),
    ("program_type", Form::Text),
    ("target_type", Form::Text),
    ("eligibility", Form::Text),
    ("enforce_eligibility", Form::Boolean),
    ("period.start", Form::Date),
    ("period.end", Form::Date),
];
const MEMBERSHIP: [(&str, Form); 7] = [
    ("program", Form::Reference),
    ("beneficiary", Form::Reference),
    ("status", Form::Text),
    ("enrollment_date", Form::Date),
    ("exit_date", Form::Date),
    ("exit_reason", Form::Text),
    ("override.reason", Form::Text),
];
const CONSENT: [(&str, Form); 10] = [
    ("consent_id", Form::Text),
    ("status", Form::Text),
    ("subject", Form::Reference),
    ("grantee", Form::Text),
    ("purpose", Form::Text),
    ("effective_date", Form::Date),
    ("expiry_date", Form::Date),
    ("scopes", Form::Texts),
    ("fields", Form::Texts),
    ("legal_basis", Form::Text),
];

/// Every field of a kind with what its values are.
#[must_use]
pub fn fields(kind: RecordKind) -> Vec<(&'static str, Form)> {
    let mut fields = Vec::new();
    match kind {
        RecordKind::Individual => {
            fields.extend(IDENTIFIER);
            fields.extend(INDIVIDUAL);
            fields.extend(CodedField::individual_singles().map(|field| (field.path(), Form::Code)));
            fields.extend(CodedField::individual_lists().map(|field| (field.path(), Form::Codes)));
            fields.extend(TEXTS);
        }
        RecordKind::Group => {
            fields.extend(IDENTIFIER);
            fields.extend(GROUP);
            fields.extend(TEXTS);
        }
        RecordKind::Program => {
            fields.extend(IDENTIFIER);
            fields.extend(PROGRAM);
        }
        RecordKind::ProgramMembership => {
            fields.extend(IDENTIFIER);
            fields.extend(MEMBERSHIP);
        }
        RecordKind::Consent => fields.extend(CONSENT),
    }
    fields
}

/// What the values of a field are; nothing is known of the fields that modules add, which are texts where nothing else is said.
///
/// # Errors
/// One sentence that names the field, and the nearest that there is.
pub fn form(kind: RecordKind, path: &Path) -> Result<Form, String> {
    let shape = path.shape();
    if shape.starts_with("extension.") {
        return Ok(Form::Text);
    }
    let fields = fields(kind);
    if let Some((_, form)) = fields.iter().find(|(name, _)| *name == shape) {
        return Ok(*form);
    }
    let shown = |name: &str| match name {
        "identifier[].value" => "identifier[SYSTEM]".to_owned(),
        "telecom[].value" => "telecom[phone]".to_owned(),
        other => other.replace("[]", "[…]"),
    };
    let near = nearest(&shape, fields.iter().map(|(name, _)| *name));
    let hint = near.map(|name| format!("; did you mean `{}`?", shown(name))).unwrap_or_default();
    Err(format!("records of type `{kind}` have no field `{}`{hint}", path.as_str()))
}

/// The nearest of some names, if one is near.
#[must_use]
pub fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let distance = |known: &str| {
        // A last part alone is often all that was written.
        let last = known.rsplit('.').next().unwrap_or(known);
        let lower = name.to_lowercase();
        strsim::damerau_levenshtein(&lower, &known.to_lowercase())
            .min(strsim::damerau_levenshtein(&lower, &last.to_lowercase()) + 1)
    };
    let near = known.map(|known| (distance(known), known)).min()?;
    (near.0 <= 3.min(name.chars().count() / 2 + 1)).then_some(near.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_known_by_their_shape_and_others_are_told_with_the_nearest() {
        let form_of = |text: &str| form(RecordKind::Individual, &Path::parse(text).unwrap());
        assert_eq!(form_of("name.given"), Ok(Form::Text));
        assert_eq!(form_of("identifier[urn:x:a]"), Ok(Form::Text));
        assert_eq!(form_of("languages"), Ok(Form::Codes));
        assert_eq!(form_of("address[3].country"), Ok(Form::Code));
        assert_eq!(form_of("extension.farmer.crops"), Ok(Form::Text));
        assert!(form_of("birthdate").unwrap_err().ends_with("did you mean `birth_date`?"));
        assert!(form_of("given").unwrap_err().ends_with("did you mean `name.given`?"));
        assert!(form_of("shoe_size_in_inches").unwrap_err().ends_with("`shoe_size_in_inches`"));
    }
}
