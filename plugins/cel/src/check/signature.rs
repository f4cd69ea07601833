//! The names, argument counts and usages of all functions.

use crate::suggestion::nearest;

/// A function that is called by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    InGroup,
    DescendsFrom,
    Code,
    IsFemale,
    IsMale,
    IsHead,
    IsPregnant,
    IsAlive,
    AgeYears,
    DaysSince,
    Date,
    Today,
    Between,
    Has,
    Size,
    Matches,
    Convert,
}

/// A function that is called on a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Exists,
    All,
    ExistsOne,
    Filter,
    Map,
    Size,
    Contains,
    StartsWith,
    EndsWith,
    Matches,
}

/// The signature of a function.
#[derive(Debug)]
pub struct Signature<F> {
    /// Its name.
    pub name: &'static str,
    /// Which it is.
    pub function: F,
    /// The fewest arguments, without the target.
    pub arguments_min: usize,
    /// The most arguments.
    pub arguments_max: usize,
    /// Its usage.
    pub usage: &'static str,
}

const fn of<F>(name: &'static str, function: F, arguments: usize, usage: &'static str) -> Signature<F> {
    Signature { name, function, arguments_min: arguments, arguments_max: arguments, usage }
}

static FUNCTIONS: [Signature<Function>; 20] = [
    of("in_group", Function::InGroup, 2, "in_group(x, 'group')"),
    of("descends_from", Function::DescendsFrom, 2, "descends_from(x, 'uri')"),
    of("code", Function::Code, 1, "code('uri')"),
    of("is_female", Function::IsFemale, 1, "is_female(x)"),
    of("is_male", Function::IsMale, 1, "is_male(x)"),
    of("is_head", Function::IsHead, 1, "is_head(x)"),
    of("is_pregnant", Function::IsPregnant, 1, "is_pregnant(x)"),
    of("is_alive", Function::IsAlive, 1, "is_alive(x)"),
    of("age_years", Function::AgeYears, 1, "age_years(x)"),
    of("days_since", Function::DaysSince, 1, "days_since(x)"),
    of("date", Function::Date, 1, "date('2026-01-31')"),
    of("today", Function::Today, 0, "today()"),
    of("between", Function::Between, 3, "between(x, low, high)"),
    of("has", Function::Has, 1, "has(me.field)"),
    of("size", Function::Size, 1, "size(x)"),
    of("matches", Function::Matches, 2, "matches(x, 'pattern')"),
    of("int", Function::Convert, 1, "int(x)"),
    of("double", Function::Convert, 1, "double(x)"),
    of("string", Function::Convert, 1, "string(x)"),
    of("bool", Function::Convert, 1, "bool(x)"),
];

static METHODS: [Signature<Method>; 11] = [
    of("exists", Method::Exists, 2, "list.exists(x, …)"),
    of("all", Method::All, 2, "list.all(x, …)"),
    of("exists_one", Method::ExistsOne, 2, "list.exists_one(x, …)"),
    of("existsOne", Method::ExistsOne, 2, "list.existsOne(x, …)"),
    of("filter", Method::Filter, 2, "list.filter(x, …)"),
    Signature { name: "map", function: Method::Map, arguments_min: 2, arguments_max: 3, usage: "list.map(x, …)" },
    of("size", Method::Size, 0, "x.size()"),
    of("contains", Method::Contains, 1, "text.contains('part')"),
    of("startsWith", Method::StartsWith, 1, "text.startsWith('start')"),
    of("endsWith", Method::EndsWith, 1, "text.endsWith('end')"),
    of("matches", Method::Matches, 1, "text.matches('pattern')"),
];

/// The function of that name.
pub fn function(name: &str) -> Option<&'static Signature<Function>> {
    FUNCTIONS.iter().find(|signature| signature.name == name)
}

/// The method of that name.
pub fn method(name: &str) -> Option<&'static Signature<Method>> {
    METHODS.iter().find(|signature| signature.name == name)
}

/// The usage of the function or method of that name.
pub fn usage(name: &str) -> Option<&'static str> {
    function(name).map(|signature| signature.usage).or_else(|| method(name).map(|signature| signature.usage))
}

/// The function with the closest name.
pub fn nearest_function(name: &str) -> Option<&'static str> {
    nearest(name, FUNCTIONS.iter().map(|signature| signature.name))
}

/// The method with the closest name.
pub fn nearest_method(name: &str) -> Option<&'static str> {
    nearest(name, METHODS.iter().map(|signature| signature.name))
}
