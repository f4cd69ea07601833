//! Registers of made-up people on disk.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use daftar::domain::code::{CodeUri, CodedValue};
use daftar::domain::individual::{Income, Individual, IndividualDetails};
use daftar::service::codes::LanguagePreference;
use daftar::service::individual;
use daftar::store::{Operation, Write};
use daftar::vocab::Generation;
use tokio::task::JoinSet;

use crate::people::{Codes, HOUSEHOLD, household, person};
use crate::server::Server;

/// What registers are made from.
pub const SEED: u64 = 20_260_101;
/// How many writes wait at the same time while a register is filled.
const WRITERS: u64 = 64;

/// Fills the register of a server with people, each a create of its own, and their households; how long the people took, in
/// seconds.
pub async fn fill(server: &Server, people: u64) -> Result<f64, String> {
    let generation = server.app.registry.vocabularies.current();
    let codes = Arc::new(Codes::of(&generation)?);
    let started = Instant::now();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (app, codes, generation) = (server.app.clone(), codes.clone(), generation.clone());
        writers.spawn(async move {
            for id in (1..=people).filter(|id| id % WRITERS == writer) {
                let details = with_codes(&*person(SEED, id, &codes)?, &generation);
                let languages = LanguagePreference::parse("en");
                let created = individual::create(&app.system_context(), &app.registry, languages, details.into()).await;
                created.map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(())
        });
    }
    while let Some(done) = writers.join_next().await {
        done.map_err(|error| error.to_string())??;
    }
    let took = started.elapsed().as_secs_f64();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (app, codes) = (server.app.clone(), codes.clone());
        writers.spawn(async move {
            for id in (1..=people / HOUSEHOLD).filter(|id| id % WRITERS == writer) {
                let operations = vec![Operation::create(household(id, &codes).details.clone())];
                let write =
                    Write { at: app.clock.now(), source: None, operations, audit: Vec::new(), rests_on: Vec::new() };
                app.registry.store.commit(write).await.map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(())
        });
    }
    while let Some(done) = writers.join_next().await {
        done.map_err(|error| error.to_string())??;
    }
    Ok(took)
}

/// The same person with codes as clients name them.
pub fn with_codes(person: &Individual, generation: &Generation) -> IndividualDetails<CodeUri> {
    let details = person.details.clone();
    let uri = |value: &CodedValue| generation.table().uri(value.number);
    IndividualDetails {
        identifiers: details.identifiers,
        active: details.active,
        name: details.name,
        birth_date: details.birth_date,
        codes: details.codes.iter().filter_map(|(field, value)| Some((*field, uri(value)?))).collect(),
        address: details.address.map(|addresses| {
            let plain = |address: daftar::domain::address::Address| daftar::domain::address::Address {
                kind: address.kind,
                text: address.text,
                line: address.line,
                city: address.city,
                district: address.district,
                region: address.region,
                postal_code: address.postal_code,
                country: None,
            };
            addresses.into_iter().map(plain).collect()
        }),
        income: details.income.map(|income| Income { amount: income.amount, currency: None, period: income.period }),
        ..IndividualDetails::default()
    }
}

/// The bytes of all files below a folder.
pub fn bytes_below(folder: &Path) -> Result<u64, String> {
    let mut bytes = 0;
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries {
        let entry = entry.map_err(|error| error.to_string())?;
        let about = entry.metadata().map_err(|error| error.to_string())?;
        bytes += if about.is_dir() { bytes_below(&entry.path())? } else { about.len() };
    }
    Ok(bytes)
}
