//! The registry's helpers: codes, people, dates.

use super::Checker;
use super::operators::{can_be_date, has_order};
use super::signature::Function;
use crate::calendar::parse_date;
use crate::diagnostic::{Diagnostic, Fault};
use crate::limits::QUESTION_BYTES_MAX;
use crate::message::{Message, Reason};
use crate::plan::Question;
use crate::schema::Space;
use crate::span::Span;
use crate::tree::{Constant, Kind, Node, Type};
use cel_interpreter::IdedExpr;
use cel_interpreter::common::ast::{Expr, LiteralValue};

/// A helper that checks whether a code of a person is in a concept group.
struct PersonHelper {
    name: &'static str,
    field: &'static str,
    group: &'static str,
}

impl Checker<'_> {
    pub(super) fn helper(&mut self, helper: Function, arguments: &[IdedExpr], at: Span, span: Span) -> Option<Node> {
        match (helper, arguments) {
            (Function::InGroup, [value, group]) => {
                self.is_in_set("in_group", value, group, Question::InGroup, at, span)
            }
            (Function::DescendsFrom, [value, uri]) => {
                self.is_in_set("descends_from", value, uri, Question::DescendsFrom, at, span)
            }
            (Function::Code, [uri]) => {
                let (uri, literal) = self.written_text("code", uri)?;
                self.is_uri(&uri, literal)?;
                let question = self.ask(Question::Code(uri), literal)?;
                let value = Type::Coded(crate::facts::FactSet::EMPTY);
                Some(Node { kind: Kind::Code(question), value, span, at })
            }
            (Function::IsFemale, [person]) => {
                let helper = PersonHelper { name: "is_female", field: "gender", group: "feminine_gender" };
                self.person(&helper, person, at, span)
            }
            (Function::IsMale, [person]) => {
                let helper = PersonHelper { name: "is_male", field: "gender", group: "masculine_gender" };
                self.person(&helper, person, at, span)
            }
            (Function::IsHead, [person]) => {
                let helper = PersonHelper { name: "is_head", field: "role", group: "head_of_household" };
                self.person(&helper, person, at, span)
            }
            (Function::IsPregnant, [person]) => {
                let helper =
                    PersonHelper { name: "is_pregnant", field: "pregnancy_status", group: "pregnant_eligible" };
                self.person(&helper, person, at, span)
            }
            (Function::IsAlive, [person]) => self.is_alive(person, at, span),
            (Function::AgeYears, [date]) => {
                let date = self.date("age_years", date)?;
                Some(Node { kind: Kind::AgeYears(Box::new(date)), value: Type::Integer, span, at })
            }
            (Function::DaysSince, [date]) => {
                let date = self.date("days_since", date)?;
                Some(Node { kind: Kind::DaysSince(Box::new(date)), value: Type::Integer, span, at })
            }
            (Function::Date, [text]) => self.parse_date(text, at, span),
            (Function::Today, []) => Some(Node { kind: Kind::AsOf, value: Type::Date, span, at }),
            (Function::Between, [value, low, high]) => self.between(value, low, high, at, span),
            // The arguments are counted before, and the other functions are not helpers.
            _ => None,
        }
    }

    fn is_in_set(
        &mut self,
        name: &str,
        value: &IdedExpr,
        literal: &IdedExpr,
        question: fn(String) -> Question,
        at: Span,
        span: Span,
    ) -> Option<Node> {
        let value = self.expression(value);
        let (text, literal) = self.written_text(name, literal)?;
        let question = question(text);
        match &question {
            Question::InGroup(group) => self.is_handable(group, literal, Reason::NotNameOfGroup)?,
            Question::DescendsFrom(uri) | Question::Code(uri) => self.is_uri(uri, literal)?,
        }
        let value = value?;
        if !self.is_code(name, &value) {
            return None;
        }
        if let Question::DescendsFrom(uri) = &question {
            self.warn_of_other_hierarchy(&value, uri, literal);
        }
        let question = self.ask(question, literal)?;
        Some(Node { kind: Kind::IsAmong(Box::new(value), question), value: Type::Boolean, span, at })
    }

    fn is_uri(&mut self, uri: &str, literal: Span) -> Option<()> {
        self.is_handable(uri, literal, Reason::NotUriOfCode)?;
        let is_uri = uri.split_once('#').is_some_and(|(namespace, code)| !namespace.is_empty() && !code.is_empty());
        if is_uri {
            return Some(());
        }
        let message = Reason::NotUri.with([&self.quote(literal)]);
        self.error(Fault::InvalidLiteral, literal, message);
        None
    }

    /// Checks that a text can be passed to the host in a question.
    fn is_handable(&mut self, text: &str, literal: Span, reason: Reason) -> Option<()> {
        let is_blank = text.trim().is_empty();
        if !is_blank && text.len() <= QUESTION_BYTES_MAX && !text.contains(char::is_control) {
            return Some(());
        }
        self.error(Fault::InvalidLiteral, literal, reason.with([&self.quote(literal)]));
        None
    }

    fn person(&mut self, helper: &PersonHelper, person: &IdedExpr, at: Span, span: Span) -> Option<Node> {
        let person = self.expression(person)?;
        let code = match &person.value {
            Type::Coded(_) => person,
            _ => self.field_of_person(helper.name, helper.field, person, at)?,
        };
        if !self.is_code(helper.name, &code) {
            return None;
        }
        let question = self.ask(Question::InGroup(helper.group.to_owned()), at)?;
        Some(Node { kind: Kind::IsAmong(Box::new(code), question), value: Type::Boolean, span, at })
    }

    fn is_alive(&mut self, person: &IdedExpr, at: Span, span: Span) -> Option<Node> {
        let person = self.expression(person)?;
        let date = self.field_of_person("is_alive", "deceased_date", person, at)?;
        if date.value != Type::Date {
            let message = Reason::ReadsDate.with(["is_alive"]).about(self.describe(&date));
            return self.error(Fault::WrongType, at, message);
        }
        Some(Node { kind: Kind::IsAlive(Box::new(date)), value: Type::Boolean, span, at })
    }

    /// The field that a helper reads from `me` or a member.
    fn field_of_person(&mut self, helper: &str, field: &str, person: Node, at: Span) -> Option<Node> {
        let record = match &person.value {
            Type::Record(record) if record.prefix.is_empty() && record.space != Space::Programs => record.clone(),
            Type::List(_) => {
                let message = Reason::TakesOnePerson.with([helper]).about(self.describe(&person));
                return self.error(Fault::WrongType, person.span, message);
            }
            _ => {
                let message = Reason::TakesPerson.with([helper]).about(self.describe(&person));
                return self.error(Fault::WrongType, person.span, message);
            }
        };
        if self.schema.field(record.space, field).is_none() {
            let message = Reason::ReadsFieldOfPerson.with([helper, field, &self.quote(person.span)]);
            return self.error(Fault::UnknownField, at, message);
        }
        let span = person.span;
        self.field(person, &record, field, at).map(|node| Node { span, ..node })
    }

    /// A date argument.
    fn date(&mut self, helper: &str, argument: &IdedExpr) -> Option<Node> {
        let date = self.expression(argument)?;
        let text = date.span.text(self.source);
        let suggestion = match &date.value {
            Type::Date => return Some(date),
            Type::Text => can_be_date(&date).then(|| format!("date({text})")),
            Type::Record(record) => {
                let has_birth_date = self.schema.field(record.space, "birth_date").is_some();
                (record.prefix.is_empty() && has_birth_date).then(|| format!("{text}.birth_date"))
            }
            _ => None,
        };
        let message = match &suggestion {
            Some(suggestion) => Reason::TakesDateSuggested.with([helper, suggestion]),
            None => Reason::TakesDate.with([helper]).about(self.describe(&date)),
        };
        self.report(Diagnostic::error(Fault::WrongType, date.span, message).suggest(suggestion))
    }

    fn parse_date(&mut self, argument: &IdedExpr, at: Span, span: Span) -> Option<Node> {
        let text = self.expression(argument)?;
        if text.value != Type::Text {
            let message = Message::from(Reason::TakesDateAsText).about(self.describe(&text));
            return self.error(Fault::WrongType, text.span, message);
        }
        let Expr::Literal(LiteralValue::String(literal)) = &argument.expr else {
            return Some(Node { kind: Kind::ParseDate(Box::new(text)), value: Type::Date, span, at });
        };
        let Some(days) = parse_date(literal.inner()) else {
            let message = Reason::NotADay.with([&self.quote(text.span)]);
            return self.error(Fault::InvalidLiteral, text.span, message);
        };
        Some(Node { kind: Kind::Constant(Constant::Date(days)), value: Type::Date, span, at })
    }

    fn between(&mut self, value: &IdedExpr, low: &IdedExpr, high: &IdedExpr, at: Span, span: Span) -> Option<Node> {
        let value = self.expression(value);
        let bounds = self.both(low, high);
        let (value, (low, high)) = (value?, bounds?);
        for bound in [&low, &high] {
            if !has_order(&value, bound) {
                return self.incomparable(at, &value, bound);
            }
        }
        if !self.has_room_between(&low, &high, span) {
            return None;
        }
        let kind = Kind::Between(Box::new(value), Box::new(low), Box::new(high));
        Some(Node { kind, value: Type::Boolean, span, at })
    }
}
