//! Made-up people with names of several languages and scripts, in households, as clients send them: the same for the
//! same seed.

use std::io::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};

/// Number of people in a household.
pub const HOUSEHOLD: u64 = 5;
/// The seed of all registers.
pub const SEED: u64 = 20_260_101;
/// Sexes, the most frequent one first.
const GENDERS: [&str; 4] =
    ["urn:iso:std:iso:5218#2", "urn:iso:std:iso:5218#1", "urn:iso:std:iso:5218#0", "urn:iso:std:iso:5218#9"];

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

/// The codes that people hold besides their sex; the first ones are given far more often than the last.
#[derive(Debug, Clone)]
pub struct Codes {
    /// Codes of `urn:un:unsd:pop-census:marital-status`.
    pub marital_statuses: Vec<String>,
    /// Codes of `urn:ilo:isco-08`.
    pub occupations: Vec<String>,
}

/// The value of the national identifier of a person.
pub fn national_id(id: u64) -> String {
    format!("{:010}", id.wrapping_mul(7_919) % 10_000_000_000)
}

/// The path of a person.
pub fn path(id: u64) -> String {
    format!("/api/v2/Individual/urn:svc:vocab:id-type%23national_id%7C{}", national_id(id))
}

/// Any of the people from 1 to `people`, each as often as any other.
pub fn any(number: u64, people: u64) -> u64 {
    Dice::new(SEED, number).below(people) + 1
}

/// A plausible name: given, middle and family names.
pub fn name(dice: &mut Dice) -> [Option<&'static str>; 3] {
    let Some((given, family)) = dice.often(NAMES) else { return [None; 3] };
    let first = dice.often(given).copied();
    let middle = if dice.below(2) == 0 { dice.often(given).copied() } else { None };
    [first, middle, dice.often(family).copied()]
}

/// A day, counted from 1970.
pub fn day(days: i64) -> String {
    let day = jiff::civil::Date::constant(1970, 1, 1).checked_add(jiff::Span::new().days(days));
    day.map(|day| day.to_string()).unwrap_or_default()
}

/// The person of a number, with an identifier, codes, an address and an income.
pub fn person(id: u64, codes: &Codes) -> Map<String, Value> {
    let mut dice = Dice::new(SEED, id);
    let born = i64::try_from(dice.below(34_000)).unwrap_or_default() - 14_000;
    let mut body = Map::new();
    body.insert("identifier".to_owned(), identifier("national_id", &national_id(id)));
    for (field, codes, one_in_20) in
        [("marital_status", &codes.marital_statuses, 3), ("occupation", &codes.occupations, 2)]
    {
        if dice.below(20) >= one_in_20 {
            body.extend(dice.often(codes).map(|code| (field.to_owned(), Value::from(code.as_str()))));
        }
    }
    if dice.below(20) > 0 {
        body.extend(dice.often(&GENDERS).map(|code| ("gender".to_owned(), Value::from(*code))));
    }
    let region = dice.often(&REGIONS).copied().unwrap_or_default();
    let street = dice.often(&STREETS).copied().unwrap_or_default();
    let address = json!({
        "line": [format!("{} {street}", dice.below(200))],
        "district": format!("{region} {}", dice.below(30)),
        "region": region,
    });
    body.insert("address".to_owned(), json!([address]));
    if dice.below(50) == 0 {
        body.insert("active".to_owned(), false.into());
    }
    let parts = ["given", "middle", "family"].into_iter().zip(name(&mut dice));
    let parts = parts.filter_map(|(part, text)| Some((part.to_owned(), Value::from(text?))));
    body.insert("name".to_owned(), Value::Object(parts.collect()));
    if dice.below(30) > 0 {
        body.insert("birth_date".to_owned(), day(born).into());
    }
    if dice.below(20) > 0 {
        body.insert("income".to_owned(), json!({"amount": dice.below(10_000)}));
    }
    body
}

fn identifier(kind: &str, value: &str) -> Value {
    json!([{"system": format!("urn:svc:vocab:id-type#{kind}"), "value": value}])
}

/// The household of the five people from `first`.
fn household(first: u64) -> Map<String, Value> {
    let roles = ["head", "spouse", "child", "child", "child"];
    let members = (first..).zip(roles).map(|(id, role)| {
        let reference = format!("Individual/urn:svc:vocab:id-type#national_id|{}", national_id(id));
        json!({"entity": {"reference": reference}, "role": format!("urn:svc:vocab:relationship#{role}")})
    });
    let mut body = Map::new();
    body.insert("identifier".to_owned(), identifier("tax_id", &format!("H{first:010}")));
    body.insert("group_type".to_owned(), "urn:svc:vocab:group-type#household".into());
    body.insert("member".to_owned(), members.collect());
    body
}

/// Writes people, and each household after its members, into a file for `daftar import`.
pub fn write(path: &Path, numbers: std::ops::RangeInclusive<u64>, codes: &Codes) -> Result<(), String> {
    let first = *numbers.start();
    let write = || {
        let mut out = std::io::BufWriter::new(std::fs::File::create(path)?);
        let mut line = |kind: &str, mut body: Map<String, Value>| {
            body.insert("type".to_owned(), kind.into());
            writeln!(out, "{}", Value::Object(body))
        };
        for id in numbers {
            line("Individual", person(id, codes))?;
            if (id - first) % HOUSEHOLD == HOUSEHOLD - 1 {
                line("Group", household(id + 1 - HOUSEHOLD))?;
            }
        }
        out.flush()
    };
    write().map_err(|error| format!("`{}`: {error}", path.display()))
}
