//! Which of our codes stands for which of OpenSPP's.

use std::collections::BTreeMap;

use serde_json::Value;

/// The table: theirs, a tab, ours. `#*` stands for every code of a vocabulary that has no line of its own; nothing on the right leaves
/// the code out, and that is told. `groupType` is their list of kinds of groups, which has no address.
pub const TABLE: &str = include_str!("codes.tsv");

/// The table, with what the command adds.
#[derive(Debug)]
pub struct Codes {
    rows: BTreeMap<String, String>,
}

impl Codes {
    /// The table with further lines `THEIRS=OURS`, which go before its own.
    ///
    /// # Errors
    /// When a line is no such pair.
    pub fn with(more: &[String]) -> Result<Self, String> {
        let shipped = TABLE.lines().filter_map(|line| line.split_once('\t'));
        let mut rows: BTreeMap<String, String> =
            shipped.map(|(theirs, ours)| (theirs.to_owned(), ours.to_owned())).collect();
        for line in more {
            let pair = line.split_once('=').map(|(theirs, ours)| (theirs.trim(), ours.trim()));
            let is_code =
                |text: &str| text.split_once('#').is_some_and(|(system, code)| !system.is_empty() && !code.is_empty());
            let Some((theirs, ours)) =
                pair.filter(|(theirs, ours)| is_code(theirs) && (ours.is_empty() || is_code(ours)))
            else {
                return Err(format!(
                    "`--code {line}` is no pair of codes: write `THEIRS=OURS`, both `SYSTEM#CODE`, or `THEIRS=` to leave it out"
                ));
            };
            rows.insert(theirs.to_owned(), ours.to_owned());
        }
        Ok(Self { rows })
    }

    /// Our code; `None` where the table leaves it out. A code of a vocabulary that the table does not name stays as it is.
    pub fn of(&self, theirs: &str) -> Option<String> {
        let (system, code) = theirs.split_once('#').unwrap_or((theirs, ""));
        let row = self.rows.get(theirs).or_else(|| self.rows.get(&format!("{system}#*")));
        match row.map(String::as_str) {
            None => Some(theirs.to_owned()),
            Some("") => None,
            Some(ours) => {
                Some(ours.strip_suffix('*').map_or_else(|| ours.to_owned(), |prefix| format!("{prefix}{code}")))
            }
        }
    }

    /// The system of an identifier: always something, since a record without it would be another.
    pub fn system(&self, theirs: &str) -> String {
        self.of(theirs).unwrap_or_else(|| theirs.to_owned())
    }

    /// The address of a coding, `{system, code}`.
    pub fn uri_of(coding: &Value) -> Option<String> {
        let text = |name: &str| coding.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        Some(format!("{}#{}", text("system")?, text("code")?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_its_own_goes_before_that_of_the_vocabulary() {
        let codes = Codes::with(&[]).unwrap();
        let of = |theirs: &str| codes.of(theirs);
        assert_eq!(of("urn:openspp:vocab:id-type#tax_id").as_deref(), Some("urn:svc:vocab:id-type#tax_id"));
        assert_eq!(
            of("urn:openspp:vocab:group-membership-type#head").as_deref(),
            Some("urn:svc:vocab:relationship#head")
        );
        assert_eq!(of("urn:openspp:vocab:group-membership-type#tenant"), None);
        assert_eq!(of("urn:iso:std:iso:5218#2").as_deref(), Some("urn:iso:std:iso:5218#2"));
        assert_eq!(codes.system("urn:gov:ph:psa:national-id"), "urn:gov:ph:psa:national-id");
    }

    #[test]
    fn what_the_command_says_goes_before_the_table() {
        let more =
            ["urn:openspp:vocab:group-membership-type#tenant=urn:svc:vocab:relationship#non_relative", "urn:x#a="];
        let codes = Codes::with(&more.map(str::to_owned)).unwrap();
        let tenant = codes.of("urn:openspp:vocab:group-membership-type#tenant");
        assert_eq!(tenant.as_deref(), Some("urn:svc:vocab:relationship#non_relative"));
        assert_eq!(codes.of("urn:x#a"), None);
        for wrong in ["urn:x#a", "=urn:y#b", "urn:x=urn:y#b", "urn:x#a=urn:y"] {
            assert!(Codes::with(&[wrong.to_owned()]).unwrap_err().contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn every_line_of_the_table_is_a_pair() {
        for line in TABLE.lines() {
            let (theirs, ours) = line.split_once('\t').unwrap();
            assert!(theirs.contains('#') && (ours.is_empty() || ours.contains('#')), "{line}");
            assert!(!ours.ends_with('*') || theirs.ends_with('*'), "{line}");
        }
    }
}
