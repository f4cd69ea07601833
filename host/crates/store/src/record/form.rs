//! Conversion between stored forms and domain values.

use jiff::Timestamp;
use jiff::civil::Date;

use super::instant::{instant, milliseconds};
use super::{StoredForm, Unreadable, decode_as};
use crate::StoreError;
use daftar_domain::calendar::{date_from_days, days_since_epoch};
use daftar_domain::client::{ClientId, ClientName, RateLimit, SecretHash};
use daftar_domain::code::{Code, Namespace};
use daftar_domain::consent::Purpose;
use daftar_domain::identifier::{IdentifierKey, SystemUri};
use daftar_domain::organization::{LegalBasis, Organization};
use daftar_domain::record::VersionId;
use daftar_domain::rule_draft::{DraftStatus, RuleDraftId};
use daftar_domain::subject::Subject;

/// A form in which values of a domain type are stored.
pub(super) trait FormOf<T>: Sized {
    /// Converts a value to the form.
    fn of(value: &T) -> Self;

    /// Converts the form to the value.
    ///
    /// # Errors
    /// If it is no value of that type. The message names `field`, or a field in it.
    fn value(self, field: &str) -> Result<T, Unreadable>;
}

/// Decodes a value of that form.
///
/// # Errors
/// [`StoreError::Corrupt`] if the bytes cannot be read.
pub(super) fn decode<F: StoredForm + FormOf<T>, T>(bytes: &[u8]) -> Result<T, StoreError> {
    decode_as(bytes, |form: F| form.value(F::WHAT))
}

impl<F: FormOf<T>, T> FormOf<Vec<T>> for Vec<F> {
    fn of(values: &Vec<T>) -> Self {
        values.iter().map(F::of).collect()
    }

    fn value(self, field: &str) -> Result<Vec<T>, Unreadable> {
        self.into_iter().map(|form| form.value(field)).collect()
    }
}

impl<F: FormOf<T>, T> FormOf<Option<T>> for Option<F> {
    fn of(value: &Option<T>) -> Self {
        value.as_ref().map(F::of)
    }

    fn value(self, field: &str) -> Result<Option<T>, Unreadable> {
        self.map(|form| form.value(field)).transpose()
    }
}

/// Declares forms by two functions: the form of a value, and the value of a form, if it has one.
macro_rules! converted {
    ($($form:ty as $value:ty: $of:expr, $read:expr;)+) => {$(
        impl $crate::record::form::FormOf<$value> for $form {
            fn of(value: &$value) -> Self {
                let of: fn(&$value) -> Self = $of;
                of(value)
            }

            fn value(self, field: &str) -> Result<$value, $crate::record::Unreadable> {
                let read: fn(Self) -> Option<$value> = $read;
                read(self).ok_or_else(|| $crate::record::Unreadable::field(field))
            }
        }
    )+};
}
pub(super) use converted;

/// Declares a stored form by its fields, and the value of it, whose fields have the names of those in which they are
/// stored.
macro_rules! stored {
    (
        $(#[$about:meta])*
        $visible:vis struct $form:ident {$($(#[$attribute:meta])* $field:ident: $type:ty,)+}
        means $value:ident $fields:tt
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        $visible struct $form {$($(#[$attribute])* $field: $type,)+}

        impl $crate::record::form::FormOf<$value> for $form {
            fn of(value: &$value) -> Self {
                let $value $fields = value;
                Self {$($field: $crate::record::form::FormOf::of($field),)+}
            }

            fn value(self, _: &str) -> Result<$value, $crate::record::Unreadable> {
                $(let $field = self.$field.value(stringify!($field))?;)+
                Ok($value $fields)
            }
        }
    };
}
pub(super) use stored;

converted! {
    bool as bool: Clone::clone, Some;
    u32 as u32: Clone::clone, Some;
    String as String: Clone::clone, Some;
    (String, String) as (String, String): Clone::clone, Some;
    i32 as Date: |date| days_since_epoch(*date), date_from_days;
    i64 as Timestamp: |instant| milliseconds(*instant), |stored| instant(stored).ok();
    u32 as RateLimit: |limit| limit.requests(), |requests| RateLimit::parse(requests).ok();
    u64 as VersionId: |version| version.0, |version| Some(VersionId(version));
    [u8; 16] as RuleDraftId: |id| id.to_bytes(), |bytes| Some(RuleDraftId::from_bytes(bytes));
    [u8; 32] as SecretHash: |hash| hash.0, |bytes| Some(SecretHash(bytes));
    String as ClientId: ToString::to_string, |text| ClientId::parse(&text).ok();
    String as ClientName: ToString::to_string, |text| ClientName::parse(&text).ok();
    String as Code: ToString::to_string, |text| Code::parse(&text).ok();
    String as DraftStatus: |status| status.name().to_owned(), |name| DraftStatus::parse(&name);
    String as IdentifierKey: IdentifierKey::reveal, |text| IdentifierKey::parse(&text).ok();
    String as LegalBasis: |basis| basis.name().to_owned(), |name| LegalBasis::parse(&name);
    String as Namespace: ToString::to_string, |text| Namespace::parse(&text).ok();
    String as Organization: ToString::to_string, |text| Organization::parse(&text).ok();
    String as Purpose: ToString::to_string, |text| Purpose::parse(&text).ok();
    String as Subject: |subject| subject.name().to_owned(), |name| Subject::parse(&name);
    String as SystemUri: ToString::to_string, |text| SystemUri::parse(&text).ok();
}

#[cfg(test)]
mod tests {
    use crate::record::setting::{SettingKind, decode};

    #[test]
    fn a_part_that_domain_types_reject_is_named_and_not_shown() {
        let text = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
        let no_moment = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        let concept = [&text("urn:x")[..], &[0, 1], &text("a secret"), &[0; 8]].concat();
        for (kind, body, reason) in [
            (SettingKind::IdentifierSystem, [&text("secret")[..], &[0]].concat(), "its `uri` is not valid"),
            (
                SettingKind::IdentifierSystem,
                [&text("urn:x")[..], &no_moment].concat(),
                "its `created_at_ms` is not valid",
            ),
            (SettingKind::RetainedConcepts, concept, "its `code` is not valid"),
        ] {
            let error = decode(kind, &[&[1], &body[..]].concat()).unwrap_err().to_string();
            assert!(error.ends_with(reason) && !error.contains("secret"), "{error}");
        }
    }
}
