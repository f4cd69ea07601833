//! Rows as records.

use serde_json::{Value, json};

use super::mapping::{Body, Column, Household, Mapping};

/// What is wrong with a cell: the field, the kind of fault, one sentence.
pub type CellProblem = (String, &'static str, String);

/// A row that was taken.
#[derive(Debug, PartialEq)]
pub struct Taken {
    /// The record.
    pub body: Body,
    /// Into which group the person goes: its name, and the member.
    pub household: Option<(String, Value)>,
}

impl Mapping {
    /// Makes a record of a row.
    ///
    /// # Errors
    /// Everything that is wrong with its cells.
    pub fn take(&self, cells: &[&str]) -> Result<Taken, Vec<CellProblem>> {
        let mut problems = Vec::new();
        let mut body = Body::new();
        body.insert("type".to_owned(), json!(self.kind.name()));
        fill(&mut body, &self.constants, &self.columns, &|at| self.cell(cells, at), &mut problems);
        let household = match &self.household {
            Some(household) => self.household_of(household, &body, cells, &mut problems),
            None => None,
        };
        if problems.is_empty() { Ok(Taken { body, household }) } else { Err(problems) }
    }

    /// What the group of a row says by that row.
    ///
    /// # Errors
    /// Everything that is wrong with its cells.
    pub fn group(&self, name: &str, cells: &[&str]) -> Result<Body, Vec<CellProblem>> {
        let mut body = Body::new();
        let Some(household) = &self.household else { return Ok(body) };
        body.insert("type".to_owned(), json!("Group"));
        body.insert("identifier".to_owned(), json!([{"system": household.system, "value": name}]));
        let mut problems = Vec::new();
        fill(&mut body, &household.constants, &household.columns, &|at| self.cell(cells, at), &mut problems);
        if problems.is_empty() { Ok(body) } else { Err(problems) }
    }

    /// A cell that says something.
    fn cell<'c>(&self, cells: &[&'c str], at: usize) -> Option<&'c str> {
        let cell = cells.get(at)?.trim();
        (!cell.is_empty() && !self.empty.iter().any(|empty| empty == cell)).then_some(cell)
    }

    fn household_of(
        &self,
        household: &Household,
        body: &Body,
        cells: &[&str],
        problems: &mut Vec<CellProblem>,
    ) -> Option<(String, Value)> {
        let name = self.cell(cells, household.at)?;
        let mut member = Body::new();
        let identifier = body.get("identifier").and_then(|all| all.get(0));
        let part = |name: &str| identifier.and_then(|identifier| identifier.get(name)).and_then(Value::as_str);
        let (Some(system), Some(value)) = (part("system"), part("value")) else {
            let message = "a person who goes into a group has an identifier: map a column to `identifier[SYSTEM]`";
            problems.push(("identifier".to_owned(), "required", message.to_owned()));
            return None;
        };
        member.insert("entity".to_owned(), json!({"reference": format!("Individual/{system}|{value}")}));
        let roles: Vec<Column> = household.role.iter().cloned().collect();
        fill(&mut member, &[], &roles, &|at| self.cell(cells, at), problems);
        Some((name.to_owned(), Value::Object(member)))
    }
}

fn fill<'c>(
    body: &mut Body,
    constants: &[(super::path::Path, Value)],
    columns: &[Column],
    cell: &dyn Fn(usize) -> Option<&'c str>,
    problems: &mut Vec<CellProblem>,
) {
    for (path, value) in constants {
        path.put(body, value.clone());
    }
    for column in columns.iter().filter(|column| !column.writing.label) {
        let Some(cell) = cell(column.at).filter(|cell| !column.writing.is_nothing(cell)) else { continue };
        match column.writing.read(column.form, cell) {
            Ok(value) => column.path.put(body, value),
            Err((code, message)) => {
                let message = format!("column `{}`: {message}", column.name);
                problems.push((column.path.as_str().to_owned(), code, message));
            }
        }
    }
}
