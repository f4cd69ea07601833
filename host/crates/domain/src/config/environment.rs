//! Settings in environment variables: `DAFTAR_SERVER__LISTEN` is `listen` of `[server]`. They override the
//! configuration file.

use toml::{Table, Value};

const PREFIX: &str = "DAFTAR_";
/// Separates the sections and the key of a setting. Other variables of the program do not contain it.
const SEPARATOR: &str = "__";

/// The variables of this process that are settings.
pub(super) fn variables() -> Vec<(String, String)> {
    let texts =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    texts.filter(|(name, _)| name.strip_prefix(PREFIX).is_some_and(|path| path.contains(SEPARATOR))).collect()
}

/// Sets the settings of variables in a table. Returns one problem for each variable that names a setting as a section.
pub(super) fn apply(table: &mut Table, variables: Vec<(String, String)>) -> Vec<String> {
    let set = |(name, text): (String, String)| {
        let path = name.strip_prefix(PREFIX)?.to_lowercase();
        let mut sections: Vec<&str> = path.split(SEPARATOR).collect();
        let key = sections.pop()?.to_owned();
        let mut section = &mut *table;
        for part in sections {
            let inner = section.entry(part).or_insert_with(|| Value::Table(Table::new()));
            let Value::Table(inner) = inner else {
                return Some(format!("the environment variable `{name}`: `{part}` is a setting, not a section"));
            };
            section = inner;
        }
        section.insert(key, value(&text));
        None
    };
    variables.into_iter().filter_map(set).collect()
}

/// A number, a truth value, a list or a text in quotation marks as in TOML; else the text itself.
fn value(text: &str) -> Value {
    let parsed: Option<Table> = format!("x = {text}").parse().ok();
    let parsed = parsed.filter(|table| table.len() == 1).and_then(|mut table| table.remove("x"));
    parsed.filter(|value| !value.is_datetime() && !value.is_table()).unwrap_or_else(|| Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_sets_one_setting() {
        let mut table: Table = "[server]\nlisten = \"127.0.0.1:1\"\n[log]\nlevel = \"warn\"\n".parse().unwrap();
        let variables = [
            ("DAFTAR_SERVER__LISTEN", "127.0.0.1:8090"),
            ("DAFTAR_SERVER__CONNECTIONS__MAX", "100"),
            ("DAFTAR_SERVER__TRUSTED_PROXIES", "[\"10.0.0.1\"]"),
            ("DAFTAR_PLUGINS__ALLOW_UNSIGNED", "true"),
            ("DAFTAR_VOCABULARY__DEFAULT_LANGUAGE", "\"12\""),
        ];
        let variables = variables.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec();
        assert_eq!(apply(&mut table, variables), [""; 0]);
        let expected: Table = "[server]\nlisten = \"127.0.0.1:8090\"\ntrusted_proxies = [\"10.0.0.1\"]\n[server.connections]\nmax = 100\n\
                               [log]\nlevel = \"warn\"\n[plugins]\nallow_unsigned = true\n[vocabulary]\ndefault_language = \"12\"\n"
            .parse()
            .unwrap();
        assert_eq!(table, expected);
    }

    #[test]
    fn a_setting_is_no_section() {
        let mut table: Table = "[log]\nlevel = \"warn\"\n".parse().unwrap();
        let found = apply(&mut table, vec![("DAFTAR_LOG__LEVEL__X".to_owned(), "1".to_owned())]);
        assert_eq!(found, ["the environment variable `DAFTAR_LOG__LEVEL__X`: `level` is a setting, not a section"]);
    }
}
