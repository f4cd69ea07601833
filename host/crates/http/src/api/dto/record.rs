//! Bodies of records, driven by the schema (`daftar_domain::schema`): what a kind of record has beyond its rows is a check of
//! `record/read.rs` or a function of `record/view.rs`.

mod read;
mod view;
mod write;

pub use read::{
    Identification, Purpose, check_unseen, read_consent, read_group, read_group_fields, read_individual,
    read_individual_fields, read_membership, read_program,
};
pub use view::{
    WrittenProgramBody, consent, consent_of, found_individual, group, individual, membership, membership_of, program,
    shown_group, with_kept,
};
pub use write::{Computed, Part, RecordBody, ShownCode, ShownRecord, Shows};
