//! What was probably meant by a name that nobody knows.
//!
//! **Invariant:** a body may hold very many unknown names: a name is compared with the known ones only where the answer tells it.

/// How much of an unknown name is repeated, in characters.
const SHOWN_CHARACTERS: usize = 60;

/// An unknown name as an answer repeats it.
pub fn shown(name: &str) -> String {
    name.chars().filter(|one| !one.is_control()).take(SHOWN_CHARACTERS).collect()
}

/// The known name that is the fewest edits away, of those that are at most `edits_max` away; of several the first in order.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>, edits_max: usize) -> Option<&'a str> {
    #[cfg(test)]
    searches::count();
    let distances = known.into_iter().map(|known| (strsim::osa_distance(name, known), known));
    distances.min().filter(|(edits, _)| *edits <= edits_max).map(|(_, known)| known)
}

/// How often names were compared on this thread.
#[cfg(test)]
pub mod searches {
    use std::cell::Cell;

    thread_local! {
        static MADE: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn count() {
        MADE.set(MADE.get() + 1);
    }

    /// How many searches something makes.
    pub fn made_by(something: impl FnOnce()) -> usize {
        let before = MADE.get();
        something();
        MADE.get() - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_meant_unless_it_is_far() {
        let known = ["gender", "name", "names"];
        for (typed, meant) in [
            ("gendre", Some("gender")),
            ("nam", Some("name")),
            ("nmaes", Some("names")),
            ("gende rs", Some("gender")),
            ("district", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, known, 2), meant, "{typed}");
        }
        assert_eq!(nearest("name", [], 2), None);
    }

    #[test]
    fn a_long_name_is_repeated_in_part_and_without_what_cannot_be_shown() {
        assert_eq!(shown("a\u{7}b"), "ab");
        assert_eq!(shown(&format!("\n{}", "x".repeat(61))), "x".repeat(60));
    }
}
