//! `daftar demo`

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use jiff::civil::Date;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use tokio::task::{JoinError, JoinSet};

use super::{CliError, GlobalArgs, output};
use crate::app::serve::{Listeners, START_END_TIMEOUT, default_plugins_dir, serve, shutdown_signal, unless_stopped};
use crate::app::{App, AppOptions, AppState};
use crate::telemetry;
use daftar_domain::client::{ClientId, ClientName, RateLimit};
use daftar_domain::code::CodeUri;
use daftar_domain::config::{Config, LogLevel};
use daftar_domain::error::TaskEnded;
use daftar_domain::extension::Extension;
use daftar_domain::field::FieldSet;
use daftar_domain::grant::Grants;
use daftar_domain::group::{self, GroupDetails, Member};
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::individual::{self, IncomePeriod, IndividualDetails};
use daftar_domain::scope::Scope;
use daftar_domain::value::Values;
use daftar_domain::{address, person_name};
use daftar_service::client::ClientChanges;
use daftar_service::codes::LanguagePreference;

/// Number of individuals in the register.
const PEOPLE: usize = 1_000;
/// Number of records written concurrently.
const WRITERS: usize = 32;
/// Scopes of the demo's client: they include all that the workbench uses.
const SCOPES: [&str; 6] =
    ["individual:all", "group:all", "program:read", "program_membership:read", "eligibility:all", "vocabulary:read"];
/// Rate limit of the demo's client, too high to be reached by interactive use.
const REQUESTS_PER_MINUTE: u32 = 600;

/// Options of the demo.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Address to listen on; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Folder of plugins
    #[arg(long, value_name = "DIR")]
    plugins: Option<PathBuf>,
}

/// Runs the command until a shutdown signal, then removes the folder.
pub fn run(global: &GlobalArgs, args: DemoArgs) -> Result<(), CliError> {
    let mut config = Config::default();
    config.server.listen = args.listen;
    config.server.admin_listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    config.log.level = global.log_level(LogLevel::Warn);
    config.validate()?;
    let (_, _log) = telemetry::start(&config.log, &config.otlp).map_err(CliError::settings)?;
    let folder = tempfile::Builder::new().prefix("daftar-demo-").tempdir().map_err(|error| {
        CliError::output(format_args!("cannot make a temporary folder: {error}; name another place in TMPDIR"))
    })?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CliError::failed)?;
    let mut is_stopped_early = false;
    let served = runtime.block_on(async {
        // First, as in `daftar serve`: until then SIGTERM is lost if this is the first process of a container.
        let mut shutdown = std::pin::pin!(shutdown_signal());
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
        let options = AppOptions { public_url: Some(url.clone()), plugins_dir, ..global.app_options(data_dir.clone()) };
        let starting = async {
            let app = App::open(config, options).await?;
            let started = Instant::now();
            let households = fill(&app).await?;
            let took = started.elapsed().as_secs_f64();
            say(format!(
                "wrote {PEOPLE} sample people in {households} households in {took:.1} s, each on disk before the next step"
            ));
            let (id, secret) = register_client(&app).await?;
            Ok::<_, CliError>((app, households, id, secret))
        };
        let Some(started) = unless_stopped(shutdown.as_mut(), starting).await else {
            is_stopped_early = true;
            return Ok(());
        };
        let (app, households, id, secret) = started?;
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
        serve(app, listeners, move || output::line(guide), None, shutdown).await.map_err(CliError::from)
    });
    if is_stopped_early {
        runtime.shutdown_timeout(START_END_TIMEOUT);
    } else {
        drop(runtime);
    }
    // Its error names the folder.
    served.and(folder.close().map_err(|error| {
        CliError::output(format_args!("cannot remove the folder of the demo, which has keys: {error}; remove it"))
    }))
}

/// Binds the configured port, or any free port if it is in use.
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

/// Writes individuals and households as a client would; returns the number of households.
async fn fill(app: &AppState) -> Result<usize, CliError> {
    let households = households(PEOPLE);
    let progress = output::bar(false, PEOPLE as u64, "{msg} {wide_bar} {pos}/{len}").with_message("writing people");
    let count = households.len();
    let mut writers = JoinSet::new();
    for household in households {
        if writers.len() == WRITERS
            && let Some(finished) = writers.join_next().await
        {
            progress.inc(written(finished)?);
        }
        let app = app.clone();
        writers.spawn(async move { write_household(&app, household).await });
    }
    while let Some(finished) = writers.join_next().await {
        progress.inc(written(finished)?);
    }
    progress.finish_and_clear();
    Ok(count)
}

/// Returns the number of individuals that a task wrote.
fn written(finished: Result<Result<u64, CliError>, JoinError>) -> Result<u64, CliError> {
    finished.map_err(|error| CliError::failed(TaskEnded::from(error)))?
}

async fn write_household(app: &AppState, household: Household) -> Result<u64, CliError> {
    let ctx = app.system_context();
    let languages = LanguagePreference::parse("en");
    let mut written = 0;
    for person in household.people {
        daftar_service::individual::create(&ctx, &app.registry, languages.clone(), person.into())
            .await
            .map_err(CliError::failed)?;
        written += 1;
    }
    daftar_service::group::create(&ctx, &app.registry, languages, household.group.into())
        .await
        .map_err(CliError::failed)?;
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

/// Returns the commands to paste.
fn guide(url: &str, data_dir: &Path, id: &ClientId, secret: &str) -> String {
    let data_dir = data_dir.display();
    let person = SAMPLE_PERSON;
    format!(
        r#"listening on {url}

# In a browser: {url}/workbench
#   client id      {id}
#   client secret  {secret}

Paste into another terminal, in this order:

# 1. A token for the demo's client (5 a minute from one address)
TOKEN=$(curl -s -u '{id}:{secret}' -d grant_type=client_credentials {url}/api/v2/oauth/token | sed 's/.*"access_token":"\([^"]*\)".*/\1/'); echo "$TOKEN"

# 2. One person, by identifier (the # of the identifier's system is written %23)
curl -s -H "Authorization: Bearer $TOKEN" '{url}/api/v2/Individual/urn:svc:vocab:id-type%23national_id|{person}'; echo

# 3. Women born before 1966 (code 2 of ISO 5218 is female), two of them, names of codes in French
curl -s -H "Authorization: Bearer $TOKEN" -H 'Accept-Language: fr' '{url}/api/v2/Individual?gender=urn:iso:std:iso:5218%232&birth_date=lt1966-01-01&_count=2'; echo

# 4. Register a person
curl -s -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d '{{"identifier":[{{"system":"urn:svc:vocab:id-type#national_id","value":"NEW-1"}}],"name":{{"given":"Amina","family":"Diallo"}},"gender":"urn:iso:std:iso:5218#2","birth_date":"1961-03-08","country":"urn:iso:std:iso:3166-1#SN"}}' {url}/api/v2/Individual; echo

# 5. Who gets an old-age pension? One is, one is not, of one the day of birth is not known
curl -s -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d '{{"expression":"is_female(me) && age_years(me.birth_date) >= 60","as_of":"2026-01-01","subjects":["Individual/urn:svc:vocab:id-type#national_id|NEW-1",{{"type":"individual","gender":"urn:iso:std:iso:5218#1","birth_date":"1950-01-01"}},{{"type":"individual","gender":"urn:iso:std:iso:5218#2"}}]}}' '{url}/api/v2/Eligibility/$evaluate'; echo

# 6. Does a person head a household with a member of 60 or more?
curl -s -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d '{{"expression":"is_head(me) && members.exists(m, age_years(m.birth_date) >= 60)","subjects":["Individual/urn:svc:vocab:id-type#national_id|{person}"]}}' '{url}/api/v2/Eligibility/$evaluate'; echo

# 7. What the administrator sees; disable the client and its next call is refused
daftar client list --data-dir '{data_dir}'
daftar plugin list --data-dir '{data_dir}'

Stop with Ctrl-C; the folder of the demo is removed then."#
    )
}

/// The identifier of the first individual: the head of the first household.
const SAMPLE_PERSON: &str = "DEMO-000001";

const GENDER: &str = "urn:iso:std:iso:5218";
const RELATIONSHIP: &str = "urn:svc:vocab:relationship";
const MARITAL_STATUS: &str = "urn:un:unsd:pop-census:marital-status";
const COUNTRY: &str = "urn:iso:std:iso:3166-1";
const GROUP_TYPE: &str = "urn:svc:vocab:group-type";
const NATIONAL_ID: &str = "urn:svc:vocab:id-type#national_id";
const SEED: u64 = 5_218;

const FEMALE: &str = "Amina, Fatou, Aïssatou, Mariam, Khadija, Zeynab, Grace, Nomvula, Wanjiru, Achieng, Rosa, Lucía, \
    María José, Inês, Ngọc, Thị Lan, Sunita, Priya, Nasrin, فاطمة, ليلى, Siti, Dewi, Marija";
const MALE: &str = "Ibrahima, Moussa, Ousmane, Yusuf, Hassan, Abebe, Samuel, Thabo, Kamau, Otieno, José, Andrés, João, \
    Tiago, Minh, Văn Hùng, Ramesh, Arjun, Karim, محمد, أحمد, Budi, Agus, Petar";
const FAMILY: &str = "Diallo, N'Diaye, Traoré, Ouédraogo, Haile, Tesfaye, Mwangi, Odhiambo, Dlamini, Okafor, García, \
    Álvarez, Núñez, Gonçalves, da Silva, Nguyễn, Trần, Sharma, Rahman, الحسن, النجار, Santoso, Wijaya, \
    Petrović";
const COUNTRIES: &str = "SN, ML, ET, KE, ZA, CO, VN, BD";
const DISTRICTS: &str = "North, South, East, West, Riverside, Old Town";

/// The fields of a record to register, or of a nested object.
type Part = Values<CodeUri, IdentifierKey>;

/// A household with its members.
struct Household {
    /// The members, the head first.
    people: Vec<IndividualDetails<CodeUri, IdentifierKey>>,
    /// The household.
    group: GroupDetails<CodeUri, IdentifierKey>,
}

/// Generates households with `people` individuals in total.
#[must_use]
fn households(people: usize) -> Vec<Household> {
    let mut random = StdRng::seed_from_u64(SEED);
    let mut households = Vec::new();
    let mut made = 0;
    while made < people {
        let size = random.random_range(1..=7).min(people - made);
        let number = households.len() + 1;
        households.extend(household(&mut random, number, made + 1, size));
        made += size;
    }
    households
}

fn household(random: &mut StdRng, number: usize, first_person: usize, size: usize) -> Option<Household> {
    let family = pick(random, FAMILY);
    let country = pick(random, COUNTRIES);
    let district = pick(random, DISTRICTS);
    let mut people = Vec::with_capacity(size);
    let mut members = Vec::with_capacity(size);
    for at in 0..size {
        let (role, ages, marital) = match at {
            0 => ("head", 20..=85, "M"),
            1 => ("spouse", 18..=80, "M"),
            2 if random.random_ratio(1, 4) => ("parent", 60..=95, "W"),
            _ => ("child", 0..=24, "S"),
        };
        let is_female = if at == 0 { random.random_ratio(1, 3) } else { random.random_bool(0.52) };
        let given = pick(random, if is_female { FEMALE } else { MALE });
        let key = identifier(&format!("DEMO-{:06}", first_person + at))?;
        // As in field work, some facts are not recorded.
        let is_birth_date_known = at == 0 || random.random_ratio(19, 20);
        let is_gender_known = at == 0 || random.random_ratio(49, 50);
        let birth_year = 2026 - random.random_range(ages);
        let birth_date = Date::new(birth_year, random.random_range(1..=12), random.random_range(1..=28)).ok()?;
        let gender = code(GENDER, if is_female { "2" } else { "1" })?;
        let name =
            Part::default().with(person_name::FAMILY, family.to_owned()).with(person_name::GIVEN, given.to_owned());
        let address = Part::default()
            .with(address::DISTRICT, district.to_owned())
            .with(address::COUNTRY, code(COUNTRY, country)?);
        let identifiers = vec![Identifier { key: key.clone(), period: None }];
        let person = IndividualDetails::new(identifiers, Part::default(), Extension::default())
            .with(individual::ACTIVE, true)
            .with(individual::NAME, name)
            .with(individual::BIRTH_DATE, is_birth_date_known.then_some(birth_date))
            .with(individual::BIRTH_DATE_ESTIMATED, is_birth_date_known.then(|| random.random_ratio(1, 10)))
            .with(individual::GENDER, is_gender_known.then_some(gender))
            .with(individual::MARITAL_STATUS, code(MARITAL_STATUS, marital)?)
            .with(individual::COUNTRY, code(COUNTRY, country)?)
            .with(individual::ADDRESS, vec![address]);
        let income = (birth_year < 2006 && random.random_ratio(2, 3)).then(|| {
            let amount = f64::from(random.random_range(10..900)) * 10.0;
            let income = Part::default().with(individual::INCOME_AMOUNT, amount);
            income.with(individual::INCOME_PERIOD, IncomePeriod::Month)
        });
        people.push(person.with(individual::INCOME, income));
        members.push(Member {
            individual: key,
            role: Some(code(RELATIONSHIP, role)?),
            period: None,
            is_inactive: false,
        });
    }
    let identifiers = vec![Identifier { key: identifier(&format!("DEMO-H-{number:05}"))?, period: None }];
    let group = GroupDetails::new(identifiers, Part::default(), Extension::default())
        .with(group::ACTIVE, true)
        .with(group::NAME, format!("{family} household"))
        .with(group::GROUP_TYPE, code(GROUP_TYPE, "household")?)
        .with(group::MEMBER, members);
    Some(Household { people, group })
}

fn identifier(value: &str) -> Option<IdentifierKey> {
    IdentifierKey::parse(&format!("{NATIONAL_ID}|{value}")).ok()
}

fn code(namespace: &str, code: &str) -> Option<CodeUri> {
    CodeUri::from_parts(namespace, code).ok()
}

/// Picks one item of a comma-separated list.
fn pick(random: &mut StdRng, all: &'static str) -> &'static str {
    let count = all.split(", ").count();
    all.split(", ").nth(random.random_range(0..count)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_household_has_one_head_and_all_people_are_there() {
        let households = households(1_000);
        let people: usize = households.iter().map(|household| household.people.len()).sum();
        assert_eq!(people, 1_000);
        for household in &households {
            let members: Vec<_> = household.group.items(group::MEMBER).collect();
            let heads = members.iter().filter(|member| member.role.as_ref().unwrap().code.as_str() == "head");
            assert_eq!(heads.count(), 1);
            assert_eq!(members.len(), household.people.len());
        }
        let first = &households[0].people[0];
        assert_eq!(first.identifiers[0].key.value.as_str(), SAMPLE_PERSON);
    }
}
