//! `daftar demo`

mod people;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use tokio::task::JoinSet;

use super::{CliError, GlobalArgs, output};
use crate::app::serve::{Listeners, default_plugins_dir, serve, shutdown_signal};
use crate::app::{App, AppOptions, AppState, CompileIn};
use crate::telemetry;
use daftar_domain::client::{ClientId, ClientName, RateLimit};
use daftar_domain::config::{Config, LogLevel};
use daftar_domain::field::FieldSet;
use daftar_domain::grant::Grants;
use daftar_domain::scope::Scope;
use daftar_service::client::ClientChanges;
use daftar_service::codes::LanguagePreference;
use daftar_service::{group, individual};

/// How many people the register has.
const PEOPLE: usize = 1_000;
/// How many records are written at the same time.
const WRITERS: usize = 32;
/// What the demo's client may do.
const SCOPES: [&str; 4] = ["individual:all", "group:all", "eligibility:all", "vocabulary:read"];
/// A limit that a person who tries things out does not meet.
const REQUESTS_PER_MINUTE: u32 = 600;

/// What the demo is started with.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Address to listen on; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Folder of plugins
    #[arg(long, value_name = "DIR")]
    plugins: Option<PathBuf>,
}

/// Runs the command until it is told to stop; then the folder is gone.
pub fn run(global: &GlobalArgs, args: DemoArgs) -> Result<(), CliError> {
    let mut config = Config::default();
    config.server.listen = args.listen;
    config.server.admin_listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    config.log.level = LogLevel::Warn;
    config.validate()?;
    let (_, _log) = telemetry::start(&config.log, &config.otlp).map_err(CliError::settings)?;
    let folder = tempfile::Builder::new().prefix("daftar-demo-").tempdir().map_err(|error| {
        CliError::output(format_args!("cannot make a temporary folder: {error}; name another place in TMPDIR"))
    })?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CliError::failed)?;
    runtime.block_on(async {
        let listeners = bind(&mut config)?;
        let url = listeners.public_url(&config.server);
        let say = |text: String| {
            if !global.json {
                output::line(text);
            }
        };
        say("daftar demo: loading the plugins".to_owned());
        let plugins_dir = args.plugins.or_else(default_plugins_dir);
        let data_dir = folder.path().join("data");
        let options = AppOptions::new(data_dir.clone()).with_public_url(url.clone()).with_plugins_dir(plugins_dir);
        let options = options.with_compile_in(CompileIn::this_program()).with_pinned(global.pinned.clone());
        let app = App::open(config, options).await?;
        let started = Instant::now();
        let households = fill(&app).await?;
        let took = started.elapsed().as_secs_f64();
        say(format!(
            "wrote {PEOPLE} make-believe people in {households} households in {took:.1} s, each on disk before the next step"
        ));
        let (id, secret) = register_client(&app).await?;
        let guide = if global.json {
            json!({
                "listening_on": url,
                "admin_on": listeners.offered_admin_url(),
                "data_dir": data_dir,
                "client_id": id.as_str(),
                "client_secret": secret.expose_secret(),
                "scopes": SCOPES,
                "individuals": PEOPLE,
                "groups": households,
            })
            .to_string()
        } else {
            guide(&url, &data_dir, &id, secret.expose_secret())
        };
        serve(app, listeners, move || output::line(guide), shutdown_signal()).await.map_err(CliError::from)
    })
}

/// The wanted port, or any free one when somebody has it.
fn bind(config: &mut Config) -> Result<Listeners, CliError> {
    match Listeners::bind(&config.server) {
        Ok(listeners) => Ok(listeners),
        Err(_) if config.server.listen.port() != 0 => {
            config.server.listen.set_port(0);
            Listeners::bind(&config.server).map_err(CliError::from)
        }
        Err(error) => Err(error.into()),
    }
}

/// Writes people and households as a client would; returns how many households.
async fn fill(app: &AppState) -> Result<usize, CliError> {
    let households = people::households(PEOPLE);
    let style =
        ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}").unwrap_or_else(|_| ProgressStyle::default_bar());
    let progress = ProgressBar::new(PEOPLE as u64).with_style(style).with_message("writing people");
    let count = households.len();
    let mut writers = JoinSet::new();
    for household in households {
        if writers.len() == WRITERS
            && let Some(finished) = writers.join_next().await
        {
            progress.inc(finished.map_err(CliError::failed)??);
        }
        let app = app.clone();
        writers.spawn(async move { write_household(&app, household).await });
    }
    while let Some(finished) = writers.join_next().await {
        progress.inc(finished.map_err(CliError::failed)??);
    }
    progress.finish_and_clear();
    Ok(count)
}

async fn write_household(app: &AppState, household: people::Household) -> Result<u64, CliError> {
    let ctx = app.system_context();
    let languages = LanguagePreference::parse("en");
    let mut written = 0;
    for person in household.people {
        individual::create(&ctx, &app.registry, languages.clone(), person.into()).await.map_err(CliError::failed)?;
        written += 1;
    }
    group::create(&ctx, &app.registry, languages, household.group.into()).await.map_err(CliError::failed)?;
    Ok(written)
}

/// Registers the demo's client.
async fn register_client(app: &AppState) -> Result<(ClientId, SecretString), CliError> {
    let mut grants = Grants::default();
    for text in SCOPES {
        grants.insert(Scope::parse(text).map_err(CliError::failed)?, FieldSet::All);
    }
    let name = ClientName::parse("demo").map_err(CliError::failed)?;
    let limit = RateLimit::parse(REQUESTS_PER_MINUTE).map_err(CliError::failed)?;
    let settings = ClientChanges { rate_limit_per_minute: Some(Some(limit)), ..ClientChanges::default() };
    let created = app.clients.create(&app.system_context(), (name, grants), settings).await;
    let (client, secret) = created.map_err(CliError::failed)?;
    Ok((client.id.clone(), secret))
}

/// What to paste.
fn guide(url: &str, data_dir: &Path, id: &ClientId, secret: &str) -> String {
    let data_dir = data_dir.display();
    let person = people::SAMPLE_PERSON;
    format!(
        r#"listening on {url}

# In a browser: {url}/workbench
#   client id      {id}
#   client secret  {secret}

Paste into another terminal, one after the other:

# 1. A token for the demo's client (5 a minute from one address)
TOKEN=$(curl -s -u '{id}:{secret}' -d grant_type=client_credentials {url}/api/v2/oauth/token | sed 's/.*"access_token":"\([^"]*\)".*/\1/'); echo "$TOKEN"

# 2. One person, by identifier (the # of the identifier's system is written %23)
curl -s -H "Authorization: Bearer $TOKEN" '{url}/api/v2/Individual/urn:svc:vocab:id-type%23national_id|{person}'; echo

# 3. Women born before 1966 (code 2 of ISO 5218 is female), two of them, names of codes in French
curl -s -H "Authorization: Bearer $TOKEN" -H 'Accept-Language: fr' '{url}/api/v2/Individual?gender=urn:iso:std:iso:5218%232&birth_date=lt1966-01-01&_count=2'; echo

# 4. Register somebody
curl -s -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d '{{"identifier":[{{"system":"urn:svc:vocab:id-type#national_id","value":"NEW-1"}}],"name":{{"given":"Amina","family":"Diallo"}},"gender":"urn:iso:std:iso:5218#2","birth_date":"1961-03-08","country":"urn:iso:std:iso:3166-1#SN"}}' {url}/api/v2/Individual; echo

# 5. Who gets an old-age pension? One is, one is not, of one the day of birth is not known
curl -s -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d '{{"expression":"is_female(me) && age_years(me.birth_date) >= 60","as_of":"2026-01-01","subjects":["Individual/urn:svc:vocab:id-type#national_id|NEW-1",{{"type":"individual","gender":"urn:iso:std:iso:5218#1","birth_date":"1950-01-01"}},{{"type":"individual","gender":"urn:iso:std:iso:5218#2"}}]}}' '{url}/api/v2/Eligibility/$evaluate'; echo

# 6. Does somebody head a household with a person of 60 or more in it?
curl -s -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d '{{"expression":"is_head(me) && members.exists(m, age_years(m.birth_date) >= 60)","subjects":["Individual/urn:svc:vocab:id-type#national_id|{person}"]}}' '{url}/api/v2/Eligibility/$evaluate'; echo

# 7. What the administrator sees; disable the client and its next call is refused
daftar client list --data-dir '{data_dir}'
daftar plugin list --data-dir '{data_dir}'

Stop with Ctrl-C; the folder of the demo is removed then."#
    )
}
