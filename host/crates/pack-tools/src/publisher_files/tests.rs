//! Tests of every importer with small files written for them, and with the publishers' own files if available.

mod fhir;
mod isco;
mod iso;
mod plain_tsv;
mod publishers;
mod sample;
mod six;
mod skos;
mod who;
