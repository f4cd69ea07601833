//! "Did you mean" suggestions: the closest match among some names.

/// The candidate closest to `written`, if it is close enough.
pub fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = plain(written);
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let plain = plain(candidate);
            let edits = strsim::damerau_levenshtein(&wanted, &plain);
            let length = wanted.chars().count().max(plain.chars().count());
            (edits <= (length / 3).clamp(1, 3)).then_some((edits, candidate))
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// Normalizes a name: `birthDate`, `Birth_Date` and `birth_date` are treated as the same.
fn plain(name: &str) -> String {
    name.chars().filter(|character| *character != '_').flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_name_written_in_another_style_or_with_a_slip() {
        let fields = ["birth_date", "gender", "district"];
        assert_eq!(nearest("birthDate", fields), Some("birth_date"));
        assert_eq!(nearest("gendre", fields), Some("gender"));
        assert_eq!(nearest("distirct", fields), Some("district"));
    }

    #[test]
    fn suggests_nothing_where_nothing_is_near() {
        assert_eq!(nearest("salary", ["birth_date", "gender"]), None);
        assert_eq!(nearest("x", ["me", "as_of"]), None);
    }
}
