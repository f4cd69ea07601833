//! Texts: those of codes, and tests of text pairs.

use super::Truth;
use super::kernels::{known, unknown_of};
use super::lane::{Known, Lane, Values};
use crate::bind::{Bindings, CodeTexts};
use crate::columns::CheckedValues;
use crate::tree::{CodePart, TextTest};
use std::borrow::Cow;

/// The texts of consecutive rows of a column; none for other columns.
pub fn column(values: &CheckedValues, start: usize, rows: usize) -> Option<Vec<&str>> {
    let CheckedValues::Texts { offsets, text } = values else { return None };
    let offsets = offsets.get(start..=start + rows)?;
    let pairs = offsets.iter().zip(offsets.iter().skip(1));
    pairs.map(|(start, end)| text.get(*start as usize..*end as usize)).collect()
}

/// A text of each code. Adjacent rows often have the same code, so the last one is cached.
pub fn of_codes<'a>(codes: &Lane<'_, u32>, part: CodePart, bindings: &'a Bindings, rows: usize) -> Lane<'a, &'a str> {
    let mut last: Option<(u32, Option<&'a CodeTexts>)> = None;
    let mut texts = Vec::with_capacity(rows);
    for row in 0..rows {
        let Some(code) = codes.values.get(row).filter(|_| codes.known.has(row)) else {
            texts.push(None);
            continue;
        };
        let found = match last {
            Some((known, found)) if known == code => found,
            _ => bindings.texts(code),
        };
        last = Some((code, found));
        texts.push(found.map(|texts| texts.part(part)));
    }
    let has_text = Values::Each(texts.iter().map(Option::is_some).collect());
    let known = Known::where_true(&has_text, rows);
    let texts: Vec<&str> = texts.into_iter().map(Option::unwrap_or_default).collect();
    Lane { values: Values::Each(Cow::Owned(texts)), known }
}

/// A test of each pair of texts; none for tests that only the crate supports.
pub fn test(test: TextTest, texts: &Lane<'_, &str>, others: &Lane<'_, &str>, rows: usize) -> Option<Vec<Truth>> {
    let truths = match test {
        TextTest::Contains => texts.values.zip(&others.values, |text, other| known(text.contains(other))),
        TextTest::StartsWith => texts.values.zip(&others.values, |text, other| known(text.starts_with(other))),
        TextTest::EndsWith => texts.values.zip(&others.values, |text, other| known(text.ends_with(other))),
        TextTest::Matches(_) => return None,
    };
    Some(unknown_of(truths, texts, others, rows))
}
