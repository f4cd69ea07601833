//! `daftar replay`: repeats the decision of an evidence bundle without a register, and compares the bytes of the
//! response.
//!
//! **Invariant:** the evaluation runs after the signature of the bundle and the digest of the engine were verified.

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Args;
use daftar_api_types::public::eligibility::{Evaluated, Outcome};
use serde_json::{Value, json};

use super::eval::drawing::{self, Paint};
use super::eval::show_results;
use super::{CliError, GlobalArgs, output};
use crate::app::plugin_files;
use crate::app::plugin_runner::PluginRunner;
use crate::app::serve::default_plugins_dir;
use daftar_domain::manifest::PluginName;
use daftar_http::api::dto::eligibility::response::replayed;
use daftar_sandbox::{Digest, read_at_most};
use daftar_service::eligibility::evidence::{self, BUNDLE_BYTES_MAX, Bundle, Content, VerificationKey};

/// Maximum size of a file of keys, in bytes.
const KEYS_BYTES_MAX: usize = 1 << 20;
/// Maximum length of a value in the report of a difference, in characters.
const VALUE_CHARACTERS_MAX: usize = 200;

/// A bundle to repeat.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The evidence bundle, as `daftar eval --evidence` or `POST /Eligibility/$evidence` wrote it
    bundle: PathBuf,
    /// File with the public keys of the register (a JSON Web Key or a set of them, as `daftar key export` prints it); a
    /// bundle signed by another key is rejected. Without it, the signature is verified with the key in the bundle,
    /// which proves only that the bundle was not damaged
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// The engine that made the decision, one `.wasm` component; by default it is taken from the folder `plugins`
    /// beside this program
    #[arg(long, value_name = "FILE")]
    engine: Option<PathBuf>,
}

/// Repeats the decision. Exit code 1 if the response differs.
pub fn run(global: &GlobalArgs, args: &ReplayArgs) -> Result<(), CliError> {
    let rejected = |problem: String| CliError::input(format_args!("`{}`: {problem}", args.bundle.display()));
    let file = read(&args.bundle, BUNDLE_BYTES_MAX)?;
    let Bundle { key, content } = evidence::open(&file).map_err(rejected)?;
    if let Some(path) = &args.key {
        check_key(&key, path).map_err(rejected)?;
    }
    let inputs = content.inputs().map_err(|problem| rejected(format!("its content is invalid: {problem}")))?;
    let engine = engine(args.engine.as_deref(), &content.engine)?;
    let runner = PluginRunner::start(engine, global.config()?.plugins.limits).map_err(CliError::failed)?;
    if runner.reference() != content.engine {
        return Err(rejected(format!("its engine is `{}`, but that file is `{}`", content.engine, runner.reference())));
    }
    let repeated = runner.with_rule(inputs.rule(), move |session| inputs.replay(session));
    let repeated = repeated.map_err(|error| rejected(format!("the rule cannot be repeated: {error}")))?;
    let repeated = repeated.map_err(|problem| rejected(format!("the decision cannot be repeated: {problem}")))?;
    let response = replayed(&content, &repeated).map_err(rejected)?;
    let difference = difference(content.response.as_bytes(), &response);
    report(global, args, (&key, &content), &response, difference.as_deref())
}

fn report(
    global: &GlobalArgs,
    args: &ReplayArgs,
    (key, content): (&VerificationKey, &Content),
    response: &[u8],
    difference: Option<&str>,
) -> Result<(), CliError> {
    let is_trusted = args.key.is_some();
    if !is_trusted {
        output::note(format_args!(
            "note: the key `{}` comes from the bundle itself; check the signer with --key and the register's keys",
            key.kid
        ));
    }
    if global.json {
        let repeated: Value = serde_json::from_slice(response).unwrap_or_default();
        output::json(&json!({
            "identical": difference.is_none(), "difference": difference, "issuer": content.issuer,
            "key": {"kid": key.kid, "checked": is_trusted}, "engine": content.engine, "response": repeated,
        }));
    } else {
        let signed = if is_trusted { "checked with --key" } else { "not checked" };
        let rule: String = content.expression.split_whitespace().collect::<Vec<_>>().join(" ");
        output::labelled(
            8,
            [
                ("issuer", format!("{}, key {} ({signed})", content.issuer, key.kid)),
                ("engine", content.engine.clone()),
                ("program", content.program.clone().unwrap_or_else(|| "-".to_owned())),
                ("rule", rule.chars().filter(|one| !one.is_control()).collect()),
                ("day", content.as_of.clone()),
            ],
        );
        output::line("");
        show(response)?;
    }
    match difference {
        Some(difference) => Err(CliError::failed(format_args!("the repeated response is another: {difference}"))),
        None if global.json => Ok(()),
        None => {
            output::line(format_args!("identical: the repeated response has the same {} bytes", response.len()));
            Ok(())
        }
    }
}

/// Prints the results, each with its explanation if the response has explanations.
fn show(response: &[u8]) -> Result<(), CliError> {
    let response: Evaluated<'_> = serde_json::from_slice(response).map_err(CliError::failed)?;
    if response.results.iter().any(|result| result.explanation.is_none()) {
        show_results(&response.results);
        return Ok(());
    }
    for result in &response.results {
        drawing::show(&Paint::of_output(), result)?;
        output::line("");
    }
    let eligible = response.results.iter().filter(|result| result.outcome == Some(Outcome::Eligible)).count();
    output::line(format_args!("{eligible} of {} eligible", response.results.len()));
    Ok(())
}

fn read(path: &Path, bytes_max: usize) -> Result<Vec<u8>, CliError> {
    let bytes = File::open(path).and_then(|file| read_at_most(file, bytes_max));
    let bytes = bytes.map_err(|error| CliError::cannot_read(path, &error))?;
    if bytes.len() > bytes_max {
        return Err(CliError::input(format_args!("`{}` has more than {bytes_max} bytes", path.display())));
    }
    Ok(bytes)
}

/// Checks that the key of a bundle is in a file of trusted keys.
fn check_key(key: &VerificationKey, path: &Path) -> Result<(), String> {
    let shown = path.display();
    let bytes = read(path, KEYS_BYTES_MAX).map_err(|error| error.to_string())?;
    let trusted = String::from_utf8(bytes).map_err(|error| error.to_string());
    let trusted = trusted.and_then(|text| VerificationKey::read_all(&text));
    let trusted = trusted.map_err(|problem| format!("its key cannot be checked with `{shown}`: {problem}"))?;
    match trusted.iter().find(|one| one.kid == key.kid) {
        Some(same) if same.x == key.x => Ok(()),
        Some(_) => Err(format!("it is signed by another key than the key `{}` in `{shown}`", key.kid)),
        None => {
            let known: Vec<&str> = trusted.iter().map(|one| one.kid.as_str()).collect();
            Err(format!("it is signed by the key `{}`, and `{shown}` has {}", key.kid, known.join(", ")))
        }
    }
}

/// Returns the file of the engine `wanted`, `name@version sha256:…`: the file of `--engine`, or that of the program's
/// own plugins.
fn engine(file: Option<&Path>, wanted: &str) -> Result<Vec<u8>, CliError> {
    let name = wanted.split_once('@').and_then(|(name, _)| PluginName::parse(name).ok());
    let digest = wanted.split_once(' ').map(|(_, digest)| digest);
    let (Some(name), Some(digest)) = (name, digest) else {
        return Err(CliError::input(format_args!("the bundle's engine `{wanted}` is not `name@version sha256:…`")));
    };
    let own = || default_plugins_dir().map(|folder| folder.join(format!("{name}.wasm"))).filter(|file| file.is_file());
    let Some(file) = file.map(Path::to_owned).or_else(own) else {
        return Err(CliError::usage(format_args!(
            "the engine `{wanted}` is not beside this program: name its file with --engine"
        )));
    };
    let bytes = plugin_files::read(&file).map_err(CliError::input)?.bytes;
    let found = Digest::of(&bytes).to_string();
    if found == digest {
        return Ok(bytes);
    }
    Err(CliError::input(format_args!(
        "the decision was made by the engine `{wanted}`, and `{}` has the digest {found}: name the file of that engine with --engine",
        file.display()
    )))
}

/// Describes the first difference between two responses; none if they have the same bytes.
fn difference(recorded: &[u8], repeated: &[u8]) -> Option<String> {
    if recorded == repeated {
        return None;
    }
    let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap_or_default();
    let (old, new) = (read(recorded), read(repeated));
    let mut found = None;
    compare("", Some(&old), Some(&new), &mut found);
    Some(found.unwrap_or_else(|| {
        let same = recorded.iter().zip(repeated).take_while(|(one, other)| one == other).count();
        format!("it has the same values, and is formatted in another way from byte {same}")
    }))
}

/// Finds the first difference in the order of names and positions, outcomes first. JSON that was read has few levels.
fn compare(path: &str, recorded: Option<&Value>, repeated: Option<&Value>, found: &mut Option<String>) {
    if found.is_some() || recorded == repeated {
        return;
    }
    match (recorded, repeated) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
            names.sort_unstable_by_key(|name| (*name != "outcome", *name));
            names.dedup();
            for name in names {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                compare(&path, old.get(name), new.get(name), found);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            for at in 0..old.len().max(new.len()) {
                compare(&format!("{path}[{at}]"), old.get(at), new.get(at), found);
            }
        }
        (old, new) => {
            let shown = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), short);
            *found = Some(format!("`{path}` was recorded as {} and is now {}", shown(old), shown(new)));
        }
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= VALUE_CHARACTERS_MAX {
        return text;
    }
    text.chars().take(VALUE_CHARACTERS_MAX).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_named() {
        let of = |recorded: &str, repeated: &str| difference(recorded.as_bytes(), repeated.as_bytes());
        assert_eq!(of("{\"a\":[1,2]}", "{\"a\":[1,2]}"), None);
        let found = [
            of("{\"a\":[1,2]}", "{\"a\":[1,3]}"),
            of("{\"a\":[1,2]}", "{\"a\":[1]}"),
            of("{\"b\":{\"c\":true}}", "{\"b\":{}}"),
            of("{\"a\":1}", "{\"a\": 1}"),
        ];
        let expected = [
            "`a[1]` was recorded as 2 and is now 3",
            "`a[1]` was recorded as 2 and is now nothing",
            "`b.c` was recorded as true and is now nothing",
            "it has the same values, and is formatted in another way from byte 5",
        ];
        assert_eq!(found.map(Option::unwrap), expected);
    }

    #[test]
    fn an_engine_of_another_digest_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("engine.wasm");
        std::fs::write(&file, "engine").unwrap();
        let wanted = format!("cel@1.0.0 {}", Digest::of(b"engine"));
        assert_eq!(engine(Some(&file), &wanted).unwrap(), b"engine");
        let other = format!("cel@1.0.0 {}", Digest::of(b"other"));
        assert!(engine(Some(&file), &other).unwrap_err().to_string().contains("has the digest sha256:"));
        for wrong in ["", "cel", "cel@1", "../cel@1 sha256:0"] {
            assert!(engine(Some(&file), wrong).unwrap_err().to_string().contains("is not `name@version"), "{wrong}");
        }
    }
}
