//! Identifiers, codes, namespaces and names of consents, as they are in paths, queries and bodies.

use daftar_domain::code::{CodeUri, Namespace};
use daftar_domain::consent::ConsentId;
use daftar_domain::identifier::{IdentifierKey, SYSTEM_BYTES_MAX, VALUE_BYTES_MAX};
use daftar_domain::search::DateOperator;
use daftar_domain::search::instant::InstantCondition;

/// Maximum length of a message, in bytes.
const MESSAGE_BYTES_MAX: usize = 1_000;

pub fn check(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let bounded = |message: String| {
        assert!(!message.is_empty() && message.len() <= MESSAGE_BYTES_MAX, "{message}");
    };
    match IdentifierKey::parse(text) {
        Ok(key) => {
            assert_eq!(key.reveal(), text, "an identifier is written as it was read");
            assert!(key.system.as_str().len() <= SYSTEM_BYTES_MAX && key.value.as_str().len() <= VALUE_BYTES_MAX);
            assert!(!key.system.as_str().contains('|'), "the first `|` ends the system");
        }
        Err(error) => {
            bounded(error.to_string());
            bounded(error.in_url());
        }
    }
    match CodeUri::parse(text) {
        Ok(uri) => {
            let written = uri.to_string();
            assert_eq!(CodeUri::parse(&written).ok().map(|again| again.to_string()), Some(written));
        }
        Err(error) => bounded(error.to_string()),
    }
    match Namespace::parse(text) {
        Ok(namespace) => assert_eq!(namespace.as_str(), text),
        Err(error) => bounded(error.to_string()),
    }
    match ConsentId::parse(text) {
        Ok(id) => assert_eq!(ConsentId::parse(&id.to_string()).ok(), Some(id)),
        Err(error) => bounded(error.to_string()),
    }
    for operator in [DateOperator::Equal, DateOperator::Before, DateOperator::OnOrAfter] {
        let Some(condition) = InstantCondition::parse(operator, text) else { continue };
        let negated = match operator {
            DateOperator::Equal => DateOperator::NotEqual,
            DateOperator::Before => DateOperator::OnOrAfter,
            _ => DateOperator::Before,
        };
        let negated = InstantCondition::parse(negated, text).expect("every operator takes the same timestamps");
        for at_ms in [i64::MIN, -1, 0, 1, 1_772_000_000_000, i64::MAX] {
            assert_ne!(
                condition.holds(at_ms),
                negated.holds(at_ms),
                "{text}: one of a condition and its negation holds"
            );
        }
    }
}
