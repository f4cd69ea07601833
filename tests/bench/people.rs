//! A made-up register: people with names of several languages and scripts, in households, all of it the same for the same seed.

pub mod bodies;

use std::sync::Arc;

use daftar::domain::address::Address;
use daftar::domain::calendar::date_from_days;
use daftar::domain::code::{CodeNumber, CodedValue, EditionNumber, Namespace};
use daftar::domain::group::{Group, GroupDetails, Member};
use daftar::domain::identifier::{Identifier, IdentifierKey};
use daftar::domain::individual::{Income, Individual, IndividualDetails};
use daftar::domain::person_name::PersonName;
use daftar::domain::record::{Record, RecordId, RecordMeta, VersionId};
use daftar::domain::vocabulary::CodedField;
use daftar::vocab::Generation;

/// How many people live in one household.
pub const HOUSEHOLD: u64 = 5;

/// Given and family names of one language each, written as its speakers write them.
const NAMES: &[(&[&str], &[&str])] = &[
    (
        &[
            "José",
            "María",
            "Álvaro",
            "Inés",
            "Íñigo",
            "Zoë",
            "François",
            "Chloé",
            "Aminata",
            "Moussa",
            "Fatou",
            "Ousmane",
        ],
        &[
            "Núñez",
            "Álvarez",
            "N'Diaye",
            "Traoré",
            "Ouédraogo",
            "Diallo",
            "García",
            "Müller",
            "Søndergård",
            "Łukasiewicz",
        ],
    ),
    (
        &["Thị Lan", "Văn Hùng", "Minh Đức", "Thùy Linh", "Quốc Bảo", "Hồng Nhung", "Anh Tuấn", "Ngọc Ánh"],
        &["Nguyễn", "Trần", "Lê", "Phạm", "Huỳnh", "Đặng", "Bùi", "Võ"],
    ),
    (
        &["محمد", "فاطمة", "عبد الرحمن", "خديجة", "يوسف", "عائشة", "إبراهيم", "مريم", "أحمد", "زينب"],
        &["الحسن", "العلي", "بن عمر", "الخطيب", "المصري", "السوداني", "حداد", "النجار"],
    ),
    (
        &["राम", "सीता", "लक्ष्मी", "कृष्ण", "गीता", "अर्जुन", "पार्वती", "विष्णु", "सरस्वती", "हरि"],
        &["शर्मा", "थापा", "गुरुङ", "यादव", "श्रेष्ठ", "तामाङ", "अधिकारी", "चौधरी"],
    ),
    (
        &["አበበ", "አለማየሁ", "ትዕግሥት", "ሰላም", "ኃይሌ", "መሠረት", "ተስፋዬ", "ብርሃኔ", "ገነት", "ዮሐንስ"],
        &["በቀለ", "ወልደ ማርያም", "ገብረ ክርስቶስ", "ደስታ", "ታደሰ", "አሰፋ", "ከበደ", "መንግሥቱ"],
    ),
    (
        &["伟", "芳", "秀英", "娜", "敏", "静", "丽", "强", "磊", "洋", "艳", "勇"],
        &["王", "李", "张", "刘", "陈", "杨", "黄", "赵", "吴", "欧阳"],
    ),
    (
        &["রহিম", "করিম", "ফাতেমা", "আয়েশা", "সুমন", "নাসরিন", "জাহিদ", "রুমানা", "হাসান", "সালমা"],
        &["ইসলাম", "হোসেন", "আহমেদ", "খাতুন", "বেগম", "দাস", "সরকার", "মিয়া"],
    ),
    (
        &["Kamala", "Nimal", "Sunil", "Priyanka", "Murugan", "Lakshmi", "Anura", "Dilini", "Sivakumar", "Tharushi"],
        &[
            "Perera",
            "Fernando",
            "Rajapaksha",
            "Subramaniam",
            "Wickramasinghe",
            "Balasooriya",
            "Jayawardena",
            "De Silva",
        ],
    ),
];

const REGIONS: [&str; 9] =
    ["Northern", "Région de Thiès", "Central", "Đồng bằng", "الشمالية", "बागमती", "አማራ", "广西", "ঢাকা"];
const STREETS: [&str; 6] = ["Rue de l'Église", "Temple Road", "شارع النيل", "मार्ग", "人民路", "Calle Mayor"];

/// Numbers that look random and are the same for the same seed (splitmix64).
pub struct Dice(u64);

impl Dice {
    /// A row of numbers of its own for each thing that is made.
    pub fn new(seed: u64, of: u64) -> Self {
        Self(seed ^ of.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end.max(1)
    }

    /// One of some, the first ones far more often than the last: as names are given.
    pub fn often<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        let count = of.len() as u64;
        let at = self.below(count).min(self.below(count));
        of.get(usize::try_from(at).ok()?)
    }
}

/// The codes that people hold, as the register numbers them.
pub struct Codes {
    /// The first ones are given far more often than the last.
    pub genders: Vec<CodeNumber>,
    pub marital_statuses: Vec<CodeNumber>,
    pub occupations: Vec<CodeNumber>,
    /// What the members of a household are, in their order: the last one stands for all that follow.
    pub roles: Vec<CodeNumber>,
}

/// The vocabulary of sexes, the most frequent one first.
const GENDERS: (&str, &[&str]) = ("urn:iso:std:iso:5218", &["2", "1", "0", "9"]);
/// The vocabulary of roles, and those that made-up households have.
const ROLES: (&str, &[&str]) = ("urn:svc:vocab:relationship", &["head", "spouse", "child"]);

impl Codes {
    /// The codes of a generation.
    pub fn of(generation: &Generation) -> Result<Self, String> {
        let numbers = |namespace: &str| {
            let namespace = Namespace::parse(namespace).map_err(|error| error.to_string())?;
            let numbers = generation.table().numbers_in(&namespace).to_vec();
            if numbers.is_empty() { Err(format!("the vocabulary `{namespace}` is not there")) } else { Ok(numbers) }
        };
        let named = |(namespace, codes): (&str, &[&str])| {
            let namespace = Namespace::parse(namespace).map_err(|error| error.to_string())?;
            let number = |code: &&str| {
                let number = generation.table().number_of(&namespace, code);
                number.ok_or_else(|| format!("the code `{namespace}#{code}` is not there"))
            };
            codes.iter().map(number).collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            genders: named(GENDERS)?,
            marital_statuses: numbers("urn:un:unsd:pop-census:marital-status")?,
            occupations: numbers("urn:ilo:isco-08")?,
            roles: named(ROLES)?,
        })
    }
}

fn value(number: CodeNumber) -> CodedValue {
    CodedValue { number, edition: EditionNumber(0) }
}

/// The national id of a person.
pub fn national_id(id: u64) -> Result<IdentifierKey, String> {
    IdentifierKey::parse(&format!("urn:svc:vocab:id-type#national_id|{:010}", id.wrapping_mul(7_919) % 10_000_000_000))
        .map_err(|error| error.to_string())
}

/// A name as somebody might be called.
pub fn name(dice: &mut Dice) -> PersonName {
    let Some((given, family)) = dice.often(NAMES) else { return PersonName::default() };
    let text = |name: Option<&&str>| name.map(|name| (*name).to_owned());
    PersonName {
        given: text(dice.often(given)),
        middle: if dice.below(2) == 0 { text(dice.often(given)) } else { None },
        family: text(dice.often(family)),
        ..PersonName::default()
    }
}

/// The instant at which a record was last written.
fn written(id: u64) -> jiff::Timestamp {
    let at_ms = 1_700_000_000_000_i64.saturating_add(i64::try_from(id).unwrap_or_default().saturating_mul(50));
    jiff::Timestamp::from_millisecond(at_ms).unwrap_or_default()
}

fn record<D>(id: u64, details: D) -> Arc<Record<D>> {
    let meta = RecordMeta { version: VersionId::FIRST, last_updated: written(id), source: None };
    Arc::new(Record { id: RecordId(id), meta, details })
}

/// The person of that key.
pub fn person(seed: u64, id: u64, codes: &Codes) -> Result<Arc<Individual>, String> {
    let mut dice = Dice::new(seed, id);
    let day = i32::try_from(dice.below(34_000)).unwrap_or_default() - 14_000;
    let mut coded = Vec::new();
    let fields = [
        (CodedField::Gender, &codes.genders, 1),
        (CodedField::MaritalStatus, &codes.marital_statuses, 3),
        (CodedField::Occupation, &codes.occupations, 2),
    ];
    for (field, numbers, of) in fields {
        if dice.below(20) >= of {
            coded.extend(dice.often(numbers).map(|number| (field, value(*number))));
        }
    }
    let region = dice.often(&REGIONS).copied().unwrap_or_default();
    let street = dice.often(&STREETS).copied().unwrap_or_default();
    let address = Address {
        line: Some(vec![format!("{} {street}", dice.below(200))]),
        district: Some(format!("{region} {}", dice.below(30))),
        region: Some(region.to_owned()),
        ..Address::default()
    };
    let details = IndividualDetails {
        identifiers: vec![Identifier { key: national_id(id)?, period: None }],
        active: (dice.below(50) == 0).then_some(false),
        name: Some(name(&mut dice)),
        birth_date: if dice.below(30) == 0 { None } else { date_from_days(day) },
        codes: coded,
        address: Some(vec![address]),
        income: (dice.below(20) > 0).then(|| Income {
            amount: dice.below(10_000) as f64,
            currency: None,
            period: None,
        }),
        ..IndividualDetails::default()
    };
    Ok(record(id, details))
}

/// The household of that key, with the people of five keys.
pub fn household(id: u64, codes: &Codes) -> Arc<Group> {
    let first = (id - 1) * HOUSEHOLD + 1;
    let member = |(individual, role): (u64, Option<&CodeNumber>)| Member {
        individual: RecordId(individual),
        role: role.map(|role| value(*role)),
        period: None,
        is_inactive: false,
    };
    let roles = (0..).map(|place: usize| codes.roles.get(place.min(2)));
    let members = (first..first + HOUSEHOLD).zip(roles).map(member).collect();
    record(id, GroupDetails { members: Some(members), ..GroupDetails::default() })
}
