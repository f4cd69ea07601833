//! Searches over a million people: how long each kind takes, how much memory a person takes, and how that compares with looking
//! at and sorting everybody.

use std::hint::black_box;
use std::time::Instant;

use daftar::app::App;
use daftar::columns::{Columns, SearchLimits, Snapshot};
use daftar::domain::calendar::date_from_days;
use daftar::domain::code::{CodeNumber, CodeUri};
use daftar::domain::person_name::search_words;
use daftar::domain::search::found::Sorting;
use daftar::domain::search::instant::InstantCondition;
use daftar::domain::search::order::{Direction, SortField, SortKey, Start, Window};
use daftar::domain::search::{
    CodeCondition, CodedPlace, DateCondition, DateOperator, IndividualQuery, PlaceCondition, TextConditions,
};
use daftar::domain::vocabulary::CodedField;
use daftar::vocab::Generation;

use crate::codes::{median_and_p99, micros, millis, resident_mb};
use crate::people::{Codes, Dice, HOUSEHOLD, household, name, national_id, person};
use crate::server::{artifacts_folder, options, settings};

/// How many people there are.
const PEOPLE: u64 = 1_000_000;
/// What the register is made from.
const SEED: u64 = 20_260_101;
/// How many searches of each kind are timed.
const ROUNDS: u64 = 300;
/// How many records are loaded at once, as at the start of a server.
const PAGE: u64 = 1_024;

/// Makes the register and times the searches.
pub fn run() -> Result<(), String> {
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let plugins = artifacts_folder()?.join("plugins");
    let app = runtime.block_on(async {
        App::open(settings(), options(folder.path(), &plugins)?).await.map_err(|error| error.to_string())
    })?;
    let generation = app.registry.vocabularies.current();
    let codes = Codes::of(&generation)?;
    let columns = load(&codes)?;
    let snapshot = columns.snapshot();
    let bench = Bench { snapshot: &snapshot, generation: &generation, codes: &codes };
    bench.filters()?;
    bench.orders();
    bench.walk();
    against_everybody(&snapshot, &codes)?;
    while_others_write(&columns, &codes)?;
    app.close();
    Ok(())
}

fn load(codes: &Codes) -> Result<Columns, String> {
    let before = resident_mb("/proc/self/status");
    let started = Instant::now();
    let columns = Columns::default();
    let mut spent = 0.0;
    for first in (1..=PEOPLE).step_by(PAGE as usize) {
        let page: Result<Vec<_>, _> =
            (first..(first + PAGE).min(PEOPLE + 1)).map(|id| person(SEED, id, codes)).collect();
        let page = page?;
        let begun = Instant::now();
        columns.load_individuals(&page);
        spent += millis(begun);
    }
    let people_mb = resident_mb("/proc/self/status") - before;
    let begun = Instant::now();
    for first in (1..=PEOPLE / HOUSEHOLD).step_by(PAGE as usize) {
        let page: Vec<_> = (first..(first + PAGE).min(PEOPLE / HOUSEHOLD + 1)).map(|id| household(id, codes)).collect();
        columns.load_groups(&page);
    }
    println!(
        "search: {PEOPLE} people made and indexed in {:.1} s ({:.1} s of it indexing), {} households in {:.1} s",
        millis(started) / 1e3,
        spent / 1e3,
        PEOPLE / HOUSEHOLD,
        millis(begun) / 1e3
    );
    let all_mb = resident_mb("/proc/self/status") - before;
    println!(
        "search: memory {:.0} bytes a person ({people_mb:.0} MB), {:.0} with households ({all_mb:.0} MB)",
        people_mb * 1_048_576.0 / PEOPLE as f64,
        all_mb * 1_048_576.0 / PEOPLE as f64
    );
    Ok(columns)
}

struct Bench<'a> {
    snapshot: &'a Snapshot,
    generation: &'a Generation,
    codes: &'a Codes,
}

fn first_page() -> Window {
    Window { start: Start::Offset(0), count: 20 }
}

fn by(field: SortField, direction: Direction) -> SortKey {
    SortKey { field, direction }
}

fn texts(texts: TextConditions) -> IndividualQuery {
    IndividualQuery { texts, ..IndividualQuery::default() }
}

fn coded(field: CodedField, any_of: Vec<CodeNumber>) -> CodeCondition {
    CodeCondition { field: CodedPlace::Field(field), any_of }
}

impl Bench<'_> {
    /// Times searches of one kind, which `query` makes anew for each round.
    fn time(&self, what: &str, keys: &[SortKey], window: &Window, query: impl Fn(&mut Dice) -> IndividualQuery) {
        let ranks = self.generation.code_ranks(&["urn:iso:std:iso:5218", "urn:ilo:isco-08"]);
        let sorting = Sorting { keys, code_ranks: &ranks };
        let mut times = Vec::new();
        let mut found = 0;
        for round in 0..ROUNDS {
            let query = query(&mut Dice::new(SEED, round));
            let started = Instant::now();
            let answer = black_box(self.snapshot.search(&query, SearchLimits::default(), sorting, window));
            times.push(micros(started));
            found += answer.total;
        }
        let (median, p99) = median_and_p99(&mut times);
        let worst = times.last().copied().unwrap_or_default();
        println!(
            "search: {what:<44} median {:>7.3} ms  p99 {:>7.3} ms (target 10)  worst {:>7.3} ms  found {:>9} on average",
            median / 1e3,
            p99 / 1e3,
            worst / 1e3,
            found / ROUNDS
        );
    }

    fn filters(&self) -> Result<(), String> {
        let ids: Result<Vec<_>, _> = (0..ROUNDS).map(|round| national_id(round * 3_331 + 1)).collect();
        let (page, ids) = (first_page(), ids?);
        let words = |dice: &mut Dice| search_words(&name(dice).display());
        self.time("identifier", &[], &page, |dice| {
            let at = usize::try_from(dice.below(ids.len() as u64)).unwrap_or_default();
            IndividualQuery { identifiers: ids.get(at).cloned().into_iter().collect(), ..IndividualQuery::default() }
        });
        self.time("name, one word", &[], &page, |dice| {
            texts(TextConditions { name_words: words(dice).into_iter().take(1).collect(), ..TextConditions::default() })
        });
        self.time("name, every word", &[], &page, |dice| {
            texts(TextConditions { name_words: words(dice), ..TextConditions::default() })
        });
        self.time("name, first letter", &[], &page, |dice| {
            let letter = words(dice).first().and_then(|word| word.chars().next()).map(String::from);
            texts(TextConditions { name_words: letter.into_iter().collect(), ..TextConditions::default() })
        });
        self.time("address words", &[], &page, |dice| {
            let address_words = vec!["rue".to_owned(), dice.below(200).to_string()];
            texts(TextConditions { address_words, ..TextConditions::default() })
        });
        self.time("region", &[], &page, |_| {
            texts(TextConditions { regions: vec!["central".to_owned()], ..TextConditions::default() })
        });
        self.time("gender", &[], &page, |dice| self.of_gender(dice));
        self.time("occupation:below", &[], &page, |dice| self.in_occupation(dice));
        self.time("birth_date, five years", &[], &page, |dice| self.born(dice));
        self.time("everybody", &[], &page, |_| IndividualQuery::default());
        self.time("active=true", &[], &page, |_| IndividualQuery { active: Some(true), ..IndividualQuery::default() });
        self.time("_last_updated=ge", &[], &page, |dice| {
            let first_ms = 1_700_000_000_000 + i64::try_from(dice.below(PEOPLE * 50)).unwrap_or_default();
            let last_updated =
                vec![InstantCondition { operator: DateOperator::OnOrAfter, first_ms, last_ms: first_ms }];
            IndividualQuery { last_updated, ..IndividualQuery::default() }
        });
        let heads: Vec<CodeNumber> = self.codes.roles.first().copied().into_iter().collect();
        self.time("membership_role", &[], &page, |_| {
            let place = PlaceCondition { roles: vec![heads.clone()], ..PlaceCondition::default() };
            IndividualQuery { place: Some(place), ..IndividualQuery::default() }
        });
        self.time("group=none", &[], &page, |_| {
            let place = PlaceCondition { is_none: true, ..PlaceCondition::default() };
            IndividualQuery { place: Some(place), ..IndividualQuery::default() }
        });
        self.time("below, gender, region, five years, active", &[], &page, |dice| self.combined(dice));
        Ok(())
    }

    fn orders(&self) {
        let page = first_page();
        let (name, born) = (SortField::Name, SortField::BirthDate);
        let ascending = [by(name, Direction::Ascending)];
        self.time("everybody by name", &ascending, &page, |_| IndividualQuery::default());
        self.time("everybody by -name", &[by(name, Direction::Descending)], &page, |_| IndividualQuery::default());
        let both = [by(born, Direction::Descending), by(name, Direction::Ascending)];
        self.time("everybody by -birth_date,name", &both, &page, |_| IndividualQuery::default());
        let newest = [by(SortField::LastUpdated, Direction::Descending)];
        self.time("everybody by -_last_updated", &newest, &page, |_| IndividualQuery::default());
        let occupation = [by(SortField::Code(CodedField::Occupation), Direction::Ascending), ascending[0]];
        self.time("everybody by occupation,name", &occupation, &page, |_| IndividualQuery::default());
        self.time("gender by name", &ascending, &page, |dice| self.of_gender(dice));
        self.time("occupation:below by name", &ascending, &page, |dice| self.in_occupation(dice));
        self.time("combined by -birth_date,name", &both, &page, |dice| self.combined(dice));
        let far = Window { start: Start::Offset(PEOPLE / 2), count: 20 };
        self.time("everybody by name, _offset=500000", &ascending, &far, |_| IndividualQuery::default());
    }

    /// Walks by cursor, as whoever exports the register does.
    fn walk(&self) {
        let keys = [by(SortField::Name, Direction::Ascending)];
        let sorting = Sorting { keys: &keys, code_ranks: &[] };
        let mut window = Window { start: Start::Offset(PEOPLE / 2), count: 100 };
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let started = Instant::now();
            let found = self.snapshot.search(&IndividualQuery::default(), SearchLimits::default(), sorting, &window);
            times.push(micros(started));
            let Some(next) = found.next else { break };
            window.start = Start::After(next);
        }
        let (median, p99) = median_and_p99(&mut times);
        println!(
            "search: everybody by name, page after page by cursor: median {:.3} ms, p99 {:.3} ms",
            median / 1e3,
            p99 / 1e3
        );
    }

    fn of_gender(&self, dice: &mut Dice) -> IndividualQuery {
        let number = dice.often(&self.codes.genders).copied();
        let codes = vec![coded(CodedField::Gender, number.into_iter().collect())];
        IndividualQuery { codes, ..IndividualQuery::default() }
    }

    fn in_occupation(&self, dice: &mut Dice) -> IndividualQuery {
        let field = CodedField::Occupation;
        let group = CodeUri::from_parts("urn:ilo:isco-08", &dice.below(10).to_string()).ok();
        let below = group.and_then(|uri| self.generation.resolve_filter_below(field.namespaces(), &uri).ok());
        IndividualQuery { codes: vec![coded(field, below.unwrap_or_default())], ..IndividualQuery::default() }
    }

    fn born(&self, dice: &mut Dice) -> IndividualQuery {
        let first = i32::try_from(dice.below(30_000)).unwrap_or_default() - 14_000;
        let days = [(DateOperator::OnOrAfter, first), (DateOperator::Before, first + 1_826)];
        let conditions =
            days.into_iter().filter_map(|(operator, day)| Some(DateCondition { operator, date: date_from_days(day)? }));
        IndividualQuery { birth_date: conditions.collect(), ..IndividualQuery::default() }
    }

    fn combined(&self, dice: &mut Dice) -> IndividualQuery {
        let mut query = self.in_occupation(dice);
        query.codes.extend(self.of_gender(dice).codes);
        query.birth_date = self.born(dice).birth_date;
        query.texts.regions.push("central".to_owned());
        query.active = Some(true);
        query
    }
}

/// The same answers by looking at everybody and sorting all of them, once: what the indexes and orders save.
fn against_everybody(snapshot: &Snapshot, codes: &Codes) -> Result<(), String> {
    let mut everybody = Vec::new();
    for id in 1..=PEOPLE {
        let person = person(SEED, id, codes)?;
        let name = person.details.name.as_ref().map(|name| name.sort_text()).unwrap_or_default();
        everybody.push((name, person.details.code(CodedField::Gender).map(|value| value.number), id));
    }
    let wanted = codes.genders.first().copied();
    let started = Instant::now();
    let mut found: Vec<&(String, Option<CodeNumber>, u64)> =
        everybody.iter().filter(|(_, gender, _)| *gender == wanted).collect();
    found.sort_by(|one, other| one.0.cmp(&other.0).then(one.2.cmp(&other.2)));
    let naive = micros(started);
    let keys = [by(SortField::Name, Direction::Ascending)];
    let query = IndividualQuery {
        codes: vec![coded(CodedField::Gender, wanted.into_iter().collect())],
        ..IndividualQuery::default()
    };
    let started = Instant::now();
    let answer =
        snapshot.search(&query, SearchLimits::default(), Sorting { keys: &keys, code_ranks: &[] }, &first_page());
    let ours = micros(started);
    let expected: Vec<u64> = found.iter().take(20).map(|(_, _, id)| *id).collect();
    let given: Vec<u64> = answer.ids.iter().map(|id| id.0).collect();
    if (answer.total, &given) != (found.len() as u64, &expected) {
        return Err(format!(
            "a search found {} {given:?}, a look at everybody {} {expected:?}",
            answer.total,
            found.len()
        ));
    }
    println!(
        "search: one gender by name: {:.2} ms, a look at everybody with a sort {:.0} ms: {:.0} times as fast, same answer",
        ours / 1e3,
        naive / 1e3,
        naive / ours.max(1.0)
    );
    Ok(())
}

/// Searches with a write before each: every search takes a snapshot of its own.
fn while_others_write(columns: &Columns, codes: &Codes) -> Result<(), String> {
    let keys = [by(SortField::Name, Direction::Ascending)];
    let (mut writes, mut searches) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let changed = person(SEED + 1, round * 3_331 % PEOPLE + 1, codes)?;
        let started = Instant::now();
        columns.load_individuals(&[changed]);
        let snapshot = columns.snapshot();
        writes.push(micros(started));
        let sorting = Sorting { keys: &keys, code_ranks: &[] };
        let started = Instant::now();
        black_box(snapshot.search(&IndividualQuery::default(), SearchLimits::default(), sorting, &first_page()));
        searches.push(micros(started));
    }
    let (write, write_p99) = median_and_p99(&mut writes);
    let (search, search_p99) = median_and_p99(&mut searches);
    println!("search: a write and a fresh snapshot: median {write:.0} us, p99 {write_p99:.0} us");
    println!(
        "search: everybody by name after each write: median {:.3} ms, p99 {:.3} ms",
        search / 1e3,
        search_p99 / 1e3
    );
    Ok(())
}
