//! Language preference of a client.
//!
//! **Invariant:** a language preference is never an error: invalid parts are ignored, and an excessive length is
//! truncated.

/// Maximum length of an `Accept-Language` header that is parsed, in bytes.
pub const ACCEPT_LANGUAGE_BYTES_MAX: usize = 1_000;
/// Maximum number of language ranges in the header.
pub const LANGUAGE_RANGES_MAX: usize = 16;
/// Maximum length of a language tag, in bytes; RFC 5646 requires at least 35.
pub const LANGUAGE_TAG_BYTES_MAX: usize = 35;

/// The requested languages, the most preferred first.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct LanguagePreference {
    ranges: Vec<String>,
}

impl LanguagePreference {
    /// Returns an empty preference: texts are in each vocabulary's default language.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Parses an `Accept-Language` header.
    #[must_use]
    pub fn parse(accept_language: &str) -> Self {
        let cut = accept_language.floor_char_boundary(ACCEPT_LANGUAGE_BYTES_MAX);
        let readable = accept_language.get(..cut).unwrap_or_default();
        let mut weighted: Vec<(u16, String)> =
            readable.split(',').filter_map(weighted_range).filter(|(weight, _)| *weight > 0).collect();
        // The sort is stable: ranges of equal weight remain in the order of the header.
        weighted.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
        weighted.truncate(LANGUAGE_RANGES_MAX);
        Self { ranges: weighted.into_iter().map(|(_, range)| range).collect() }
    }

    /// Returns the requested language ranges in lower case, by preference. Equal ranges get equal responses.
    #[must_use]
    pub fn ranges(&self) -> &[String] {
        &self.ranges
    }

    /// Returns the preference rank of a language, 0 for the first. The rank is equal for all languages that were not
    /// requested.
    pub(super) fn rank(&self, language: &str) -> u8 {
        let is_meant = |range: &String| {
            let mut wanted = Some(range.as_str());
            std::iter::from_fn(|| {
                let tag = wanted?;
                wanted = shorter(tag);
                Some(tag)
            })
            .any(|tag| tag.eq_ignore_ascii_case(language))
        };
        let place = self.ranges.iter().position(is_meant).unwrap_or(self.ranges.len());
        u8::try_from(place).unwrap_or(u8::MAX)
    }

    /// Returns the best of `languages` for the reader. The first one is the default. A language for which `has` returns
    /// false is skipped.
    ///
    /// Each requested language is tried completely and then without its last subtags (`pt-BR`, then `pt`) before the
    /// next one.
    #[must_use]
    pub(super) fn choose(&self, languages: &[String], has: impl Fn(usize) -> bool) -> Choice {
        for range in &self.ranges {
            if range == "*" {
                return Choice { language: 0, is_fallback: false };
            }
            let mut wanted = Some(range.as_str());
            while let Some(tag) = wanted {
                let found = languages.iter().position(|language| language.eq_ignore_ascii_case(tag));
                if let Some(language) = found.filter(|language| has(*language)) {
                    return Choice { language, is_fallback: false };
                }
                wanted = shorter(tag);
            }
        }
        Choice { language: 0, is_fallback: !self.ranges.is_empty() }
    }
}

/// The chosen language, by its position among the available ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    pub language: usize,
    /// True if none of the requested languages is available.
    pub is_fallback: bool,
}

/// Returns true if a text has the form of a language tag.
pub(super) fn is_language_tag(text: &str) -> bool {
    let starts_with_letters =
        text.split('-').next().is_some_and(|first| first.bytes().all(|b| b.is_ascii_alphabetic()));
    text.len() <= LANGUAGE_TAG_BYTES_MAX
        && starts_with_letters
        && text.split('-').all(|part| (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// Returns the tag without its last subtag. A single letter at the end introduced that subtag and is removed too.
fn shorter(tag: &str) -> Option<&str> {
    let (shorter, _) = tag.rsplit_once('-')?;
    match shorter.rsplit_once('-') {
        Some((rest, last)) if last.len() == 1 => Some(rest),
        _ => Some(shorter),
    }
}

/// Parses a range and its weight in thousandths.
fn weighted_range(item: &str) -> Option<(u16, String)> {
    let (range, weight) = match item.split_once(';') {
        None => (item, 1_000),
        Some((range, parameter)) => (range, thousandths(parameter.trim().strip_prefix(['q', 'Q'])?.trim_start())?),
    };
    let range = range.trim();
    (range == "*" || is_language_tag(range)).then(|| (weight, range.to_ascii_lowercase()))
}

/// Parses `=0.5`: one digit, and up to three decimal places.
fn thousandths(text: &str) -> Option<u16> {
    let value = text.strip_prefix('=')?.trim_start();
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    let is_number = whole.len() == 1 && fraction.len() <= 3 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let whole: u16 = if is_number { whole.parse().ok()? } else { return None };
    let fraction: u16 = format!("{fraction:0<3}").parse().ok()?;
    let weight = whole * 1_000 + fraction;
    (weight <= 1_000).then_some(weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(header: &str, languages: &[&str]) -> (usize, bool) {
        let languages: Vec<String> = languages.iter().map(|language| (*language).to_owned()).collect();
        let choice = LanguagePreference::parse(header).choose(&languages, |_| true);
        (choice.language, choice.is_fallback)
    }

    #[test]
    fn orders_by_weight_and_then_by_place() {
        let preference = LanguagePreference::parse("en;q=0.5, fr, de;q=0.5, sw;q=0, ar ; q=0.9");
        assert_eq!(preference.ranges, ["fr", "ar", "en", "de"]);
    }

    #[test]
    fn tries_the_tag_then_its_primary_language_then_the_default() {
        assert_eq!(chosen("pt-BR", &["en", "pt", "pt-br"]), (2, false));
        assert_eq!(chosen("pt-BR", &["en", "pt"]), (1, false));
        assert_eq!(chosen("zh-Hant-x-private", &["en", "zh-Hant"]), (1, false));
        assert_eq!(chosen("pt-BR", &["en", "fr"]), (0, true));
        assert_eq!(chosen("sw, fr;q=0.1", &["en", "fr"]), (1, false));
    }

    #[test]
    fn no_wish_is_not_a_fallback() {
        assert_eq!(chosen("", &["en", "fr"]), (0, false));
        assert_eq!(chosen("*", &["en", "fr"]), (0, false));
        assert_eq!(chosen("sw, *;q=0.1", &["en", "fr"]), (0, false));
    }

    #[test]
    fn skips_unreadable_ranges() {
        let preference =
            LanguagePreference::parse("fr;q=2, de;q=x, ;;, -, f_r, en;level=1, *, sw;q=1.001, ar;q=0.12345");
        assert_eq!(preference.ranges, ["*"]);
        assert_eq!(LanguagePreference::parse("\u{0}é,\n"), LanguagePreference::none());
    }

    #[test]
    fn reads_a_bounded_part_of_a_long_header() {
        let many = "fr,".repeat(LANGUAGE_RANGES_MAX + 5);
        assert_eq!(LanguagePreference::parse(&many).ranges.len(), LANGUAGE_RANGES_MAX);
        let padded = format!("{}fr", " ".repeat(ACCEPT_LANGUAGE_BYTES_MAX));
        assert_eq!(LanguagePreference::parse(&padded), LanguagePreference::none());
        let split_character = format!("{}é", "a".repeat(ACCEPT_LANGUAGE_BYTES_MAX - 1));
        assert_eq!(LanguagePreference::parse(&split_character), LanguagePreference::none());
    }

    #[test]
    fn a_language_without_text_is_passed_over() {
        let languages = ["en".to_owned(), "fr".to_owned()];
        let choice = LanguagePreference::parse("fr").choose(&languages, |language| language == 0);
        assert_eq!(choice, Choice { language: 0, is_fallback: true });
    }
}
