//! Make-believe people in households, the same ones every time.

use jiff::civil::Date;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use daftar_domain::address;
use daftar_domain::code::CodeUri;
use daftar_domain::extension::Extension;
use daftar_domain::group::{self, GroupDetails, Member};
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::individual::{self, IncomePeriod, IndividualDetails};
use daftar_domain::person_name;
use daftar_domain::value::Values;

/// The identifier of the first person: the head of the first household.
pub const SAMPLE_PERSON: &str = "DEMO-000001";

const GENDER: &str = "urn:iso:std:iso:5218";
const RELATIONSHIP: &str = "urn:svc:vocab:relationship";
const MARITAL_STATUS: &str = "urn:un:unsd:pop-census:marital-status";
const COUNTRY: &str = "urn:iso:std:iso:3166-1";
const GROUP_TYPE: &str = "urn:svc:vocab:group-type";
const NATIONAL_ID: &str = "urn:svc:vocab:id-type#national_id";
const SEED: u64 = 5_218;

const FEMALE: [&str; 24] = [
    "Amina",
    "Fatou",
    "Aïssatou",
    "Mariam",
    "Khadija",
    "Zeynab",
    "Grace",
    "Nomvula",
    "Wanjiru",
    "Achieng",
    "Rosa",
    "Lucía",
    "María José",
    "Inês",
    "Ngọc",
    "Thị Lan",
    "Sunita",
    "Priya",
    "Nasrin",
    "فاطمة",
    "ليلى",
    "Siti",
    "Dewi",
    "Marija",
];
const MALE: [&str; 24] = [
    "Ibrahima",
    "Moussa",
    "Ousmane",
    "Yusuf",
    "Hassan",
    "Abebe",
    "Samuel",
    "Thabo",
    "Kamau",
    "Otieno",
    "José",
    "Andrés",
    "João",
    "Tiago",
    "Minh",
    "Văn Hùng",
    "Ramesh",
    "Arjun",
    "Karim",
    "محمد",
    "أحمد",
    "Budi",
    "Agus",
    "Petar",
];
const FAMILY: [&str; 24] = [
    "Diallo",
    "N'Diaye",
    "Traoré",
    "Ouédraogo",
    "Haile",
    "Tesfaye",
    "Mwangi",
    "Odhiambo",
    "Dlamini",
    "Okafor",
    "García",
    "Álvarez",
    "Núñez",
    "Gonçalves",
    "da Silva",
    "Nguyễn",
    "Trần",
    "Sharma",
    "Rahman",
    "الحسن",
    "النجار",
    "Santoso",
    "Wijaya",
    "Petrović",
];
const COUNTRIES: [&str; 8] = ["SN", "ML", "ET", "KE", "ZA", "CO", "VN", "BD"];
const DISTRICTS: [&str; 6] = ["North", "South", "East", "West", "Riverside", "Old Town"];

/// The fields of a record that is to be registered, or of a part of one.
type Part = Values<CodeUri, IdentifierKey>;

/// A household with the people in it.
pub struct Household {
    /// The people, the head first.
    pub people: Vec<IndividualDetails<CodeUri, IdentifierKey>>,
    /// The household.
    pub group: GroupDetails<CodeUri, IdentifierKey>,
}

/// Households that hold `people` people in all.
#[must_use]
pub fn households(people: usize) -> Vec<Household> {
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
    let family = pick(random, &FAMILY);
    let country = pick(random, &COUNTRIES);
    let district = pick(random, &DISTRICTS);
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
        let given = pick(random, if is_female { &FEMALE } else { &MALE });
        let key = identifier(&format!("DEMO-{:06}", first_person + at))?;
        // What field work looks like: some facts are not recorded.
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

fn pick(random: &mut StdRng, all: &'static [&'static str]) -> &'static str {
    all.get(random.random_range(0..all.len())).copied().unwrap_or_default()
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
