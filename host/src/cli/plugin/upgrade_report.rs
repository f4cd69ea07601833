//! `daftar plugin report`

use std::path::Path;

use crate::app::plugin_files;
use crate::cli::admin_client::{AdminClient, Payload};
use crate::cli::{CliError, GlobalArgs, output};
use daftar_api_types::admin::plugin::{TouchedCodeBody, TouchedRecordBody, UpgradeReportBody};

/// Says what installing a plugin would mean for the records there are; changes nothing.
pub fn run(global: &GlobalArgs, file: &Path, records: u32) -> Result<(), CliError> {
    let plugin = plugin_files::read(file).map_err(CliError::input)?;
    let payload = Payload::Plugin { bytes: plugin.bytes, signature: plugin.signature };
    let admin = AdminClient::connect(global)?;
    let report = admin.run(|admin| admin.call("POST", &format!("/plugin-reports?records={records}"), payload))?;
    output::body(global, report, |report: UpgradeReportBody| print(&report))
}

fn print(report: &UpgradeReportBody) {
    let or_none = |version: &Option<String>| version.clone().unwrap_or_else(|| "nothing".to_owned());
    let (plugin, from, to) = (&report.plugin, or_none(&report.from), &report.to);
    output::line(format_args!("{plugin}: from {from} to {to}; nothing was changed"));
    if let Some(reason) = &report.refused {
        output::line(format_args!("it would be refused: {reason}"));
    }
    for vocabulary in &report.vocabularies {
        output::line(format_args!(
            "{} from {} to {}: {} codes new, {} gone, {} retired, {} relabelled; {} records hold a code that is gone or retired",
            vocabulary.namespace,
            or_none(&vocabulary.from),
            or_none(&vocabulary.to),
            vocabulary.codes_added,
            vocabulary.codes_gone,
            vocabulary.codes_retired,
            vocabulary.codes_relabelled,
            vocabulary.records_touched,
        ));
        if vocabulary.codes.is_empty() {
            continue;
        }
        let rows: Vec<Vec<String>> = vocabulary.codes.iter().map(row).collect();
        output::table(&["code", "display", "change", "records", "successor or new name"], &rows);
        if vocabulary.codes_not_named > 0 {
            output::line(format_args!("and {} more codes", vocabulary.codes_not_named));
        }
    }
    let records: Vec<Vec<String>> = report.records.iter().flat_map(record_rows).collect();
    if !records.is_empty() {
        output::table(&["record", "field", "code"], &records);
    }
}

fn row(code: &TouchedCodeBody) -> Vec<String> {
    let successor = code.successor.as_ref().map(|successor| successor.uri.clone());
    let becomes = code.new_display.clone().or(successor).unwrap_or_default();
    vec![code.uri.clone(), code.display.clone(), code.change.clone(), code.records.to_string(), becomes]
}

fn record_rows(record: &TouchedRecordBody) -> Vec<Vec<String>> {
    record.codes.iter().map(|code| vec![record.reference.clone(), code.field.clone(), code.uri.clone()]).collect()
}
