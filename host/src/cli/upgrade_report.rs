//! `daftar plugin report`

use std::path::Path;

use serde_json::Value;

use super::admin_client::{AdminClient, Payload};
use super::{CliError, GlobalArgs, output};
use crate::app::plugin_files;

/// Says what installing a plugin would mean for the records there are; changes nothing.
pub fn run(global: &GlobalArgs, file: &Path, records: u32) -> Result<(), CliError> {
    let plugin = plugin_files::read(file).map_err(CliError::input)?;
    let payload = Payload::Plugin { bytes: plugin.bytes, signature: plugin.signature };
    let admin = AdminClient::connect(global)?;
    let report = admin.call("POST", &format!("/plugin-reports?records={records}"), payload);
    admin.close();
    let report = report?;
    if global.json {
        output::json(&report);
    } else {
        print(&report);
    }
    Ok(())
}

fn print(report: &Value) {
    let text = |value: &Value, name| output::text_of(value, name).to_owned();
    let or_none = |value: String| if value.is_empty() { "nothing".to_owned() } else { value };
    let count = |value: &Value, name| value.get(name).and_then(Value::as_u64).unwrap_or_default();
    output::line(format_args!(
        "{}: from {} to {}; nothing was changed",
        text(report, "plugin"),
        or_none(text(report, "from")),
        text(report, "to")
    ));
    if let Some(reason) = report.get("refused").and_then(Value::as_str) {
        output::line(format_args!("it would be refused: {reason}"));
    }
    let vocabularies = report.get("vocabularies").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for vocabulary in vocabularies {
        output::line(format_args!(
            "{} from {} to {}: {} codes new, {} gone, {} retired, {} relabelled; {} records hold a code that is gone or retired",
            text(vocabulary, "namespace"),
            or_none(text(vocabulary, "from")),
            or_none(text(vocabulary, "to")),
            count(vocabulary, "codes_added"),
            count(vocabulary, "codes_gone"),
            count(vocabulary, "codes_retired"),
            count(vocabulary, "codes_relabelled"),
            count(vocabulary, "records_touched"),
        ));
        let codes = vocabulary.get("codes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if codes.is_empty() {
            continue;
        }
        let rows: Vec<Vec<String>> = codes
            .iter()
            .map(|code| {
                let successor = code.get("successor").map(|successor| text(successor, "uri")).unwrap_or_default();
                let becomes = text(code, "new_display");
                let becomes = if becomes.is_empty() { successor } else { becomes };
                vec![
                    text(code, "uri"),
                    text(code, "display"),
                    text(code, "change"),
                    count(code, "records").to_string(),
                    becomes,
                ]
            })
            .collect();
        output::table(&["code", "display", "change", "records", "successor or new name"], &rows);
        let untold = count(vocabulary, "codes_not_named");
        if untold > 0 {
            output::line(format_args!("and {untold} more codes"));
        }
    }
    print_records(report);
}

fn print_records(report: &Value) {
    let records = report.get("records").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if records.is_empty() {
        return;
    }
    let list = |value: &Value, name| value.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let rows: Vec<Vec<String>> = records
        .iter()
        .flat_map(|record| {
            let reference = output::text_of(record, "reference").to_owned();
            list(record, "codes").into_iter().map(move |code| {
                let text = |name| output::text_of(&code, name).to_owned();
                vec![reference.clone(), text("field"), text("uri")]
            })
        })
        .collect();
    output::table(&["record", "field", "code"], &rows);
}
