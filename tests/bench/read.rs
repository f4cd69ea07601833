//! `GET /Individual/{identifier}`, all checks on, against a bare handler that sends the same bytes.

use std::sync::Arc;
use std::time::Duration;

use daftar::domain::address::Address;
use daftar::domain::code::CodeUri;
use daftar::domain::identifier::{Identifier, IdentifierKey};
use daftar::domain::individual::IndividualDetails;
use daftar::domain::person_name::PersonName;
use daftar::domain::vocabulary::CodedField;
use daftar::service::codes::LanguagePreference;
use daftar::service::individual;
use tokio::task::JoinSet;

use crate::load;
use crate::server::{Server, bare};

/// How many people the register has.
pub(crate) const PEOPLE: usize = 10_000;
/// How many connections send at the same time.
const CONNECTIONS: usize = 16;
/// How long a round lasts.
const ROUND: Duration = Duration::from_secs(4);
/// How many rounds each server gets, in turn.
const ROUNDS: usize = 5;

/// Runs the benchmark and prints its figures.
pub fn run() -> Result<(), String> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(measure())
}

async fn measure() -> Result<(), String> {
    println!("read: {PEOPLE} people, {CONNECTIONS} connections, {ROUNDS} rounds of {} s each", ROUND.as_secs());
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let server = Server::start(folder.path()).await?;
    fill(&server).await?;
    let requests = Arc::new((1..=PEOPLE).map(|number| request(&server.token, number)).collect::<Vec<_>>());
    let warm = load::run(server.address, requests.clone(), CONNECTIONS, Duration::from_secs(1)).await?;
    let bare_address = bare(warm.body).await?;
    load::run(bare_address, requests.clone(), CONNECTIONS, Duration::from_secs(1)).await?;

    let mut ratios = Vec::new();
    for round in 1..=ROUNDS {
        let ours = load::run(server.address, requests.clone(), CONNECTIONS, ROUND).await?;
        let theirs = load::run(bare_address, requests.clone(), CONNECTIONS, ROUND).await?;
        let ratio = ours.per_second / theirs.per_second;
        println!(
            "round {round}: daftar {:.0}/s (median {:.0} us, p99 {:.0} us), bare axum {:.0}/s (median {:.0} us, p99 {:.0} us), ratio {ratio:.3}",
            ours.per_second, ours.median_us, ours.p99_us, theirs.per_second, theirs.median_us, theirs.p99_us
        );
        ratios.push(ratio);
    }
    ratios.sort_unstable_by(f64::total_cmp);
    println!("read: median ratio {:.3} (target 0.85)", ratios.get(ROUNDS / 2).copied().unwrap_or_default());
    server.stop().await;
    Ok(())
}

/// Asks for the person with that number.
pub(crate) fn request(token: &str, number: usize) -> Vec<u8> {
    format!(
        "GET /api/v2/Individual/urn:svc:vocab:id-type%23national_id%7CBENCH-{number} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    )
    .into_bytes()
}

pub(crate) async fn fill(server: &Server) -> Result<(), String> {
    let mut writers = JoinSet::new();
    for number in 1..=PEOPLE {
        if writers.len() == 64
            && let Some(written) = writers.join_next().await
        {
            written.map_err(|error| error.to_string())??;
        }
        let app = server.app.clone();
        writers.spawn(async move {
            let person = person(number)?;
            let languages = LanguagePreference::parse("en");
            let created = individual::create(&app.system_context(), &app.registry, languages, person.into()).await;
            created.map(|_| ()).map_err(|error| error.to_string())
        });
    }
    while let Some(written) = writers.join_next().await {
        written.map_err(|error| error.to_string())??;
    }
    Ok(())
}

/// A person with that number.
pub fn person(number: usize) -> Result<IndividualDetails<CodeUri>, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let code = |code: &str| CodeUri::parse(code).map_err(|error| text(&error));
    let key = IdentifierKey::parse(&format!("urn:svc:vocab:id-type#national_id|BENCH-{number}"));
    Ok(IndividualDetails {
        identifiers: vec![Identifier { key: key.map_err(|error| text(&error))?, period: None }],
        active: Some(true),
        name: Some(PersonName {
            family: Some("Diallo".to_owned()),
            given: Some(format!("Amina {number}")),
            ..PersonName::default()
        }),
        birth_date: Some(jiff::civil::Date::constant(1961, 3, 8)),
        codes: vec![
            (CodedField::Gender, code("urn:iso:std:iso:5218#2")?),
            (CodedField::MaritalStatus, code("urn:un:unsd:pop-census:marital-status#M")?),
            (CodedField::Country, code("urn:iso:std:iso:3166-1#SN")?),
        ],
        address: Some(vec![Address {
            city: Some("Saint-Louis".to_owned()),
            district: Some("North".to_owned()),
            country: Some(code("urn:iso:std:iso:3166-1#SN")?),
            ..Address::default()
        }]),
        ..IndividualDetails::default()
    })
}
