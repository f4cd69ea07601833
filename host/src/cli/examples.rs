//! Examples in the help of each command.

use clap::Command;

/// Each line is a command as typed by a user; the help of a command contains the lines that begin with its name. A test
/// parses all lines.
const EXAMPLES: &str = "\
daftar serve --data-dir /var/lib/daftar --config /etc/daftar/daftar.toml
daftar demo
daftar client create --name 'payment system' --scope individual:read,vocabulary:read
daftar client create --name NGO --scope individual:read,consent:read --organization 'Red Cross' --legal-basis consent
daftar client list --json
daftar client show client-0123
daftar client disable client-0123
daftar client enable client-0123
daftar client delete client-0123
daftar client rotate-secret client-0123 --overlap 24h
daftar client set client-0123 --rate-limit-per-minute 600
daftar client grant client-0123 --scope individual:read --fields name,telecom,address
daftar client revoke client-0123 --scope individual:read
daftar audit query --client client-0123 --from 2026-01-01 --limit 100
daftar audit query --outcome refused --json
daftar plugin list
daftar plugin show isco-08
daftar plugin inspect crops.wasm
daftar plugin install crops.wasm
daftar plugin report isco-08.wasm --records 100
daftar plugin review isco-08.wasm
daftar plugin review engine.wasm --decisions 50000
daftar plugin rollback isco-08
daftar plugin rollback isco-08 --to 1.0.0
daftar plugin remove crops
daftar plugin new --kind vocabulary-pack water-source
daftar plugin build water-source -o water-source.wasm
daftar plugin call water-source.wasm contents
daftar plugin call water-source.wasm lookup 'urn:example:water-source#well'
daftar plugin call engine.wasm evaluate 'age_years(me.birth_date) >= 60' --records people.json
daftar plugin test water-source
daftar plugin bench --calls 1000 water-source.wasm lookup 'urn:example:water-source#well'
daftar plugin wrap --manifest plugin.toml -o engine.wasm module.wasm
daftar plugin keygen -o key.pem
daftar plugin sign crops.wasm --key key.pem
daftar program create --identifier 'urn:svc:vocab:id-type#tax_id|PENSION' --name 'Old-age pension' --target-type individual --eligibility @pension.cel --enforce-eligibility
daftar program list --status current
daftar program show 'urn:svc:vocab:id-type#tax_id|PENSION'
daftar program update 'urn:svc:vocab:id-type#tax_id|PENSION' --name 'Social pension'
daftar program check
daftar program end 'urn:svc:vocab:id-type#tax_id|PENSION' --on 2026-12-31
daftar rule-draft list --status open
daftar rule-draft show 123e4567-e89b-42d3-a456-426614174000
daftar rule-draft accept 123e4567-e89b-42d3-a456-426614174000 --if-version 3
daftar rule-draft reject 123e4567-e89b-42d3-a456-426614174000 --if-version 3 --reason 'the limit of age is 65'
daftar eval 'is_female(me) && age_years(me.birth_date) >= 60' --preview
daftar eval @rule.cel --explain 'urn:svc:vocab:id-type#national_id|12345'
daftar eval --program 'urn:svc:vocab:id-type#tax_id|PENSION' --of 'urn:svc:vocab:id-type#national_id|12345' --evidence decision.json
daftar eval --cases examples/rules
daftar replay decision.json --key keys.json
daftar consent create --subject 'Individual/urn:svc:vocab:id-type#national_id|12345' --grantee 'Red Cross' --scope individual --effective 2026-01-01
daftar consent list --grantee 'Red Cross'
daftar consent show 123e4567-e89b-42d3-a456-426614174000
daftar consent withdraw 123e4567-e89b-42d3-a456-426614174000
daftar export register.ndjson
daftar export women.csv --type Individual --filter gender=urn:iso:std:iso:5218#2 --language fr
daftar export --format parquet --out tables
daftar import people.ndjson
daftar import survey.csv --mapping mapping.toml --dry-run
daftar import survey.csv --mapping mapping.toml --resume
daftar pack build icf -o icf.wasm --sign key.pem
daftar pack import who-tabulation SimpleTabulation-ICF-en.txt -o icf
daftar pack check icf
daftar code add 'urn:svc:vocab:id-type#farmer_id' --label 'en=Farmer ID' --pattern 'F-[0-9]{4}' --pattern-description 'F, a hyphen and four digits'
daftar code set 'urn:svc:vocab:id-type#farmer_id' --label 'en=Farmer card'
daftar code deprecate 'urn:svc:vocab:id-type#farmer_id' --replaced-by 'urn:svc:vocab:id-type#national_id'
daftar code list
daftar code show 'urn:svc:vocab:id-type#farmer_id'
daftar concept-group set farmers --descendants-of 'urn:ilo:isco-08#61' --except 'urn:ilo:isco-08#613'
daftar concept-group list
daftar concept-group show farmers
daftar identifier-system add https://example.org/farmer-id
daftar identifier-system list
daftar identifier-system remove https://example.org/farmer-id
daftar token client-0123 --secret-file secret.txt --scope individual:read
daftar key rotate --overlap 48h
daftar key list
daftar key export
daftar health
daftar verify
daftar doctor --all
daftar backup register.daftar
daftar backup register.daftar --sign key.pem
daftar config check --config daftar.toml
daftar config show --json
daftar restore register.daftar --data-dir /var/lib/daftar
daftar migrate fill --to postgres --config daftar.toml
daftar migrate catch-up --config daftar.toml
daftar migrate catch-up --to sled --config daftar.toml
daftar migrate compare --config daftar.toml
daftar migrate prepare --config daftar.toml
daftar version --json
daftar openapi
daftar manual man
";

/// Adds examples to the help of each subcommand.
pub fn with_examples(command: Command) -> Command {
    added("daftar", command)
}

fn added(path: &str, command: Command) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|one| one.get_name().to_owned()).collect();
    let command = if names.is_empty() || has_file(&command) {
        let examples = of(path);
        // A command with its own help text has its examples there.
        if examples.is_empty() || command.get_after_help().is_some() {
            command
        } else {
            command.after_help(format!("Examples:\n{examples}"))
        }
    } else {
        command
    };
    names.into_iter().fold(command, |command, name| {
        let below = format!("{path} {name}");
        command.mut_subcommand(name, move |one| added(&below, one))
    })
}

/// True if a file precedes the subcommands, as in `daftar plugin call FILE contents`: the command itself has the
/// examples.
fn has_file(command: &Command) -> bool {
    command.get_positionals().next().is_some()
}

/// Returns the examples of a command, one per line, indented.
fn of(path: &str) -> String {
    let is_of = |line: &&str| line.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    EXAMPLES.lines().filter(is_of).map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    /// Splits a line into words, with single quotation marks as in a shell.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut is_quoted = false;
        for character in line.chars() {
            match character {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted => words.push(String::new()),
                other => words.last_mut().unwrap().push(other),
            }
        }
        words
    }

    #[test]
    fn every_example_can_be_parsed() {
        for line in EXAMPLES.lines() {
            let parsed = Cli::command().try_get_matches_from(words(line));
            // The file of a program's rule is read while the command line is parsed.
            let is_read = |error: &clap::Error| error.to_string().contains("cannot read `pension.cel`");
            let problem = parsed.err().filter(|error| !is_read(error));
            assert!(problem.is_none(), "{line}\n{}", problem.unwrap());
        }
    }

    #[test]
    fn every_command_has_an_example() {
        fn check(path: &str, command: &Command) {
            for one in command.get_subcommands().filter(|one| !one.is_hide_set() && !has_file(command)) {
                check(&format!("{path} {}", one.get_name()), one);
            }
            let is_group = command.has_subcommands() && !has_file(command);
            assert!(is_group || command.get_after_help().is_some(), "`{path}` has no example");
        }
        check("daftar", &with_examples(Cli::command()));
    }
}
