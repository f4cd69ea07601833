//! A small test registry: records as input, outcomes as short texts.

use daftar_cel::batch::{Batch, Children, Column, ColumnValues};
use daftar_cel::bind::{Answer, Bindings, CodeTexts};
use daftar_cel::calendar::parse_date;
use daftar_cel::diagnostic::Diagnostic;
use daftar_cel::outcome::{Outcomes, Verdict};
use daftar_cel::plan::{ColumnPlan, Question, Shape};
use daftar_cel::rule::{Evaluated, EvaluationFault, Rule, Way};
use daftar_cel::schema::{Field, FieldType, Schema, Space, Subject};
use daftar_cel::tree::Domain;

/// The day of the evaluation in all tests.
pub const AS_OF: &str = "2026-03-01";

pub const NOT_KNOWN: u32 = 0;
pub const MALE: u32 = 1;
pub const FEMALE: u32 = 2;
pub const HEAD: u32 = 10;
pub const CHILD: u32 = 11;
pub const ENGLISH: u32 = 20;
pub const ARABIC: u32 = 21;
pub const PREGNANT: u32 = 30;

/// Number, namespace, code, display.
const CODES: [(u32, &str, &str, &str); 8] = [
    (NOT_KNOWN, "urn:iso:std:iso:5218", "0", "Not known"),
    (MALE, "urn:iso:std:iso:5218", "1", "Male"),
    (FEMALE, "urn:iso:std:iso:5218", "2", "Female"),
    (HEAD, "urn:role", "head", "Head"),
    (CHILD, "urn:role", "child", "Child"),
    (ENGLISH, "urn:lang", "en", "English"),
    (ARABIC, "urn:lang", "ar", "Arabic"),
    (PREGNANT, "urn:preg", "yes", "Pregnant"),
];

/// A value of a record.
#[derive(Clone, Debug)]
pub enum Cell {
    Boolean(bool),
    Integer(i64),
    Number(f64),
    Day(&'static str),
    Code(u32),
    Text(&'static str),
    /// A list item that is not recorded.
    Absent,
    List(Vec<Cell>),
    Records(Vec<Record>),
}

/// The fields of a record that are recorded.
pub type Record = Vec<(&'static str, Cell)>;

/// A subject with its members and programs.
#[derive(Clone, Debug, Default)]
pub struct Case {
    pub me: Record,
    /// None if unknown.
    pub members: Option<Vec<Record>>,
    pub programs: Option<Vec<Record>>,
}

/// A subject with these fields, without members and programs.
pub fn person(me: Record) -> Case {
    Case { me, members: Some(Vec::new()), programs: Some(Vec::new()) }
}

/// A subject without recorded fields, in a household of these members.
pub fn household(members: Vec<Record>) -> Case {
    Case { me: Vec::new(), members: Some(members), programs: Some(Vec::new()) }
}

pub fn schema() -> Schema {
    let field = |space, path: &str, kind| Field {
        space,
        path: path.to_owned(),
        kind,
        is_repeated: false,
        vocabularies: Vec::new(),
    };
    let repeated = |space, path: &str, kind| Field { is_repeated: true, ..field(space, path, kind) };
    let mut fields = vec![
        field(Space::Me, "active", FieldType::Boolean),
        field(Space::Me, "insured", FieldType::Boolean),
        field(Space::Me, "dependants", FieldType::Integer),
        field(Space::Me, "rooms", FieldType::Integer),
        field(Space::Me, "income.amount", FieldType::Number),
        field(Space::Me, "income.currency", FieldType::Coded),
        field(Space::Me, "name.family", FieldType::Text),
        field(Space::Me, "name.given", FieldType::Text),
        field(Space::Me, "district", FieldType::Text),
        field(Space::Me, "pregnancy_status", FieldType::Coded),
        repeated(Space::Me, "languages", FieldType::Coded),
        repeated(Space::Me, "tags", FieldType::Text),
        repeated(Space::Me, "address", FieldType::Structure),
        field(Space::Me, "address[].district", FieldType::Text),
        repeated(Space::Me, "address[].line", FieldType::Text),
        field(Space::Members, "role", FieldType::Coded),
        field(Space::Members, "dependants", FieldType::Integer),
        field(Space::Members, "pregnancy_status", FieldType::Coded),
        field(Space::Programs, "program", FieldType::Text),
        field(Space::Programs, "enrollment_date", FieldType::Date),
    ];
    for space in [Space::Me, Space::Members] {
        fields.push(field(space, "birth_date", FieldType::Date));
        fields.push(field(space, "deceased_date", FieldType::Date));
        fields.push(field(space, "gender", FieldType::Coded));
    }
    Schema::new(Subject::Individual, fields)
}

/// The same with the vocabularies of most coded fields.
pub fn schema_with_vocabularies() -> Schema {
    let plain = schema();
    let fields = [Space::Me, Space::Members, Space::Programs].into_iter().flat_map(|space| plain.below(space, ""));
    let fields: Vec<Field> = fields
        .map(|field| {
            let vocabulary = match field.path.as_str() {
                "gender" => "urn:iso:std:iso:5218",
                "role" => "urn:role",
                "languages" => "urn:lang",
                _ => return field.clone(),
            };
            Field { vocabularies: vec![vocabulary.to_owned()], ..field.clone() }
        })
        .collect();
    Schema::new(Subject::Individual, fields)
}

pub fn compile(expression: &str) -> Rule {
    match Rule::compile(expression, &schema()) {
        Ok(rule) => rule,
        Err(diagnostics) => panic!("{expression}: {diagnostics:#?}"),
    }
}

pub fn faults(expression: &str) -> Vec<Diagnostic> {
    Rule::compile(expression, &schema()).err().unwrap_or_default()
}

/// The answers of a registry without the group of pregnancy statuses.
pub fn answers(rule: &Rule) -> Vec<Answer> {
    let table = |codes: &[(u32, u8)]| {
        let mut truths = vec![0; 40];
        for (code, truth) in codes {
            truths[*code as usize] = *truth;
        }
        truths
    };
    let questions = rule.plan().questions().iter();
    questions
        .map(|placed| match &placed.question {
            Question::InGroup(group) => match group.as_str() {
                "feminine_gender" => Answer::Truths { truths: table(&[(NOT_KNOWN, 2), (FEMALE, 1)]), missing: None },
                "masculine_gender" => Answer::Truths { truths: table(&[(NOT_KNOWN, 2), (MALE, 1)]), missing: None },
                "head_of_household" => Answer::Truths { truths: table(&[(HEAD, 1)]), missing: None },
                "filled" => Answer::Truths { truths: table(&[(PREGNANT, 1)]), missing: None },
                name => Answer::Truths { truths: vec![2; 40], missing: Some(name.to_owned()) },
            },
            Question::DescendsFrom(uri) if uri.starts_with("urn:lang") => {
                Answer::Truths { truths: table(&[(ENGLISH, 1), (ARABIC, 1)]), missing: None }
            }
            Question::DescendsFrom(_) => Answer::Truths { truths: Vec::new(), missing: None },
            Question::Code(uri) => {
                let known = CODES.iter().find(|(_, namespace, code, _)| format!("{namespace}#{code}") == *uri);
                Answer::Number(known.map_or(39, |(number, ..)| *number))
            }
        })
        .collect()
}

pub fn bind(rule: &Rule) -> Bindings {
    let texts = CODES.iter().map(|(number, namespace, code, display)| {
        (*number, CodeTexts::new((*namespace).into(), (*code).into(), (*display).into()))
    });
    Bindings::new(rule.plan(), answers(rule), texts).unwrap()
}

/// The batch of these subjects for a rule.
pub fn batch(rule: &Rule, cases: &[Case]) -> Batch {
    let source = Source { rule, cases };
    let children =
        |space, of: fn(&Case) -> &Option<Vec<Record>>| rule.plan().reads_rows_of(space).then(|| children(cases, of));
    Batch {
        as_of: parse_date(AS_OF).unwrap(),
        rows: cases.len() as u32,
        members: children(Space::Members, |case| &case.members),
        programs: children(Space::Programs, |case| &case.programs),
        columns: rule.plan().columns().iter().map(|column| source.column(column)).collect(),
    }
}

/// The outcomes of these subjects, which are the same by columns and by rows.
pub fn evaluate(rule: &Rule, cases: &[Case]) -> Result<Outcomes, EvaluationFault> {
    evaluate_both_ways(rule, batch(rule, cases)).map(|evaluated| evaluated.outcomes)
}

/// The outcomes by columns, after comparing them with those by rows.
#[track_caller]
pub fn evaluate_both_ways(rule: &Rule, batch: Batch) -> Result<Evaluated, EvaluationFault> {
    let bindings = bind(rule);
    let by_rows = rule.evaluate_by(Way::Rows, &bindings, batch.clone());
    let by_columns = rule.evaluate_by(Way::Columns, &bindings, batch);
    let outcomes =
        |evaluated: &Result<Evaluated, EvaluationFault>| evaluated.clone().map(|evaluated| evaluated.outcomes);
    assert_eq!(outcomes(&by_columns), outcomes(&by_rows), "{}", rule.source());
    by_columns
}

/// `yes`, `no`, or `?` with all missing facts and the error.
pub fn ask(expression: &str, case: &Case) -> String {
    let rule = compile(expression);
    let outcomes = evaluate(&rule, std::slice::from_ref(case)).unwrap();
    describe(&outcomes, 0)
}

/// The outcome of one row.
pub fn describe(outcomes: &Outcomes, row: usize) -> String {
    match outcomes.verdicts[row] {
        Verdict::Eligible => "yes".into(),
        Verdict::NotEligible => "no".into(),
        Verdict::Undetermined => {
            let range = outcomes.missing_offsets[row] as usize..outcomes.missing_offsets[row + 1] as usize;
            let missing = outcomes.missing[range].iter().map(|index| outcomes.missing_names[*index as usize].clone());
            let errors = outcomes.errors.iter().filter(|error| error.row as usize == row);
            let errors =
                errors.map(|error| format!("{}@{}:{}", error.kind.name(), error.place.line, error.place.column));
            let reasons: Vec<String> = missing.chain(errors).collect();
            format!("? {}", reasons.join(" "))
        }
    }
}

/// Checks a table of expressions and their outcomes for one subject.
pub fn check(case: &Case, table: &[(&str, &str)]) {
    for (expression, expected) in table {
        assert_eq!(ask(expression, case), *expected, "{expression}");
    }
}

fn children(cases: &[Case], of: fn(&Case) -> &Option<Vec<Record>>) -> Children {
    let mut offsets = vec![0];
    let mut total = 0;
    for case in cases {
        total += of(case).as_ref().map_or(0, |records| records.len() as u32);
        offsets.push(total);
    }
    Children { offsets, known: bitmap(cases.iter().map(|case| of(case).is_some())) }
}

fn bitmap(bits: impl Iterator<Item = bool>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, bit) in bits.enumerate() {
        if index % 8 == 0 {
            bytes.push(0);
        }
        if bit {
            *bytes.last_mut().unwrap() |= 1 << (index % 8);
        }
    }
    bytes
}

/// Builds the columns of a plan from the records.
struct Source<'a> {
    rule: &'a Rule,
    cases: &'a [Case],
}

#[derive(Clone, Copy)]
enum Row<'a> {
    Record(&'a Record),
    Item(&'a Cell),
}

impl<'a> Source<'a> {
    fn rows(&self, domain: Domain) -> Vec<Row<'a>> {
        let children = |of: fn(&Case) -> &Option<Vec<Record>>| {
            self.cases.iter().flat_map(move |case| of(case).iter().flatten()).map(Row::Record).collect()
        };
        match domain {
            Domain::Space(Space::Me) => self.cases.iter().map(|case| Row::Record(&case.me)).collect(),
            Domain::Space(Space::Members) => children(|case| &case.members),
            Domain::Space(Space::Programs) => children(|case| &case.programs),
            Domain::Items(list) => {
                let list = &self.rule.plan().columns()[list];
                let rows = self.rows(list.domain).into_iter();
                rows.flat_map(|row| match cell(list, row) {
                    Some(Cell::List(items)) => items.iter().map(Row::Item).collect(),
                    Some(Cell::Records(records)) => records.iter().map(Row::Record).collect(),
                    _ => Vec::new(),
                })
                .collect()
            }
        }
    }

    fn column(&self, plan: &ColumnPlan) -> Column {
        let cells: Vec<Option<&Cell>> = self.rows(plan.domain).into_iter().map(|row| cell(plan, row)).collect();
        let valid = bitmap(cells.iter().map(Option::is_some));
        Column { space: plan.space, path: plan.path.clone(), valid, values: values(plan, &cells) }
    }
}

fn cell<'a>(plan: &ColumnPlan, row: Row<'a>) -> Option<&'a Cell> {
    let cell = match row {
        Row::Item(cell) => cell,
        Row::Record(record) => {
            let name = plan.path.rsplit_once("[].").map_or(plan.path.as_str(), |(_, name)| name);
            record.iter().find(|(path, _)| *path == name).map(|(_, cell)| cell)?
        }
    };
    (!matches!(cell, Cell::Absent)).then_some(cell)
}

/// Values of a column; missing ones are filled with a value that would be noticed if it were read.
fn values(plan: &ColumnPlan, cells: &[Option<&Cell>]) -> ColumnValues {
    let cells = cells.iter();
    match plan.shape {
        Shape::Value(FieldType::Boolean) => ColumnValues::Booleans(
            cells.map(|cell| if let Some(Cell::Boolean(value)) = cell { u8::from(*value) } else { 9 }).collect(),
        ),
        Shape::Value(FieldType::Integer) => ColumnValues::Integers(
            cells.map(|cell| if let Some(Cell::Integer(value)) = cell { *value } else { i64::MIN }).collect(),
        ),
        Shape::Value(FieldType::Number) => ColumnValues::Numbers(
            cells.map(|cell| if let Some(Cell::Number(value)) = cell { *value } else { f64::NAN }).collect(),
        ),
        Shape::Value(FieldType::Date) => ColumnValues::Days(
            cells
                .map(|cell| if let Some(Cell::Day(day)) = cell { parse_date(day).unwrap() } else { i32::MIN })
                .collect(),
        ),
        Shape::Value(FieldType::Coded) => ColumnValues::Codes(
            cells.map(|cell| if let Some(Cell::Code(code)) = cell { *code } else { u32::MAX }).collect(),
        ),
        Shape::Value(FieldType::Text) => {
            let mut offsets = vec![0];
            let mut bytes = Vec::new();
            for cell in cells {
                bytes.extend(if let Some(Cell::Text(text)) = cell { text.as_bytes() } else { b"absent" });
                offsets.push(bytes.len() as u32);
            }
            ColumnValues::Texts { offsets, bytes }
        }
        Shape::List | Shape::Value(FieldType::Structure) => {
            let mut offsets = vec![0];
            let mut total = 0;
            for cell in cells {
                total += match cell {
                    Some(Cell::List(items)) => items.len() as u32,
                    Some(Cell::Records(records)) => records.len() as u32,
                    _ => 0,
                };
                offsets.push(total);
            }
            ColumnValues::Lists(offsets)
        }
    }
}
