//! Every importer on small files that were written for this, and on the owners' own where these are at hand.

mod fhir;
mod isco;
mod iso;
mod publishers;
mod plain_tsv;
mod sample;
mod six;
mod skos;
mod who;
