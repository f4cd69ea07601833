//! Plugins: what is installed and how it is used, and what installing another version would change.

use serde::{Deserialize, Serialize};

/// The installed plugins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PluginsBody {
    /// The loaded ones.
    pub data: Vec<PluginBody>,
    /// Those that are not active; one that is loaded and not active is in both lists.
    pub unloaded: Vec<UnloadedPluginBody>,
}

/// A loaded plugin, with its use since it was loaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PluginBody {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its kind, such as `vocabulary-pack`.
    pub kind: String,
    /// The version of the interface that it is built against.
    pub interface: String,
    /// The digest of its component.
    pub digest: String,
    /// The signer.
    pub signer: String,
    /// The size of its component.
    pub size_bytes: usize,
    /// The size of its machine code.
    pub compiled_bytes: usize,
    /// Time at which it was installed.
    pub installed_at: String,
    /// The versions that it replaced and that a rollback can install again, the latest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierPluginBody>,
    /// Its licence.
    pub licence: String,
    /// Attribution that its licence requires.
    pub attribution: String,
    /// Its limits.
    pub limits: PluginLimitsBody,
    /// Number of calls that were made.
    pub calls: u64,
    /// Number of them that failed.
    pub faults: u64,
    /// The failed ones, by kind of fault.
    pub faults_by_kind: Vec<FaultsBody>,
    /// The most memory of one call.
    pub peak_memory_bytes: u64,
    /// The most fuel of one call.
    pub peak_fuel: u64,
    /// The longest call, in milliseconds.
    pub peak_time_ms: f64,
    /// The highest use of each limit.
    pub r#use: LimitsUseBody,
    /// Requests rejected because too many waited, or while the circuit breaker suspended the plugin.
    pub rejected: u64,
    /// The lines of its log.
    pub log_lines: LogLinesBody,
    /// Its circuit breaker.
    pub breaker: BreakerBody,
    /// Its last fault; `null` where it had none.
    pub last_fault: Option<LastFaultBody>,
}

/// A version that the installed one replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierPluginBody {
    /// Its version.
    pub version: String,
    /// The digest of its component.
    pub digest: String,
    /// The signer at its install.
    pub signer: String,
    /// Time at which it was installed.
    pub installed_at: String,
}

/// The limits of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginLimitsBody {
    /// Bytes of linear memory.
    pub memory_bytes: usize,
    /// Elements of tables.
    pub table_elements: usize,
    /// Core instances.
    pub core_instances: usize,
    /// Milliseconds of one call.
    pub call_ms: u64,
    /// Fuel of a call.
    pub fuel_base: u64,
    /// Fuel of a call for each row.
    pub fuel_per_row: u64,
    /// Bytes of input.
    pub input_bytes: usize,
    /// Bytes of output.
    pub output_bytes: usize,
    /// Calls of host functions.
    pub host_calls: u64,
    /// Bytes of one such call.
    pub host_call_bytes: usize,
    /// Requests that run concurrently.
    pub concurrent_requests: usize,
}

/// A program whose rule a new version would make invalid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedRuleBody {
    /// `Program/<system>|<value>`
    pub program: String,
    /// The problem.
    pub message: String,
}

/// The comparison of a plugin's file with the active plugins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewBody {
    /// The plugin.
    pub plugin: String,
    /// The installed version.
    pub from: Option<String>,
    /// The reviewed version.
    pub to: String,
    /// The reason for which an installation would be rejected; then nothing was compared.
    pub refused: Option<String>,
    /// Each program with a rule.
    pub programs: Vec<ReviewedProgramBody>,
}

/// The comparison of a program's rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewedProgramBody {
    /// `Program/<system>|<value>`
    pub program: String,
    /// Number of compared subjects.
    pub compared: u64,
    /// The changed outcomes, the most frequent first.
    pub changes: Vec<ChangedOutcomeBody>,
    /// The reason for which the new version does not evaluate the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A kind of change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedOutcomeBody {
    /// The outcome with the active plugins.
    pub before: String,
    /// The outcome with the new one.
    pub after: String,
    /// Number of subjects.
    pub subjects: u64,
    /// Some of them, by reference.
    pub examples: Vec<String>,
}

/// A code of an open vocabulary in records that a new version does not resolve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnresolvedCodeBody {
    /// `<namespace>#<code>`
    pub uri: String,
    /// Number of records with it.
    pub records: u64,
    /// The pack's message, or the fault of the call.
    pub reason: String,
}

/// Number of calls that failed with one kind of fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultsBody {
    /// The kind of fault.
    pub kind: String,
    /// The number.
    pub count: u64,
}

/// The highest use of each limit since the plugin was loaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitsUseBody {
    /// Bytes of linear memory.
    pub memory_bytes: UseBody,
    /// Milliseconds of one call.
    pub call_ms: UseBody,
    /// Fuel of one call.
    pub fuel: FuelUseBody,
    /// Bytes of input.
    pub input_bytes: UseBody,
    /// Bytes of output.
    pub output_bytes: UseBody,
    /// Requests that ran concurrently.
    pub concurrent_requests: UseBody,
}

/// The highest use of one limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UseBody {
    /// The highest use.
    pub peak: f64,
    /// The limit.
    pub limit: f64,
}

/// The highest use of fuel: the limit of a call is `base + rows * per_row`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FuelUseBody {
    /// The highest use.
    pub peak: u64,
    /// The share of its limit that the call used which came closest to it.
    pub peak_share: f64,
    /// Fuel of a call.
    pub base: u64,
    /// Fuel of a call for each row.
    pub per_row: u64,
}

/// The lines that a plugin logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLinesBody {
    /// Those that were written.
    pub written: u64,
    /// Those that were too many.
    pub suppressed: u64,
}

/// The circuit breaker of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakerBody {
    /// `closed`, `open` or `half_open`.
    pub state: String,
    /// Number of suspensions of the plugin.
    pub suspensions: u64,
}

/// The kind and time of a fault, never the input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastFaultBody {
    /// The kind of fault.
    pub kind: String,
    /// When.
    pub at: String,
}

/// An installed plugin that is not active. A damaged one may have a name and a reason only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnloadedPluginBody {
    /// Its name.
    pub name: String,
    /// Reason why it is not active.
    pub reason: String,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The digest of its component.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The signer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signer: Option<String>,
    /// Time at which it was installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub installed_at: Option<String>,
}

/// The effect of an installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpgradeReportBody {
    /// Its name.
    pub plugin: String,
    /// The installed version; `null` where there is none.
    pub from: Option<String>,
    /// Its version.
    pub to: String,
    /// Reason why installing it would be rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The extension fields of the installed version that it lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed_fields: Vec<String>,
    /// The concept groups of the installed version that it lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed_concept_groups: Vec<String>,
    /// The programs whose rules would be invalid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken_rules: Vec<ReportedRuleBody>,
    /// Codes of its open vocabularies in records that it does not resolve.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unresolved_codes: Vec<UnresolvedCodeBody>,
    /// The vocabularies that would change.
    pub vocabularies: Vec<VocabularyChangeBody>,
    /// Records with codes that would be removed or retired, at most the requested number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<TouchedRecordBody>,
}

/// Changes of a vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VocabularyChangeBody {
    /// Its namespace.
    pub namespace: String,
    /// The installed version; `null` where there is none.
    pub from: Option<String>,
    /// The new version; `null` where it would be removed.
    pub to: Option<String>,
    /// Number of codes that would be new.
    pub codes_added: usize,
    /// Number of codes that would be removed.
    pub removed_codes: usize,
    /// Number of codes that would not be active any more.
    pub codes_retired: usize,
    /// Number of codes that would have another name.
    pub codes_relabelled: usize,
    /// Number of records that have a code that would be removed or retired.
    pub records_touched: u64,
    /// The codes that would change.
    pub codes: Vec<TouchedCodeBody>,
    /// Number of further codes that would change.
    pub codes_not_named: usize,
    /// Codes that would be removed or retired and that no record contains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unused_codes: Vec<String>,
    /// The local codes of the vocabulary.
    pub local_codes: Vec<String>,
}

/// A code that would change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TouchedCodeBody {
    /// The code, written `<namespace>#<code>`.
    pub uri: String,
    /// Its name.
    pub display: String,
    /// `gone`, `retired` or `relabelled`.
    pub change: String,
    /// Its new name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_display: Option<String>,
    /// Number of records that have it.
    pub records: u64,
    /// The code to use in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub successor: Option<SuccessorBody>,
}

/// The code to use in place of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuccessorBody {
    /// The code, written `<namespace>#<code>`.
    pub uri: String,
    /// Its name.
    pub display: String,
}

/// A record with codes that would be removed or retired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TouchedRecordBody {
    /// The record, such as `Individual/SYSTEM|VALUE`.
    pub reference: String,
    /// The codes, each with its field.
    pub codes: Vec<FieldCodeBody>,
}

/// A code in a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldCodeBody {
    /// The field.
    pub field: String,
    /// The code, written `<namespace>#<code>`.
    pub uri: String,
}
