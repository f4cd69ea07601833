//! The page of settings, from the example configuration: a test of the server compares that file with the settings that
//! it reads.

use std::fmt::Write as _;

use crate::failure::Failure;

const HEAD: &str = "# Settings\n\nThe server reads its settings from a TOML file: `daftar serve --config daftar.toml`. An unknown key or an invalid value prevents the \
                    start, and the message names it. A setting that the file does not contain has its default. This page is written from the \
                    example configuration of the release, `daftar.example.toml`.\n";

/// The page: a list for each section.
pub fn page(example: &str) -> Result<String, Failure> {
    let mut page = HEAD.to_owned();
    let mut comment = Vec::new();
    let mut is_in_table = false;
    for line in example.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix('#') {
            comment.push(text.trim());
        } else if line.is_empty() {
            // A paragraph of its own is about the file.
            if !is_in_table && comment.first().is_some_and(|first| first.starts_with("Every setting")) {
                comment.clear();
            }
        } else if line.starts_with('[') {
            let text = comment.join(" ");
            comment.clear();
            let _ = write!(page, "\n## `{line}`\n\n");
            if !text.is_empty() {
                let _ = write!(page, "{text}\n\n");
            }
            is_in_table = true;
        } else if let Some((key, rest)) = line.split_once('=') {
            let (value, beside) = split_comment(rest);
            let mut text = comment.join(" ");
            comment.clear();
            if !beside.is_empty() {
                text = if text.is_empty() { beside.to_owned() } else { format!("{text} {beside}") };
            }
            let _ = writeln!(page, "- **`{}`** = `{value}`<br>{text}", key.trim());
        } else {
            return Err(Failure::new(format!("the example configuration: `{line}` is no setting, section or comment")));
        }
    }
    Ok(page)
}

/// A value and the comment behind it; a `#` inside of quotation marks begins no comment.
fn split_comment(text: &str) -> (&str, &str) {
    let mut is_quoted = false;
    for (at, character) in text.char_indices() {
        match character {
            '"' => is_quoted = !is_quoted,
            '#' if !is_quoted => {
                let (value, comment) = text.split_at(at);
                return (value.trim(), comment.trim_start_matches('#').trim());
            }
            _ => {}
        }
    }
    (text.trim(), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_section_lists_its_settings() {
        let example = "# Every setting.\n\n# Limits.\n[a.b]\n# The first.\nx = \"#1|2\" # 1 to 3\ny = 5\n";
        let page = page(example).unwrap();
        assert!(page.contains("\n## `[a.b]`\n\nLimits.\n"), "{page}");
        assert!(page.ends_with("\n- **`x`** = `\"#1|2\"`<br>The first. 1 to 3\n- **`y`** = `5`<br>\n"), "{page}");
    }

    #[test]
    fn a_line_that_is_no_setting_is_named() {
        assert!(page("[a]\nnothing\n").unwrap_err().to_string().contains("`nothing`"));
    }
}
