//! The sentences of diagnostics: each has a stable name, a template, and parameters that are parts of the expression, of
//! the schema, or names of types. A client writes them in another language by the name and the parameters.
//!
//! **Invariant:** a name keeps its meaning and the order of its parameters.

use crate::limits::PARAMETER_CHARACTERS_MAX;
use crate::tree::{OtherType, Type};
use std::fmt;

macro_rules! reasons {
    ($($variant:ident $name:literal $template:literal;)*) => {
        /// A sentence about an expression.
        ///
        /// A template has these places, by the number of their first parameter:
        ///
        /// | place | content |
        /// |---|---|
        /// | `{0}` | the parameter |
        /// | `{any:0}` | alternatives, separated by a space, in backticks |
        /// | `{arguments:0}` | a number of arguments, from one to another: two parameters |
        /// | `{type:0}` | the name of a type, in words |
        /// | `{list:0}` | a list of values of a type |
        /// | `{is:0}` | a description: a part, the name of its type, and a field of it or nothing: three parameters |
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Reason {
            $(#[doc = $template] $variant,)*
        }

        impl Reason {
            /// All of them.
            pub const ALL: &[Reason] = &[$(Reason::$variant),*];

            /// The stable name.
            pub fn name(self) -> &'static str {
                match self { $(Reason::$variant => $name,)* }
            }

            /// The sentence in English, with places for the parameters.
            pub fn template(self) -> &'static str {
                match self { $(Reason::$variant => $template,)* }
            }
        }
    };
}

reasons! {
    TooLong "too_long" "the expression is {0} bytes long; at most {1} are accepted";
    Empty "empty" "the expression is empty";
    NestedTooDeep "nested_too_deep" "the expression is nested more than {0} levels deep here";
    ChainTooLong "chain_too_long" "more than {0} operations hang on one another here; split the expression";
    ClosesNothing "closes_nothing" "`{0}` closes nothing";
    NotClosed "not_closed" "`{0}` is not closed; a `{1}` is missing";
    NoExpression "no_expression" "this is not an expression";
    EndsEarly "ends_early" "the expression ends where something more is expected";
    ReservedWord "reserved_word" "`{0}` is a reserved word and no name";
    IntegerTooLarge "integer_too_large" "`{0}` does not fit a whole number of 64 bits";
    NumberTooLarge "number_too_large" "`{0}` does not fit a number of 64 bits";
    EscapeOfNothing "escape_of_nothing" "this text holds an escape that stands for no character";
    Unexpected "unexpected" "`{0}` is not expected here";
    UnknownEscape "unknown_escape" "this escape is not known; a backslash itself is written `\\\\`";
    NoClosingQuote "no_closing_quote" "this text has no closing quote";
    NoMeaning "no_meaning" "`{0}` has no meaning here";
    WriteAtLeast "write_at_least" "`{0}` has no meaning here; at least as much is `>=`";
    WriteAtMost "write_at_most" "`{0}` has no meaning here; at most as much is `<=`";
    WriteDiffers "write_differs" "`{0}` has no meaning here; two values differ with `!=`";
    WriteEquals "write_equals" "`{0}` has no meaning here; two values are compared with `==`";
    WriteAnd "write_and" "`{0}` has no meaning here; both of two is `&&` or `and`";
    WriteOr "write_or" "`{0}` has no meaning here; either of two is `||` or `or`";
    StraightQuotes "straight_quotes" "`{0}` has no meaning here; texts stand between straight quotes";
    QuotedField "quoted_field" "`{0}` has no meaning here; only a field may stand between two of them, such as .`content-type`";
    SchemaTooLarge "schema_too_large" "the schema has more than {0} fields";
    TooManyFields "too_many_fields" "a rule may read at most {0} fields";
    TooManyCodes "too_many_codes" "a rule may name at most {0} codes and concept groups";
    NoMessages "no_messages" "messages are not part of this language";
    Unreadable "unreadable" "this cannot be read";
    NotBoolean "not_boolean" "a rule answers with true or false; this is {type:0}";
    Constant "constant" "this reads nothing about its subject, so its answer is the same for everyone";
    NotReadable "not_readable" "`{0}` is not part of what this rule may read";
    NoPartOfCode "no_part_of_code" "a code has no `{0}`; it has code, uri, display and namespace";
    HasNoField "has_no_field" "{is:0}, which has no field `{3}`";
    HasNoFields "has_no_fields" "{is:0}, which has no fields";
    TakesField "takes_field" "`has` takes a field, such as `has(me.birth_date)`";
    NoField "no_field" "`{0}` has no field `{1}`";
    NoFieldSuggested "no_field_suggested" "`{0}` has no field `{1}`; did you mean `{2}`?";
    NoIdentifiers "no_identifiers" "`{0}` has no field `{1}`: rules cannot read identifiers";
    FunctionAsName "function_as_name" "`{0}` is a function; write `{1}`";
    NoName "no_name" "there is no `{0}`; an expression begins with `me`, `members`, `programs` or `as_of`";
    NoNameSuggested "no_name_suggested" "there is no `{0}`; did you mean `{1}`?";
    TakesCode "takes_code" "`{0}` takes a code; {is:1}";
    TakesRecordedCode "takes_recorded_code" "`{0}` takes a code that was recorded, such as `me.gender`";
    OtherVocabulary "other_vocabulary" "`{0}` holds codes of {any:1}, so it is never one of {any:2}";
    OtherHierarchy "other_hierarchy" "`{0}` holds codes of {any:1}, so it never descends from a code of `{2}`";
    OtherText "other_text" "`{0}` is never `{1}`; its codes are of {any:2}";
    CompareWithCodeOf "compare_with_code_of" "`{0}` is a code; compare it with a code, `code('{1}#…')`";
    CompareWithCode "compare_with_code" "`{0}` is a code; compare it with `code(…)`";
    ComparePartOfCode "compare_part_of_code" "`{0}` is a code; compare its `.code`, or the whole with `code('uri')`";
    CompareWithDate "compare_with_date" "`{0}` is a date; compare it with `date(…)`";
    NothingBetween "nothing_between" "nothing is between `{0}` and `{1}`; the smaller bound comes first";
    NegativeCount "negative_count" "`{0}` is a count and never less than 0";
    Contradiction "contradiction" "`{0}` and `{1}` are never both true";
    NoNull "no_null" "no fact is `null` here; `has(…)` asks whether a field is recorded";
    NotUri "not_uri" "`{0}` is not the URI of a code, which is written `namespace#code`";
    NotUriOfCode "not_uri_of_code" "`{0}` is not the URI of a code";
    NotNameOfGroup "not_name_of_group" "`{0}` is not the name of a concept group";
    ReadsDate "reads_date" "`{0}` reads a date; {is:1}";
    TakesOnePerson "takes_one_person" "`{0}` takes one person; {is:1}";
    TakesPerson "takes_person" "`{0}` takes a person; {is:1}";
    ReadsFieldOfPerson "reads_field_of_person" "`{0}` reads `{1}`, which `{2}` does not have";
    TakesDate "takes_date" "`{0}` takes a date; {is:1}";
    TakesDateSuggested "takes_date_suggested" "`{0}` takes a date; did you mean `{1}`?";
    TakesDateAsText "takes_date_as_text" "`date` takes a text such as '2026-01-31'; {is:0}";
    NotADay "not_a_day" "`{0}` is not a day, which is written `'2026-01-31'`";
    NotLiteral "not_literal" "`{0}` takes this as a text written out between quotes";
    ArgumentCount "argument_count" "`{0}` takes {arguments:1}, not {3}: `{4}`";
    CalledOnValue "called_on_value" "`{0}` is called on a value: `{1}`";
    TakesInBrackets "takes_in_brackets" "`{0}` takes its value in brackets: `{1}`";
    NoFunction "no_function" "there is no function `{0}`";
    NoFunctionSuggested "no_function_suggested" "there is no function `{0}`; did you mean `{1}`?";
    TakesType "takes_type" "`{0}` takes {type:1}; {is:2}";
    TakesBoolean "takes_boolean" "`{0}` takes true or false; {is:1}";
    NotTakesBoolean "not_takes_boolean" "`{0}` takes true or false, and only what follows it closely; {is:1}; put what it belongs to in brackets";
    TakesNumbers "takes_numbers" "`{0}` takes numbers; {is:1}";
    TakesOneNumber "takes_one_number" "`{0}` takes at least one number";
    TakesList "takes_list" "`{0}` takes a list; {is:1}";
    TakesListOrText "takes_list_or_text" "`{0}` takes a list or text; {is:1}";
    TakesCelValue "takes_cel_value" "`{0}` takes a value that CEL has a type for; {is:1}";
    NotPattern "not_pattern" "`{0}` is not a regular expression";
    CannotConvert "cannot_convert" "`{0}` cannot convert this: {is:1}";
    BranchTypes "branch_types" "both answers of `? :` must be of one type; {is:0} and {is:3}";
    CannotCompare "cannot_compare" "`{0}` cannot compare this: {is:1}";
    CannotCompareTypes "cannot_compare_types" "`{0}` cannot compare {type:1} with {type:2}";
    NoDateArithmetic "no_date_arithmetic" "dates are not subtracted; `days_since(x)` and `age_years(x)` count from a date to `as_of`";
    TakesIntegers "takes_integers" "`{0}` takes whole numbers, not {type:1} and {type:2}";
    TakesListsOfOneType "takes_lists_of_one_type" "`{0}` takes two lists of one type, not {type:1} and {type:2}";
    TakesSummands "takes_summands" "`{0}` takes two numbers, texts or lists, not {type:1} and {type:2}";
    TakesTwoNumbers "takes_two_numbers" "`{0}` takes two numbers, not {type:1} and {type:2}";
    DoesNotTake "does_not_take" "`{0}` does not take {type:1} and {type:2}";
    MixedNumbers "mixed_numbers" "`{0}` does not mix whole numbers with fractions; write `{1}`";
    ListOfOneType "list_of_one_type" "a list holds values of one type; {is:0} stands among values that are {type:3}";
    InTakesList "in_takes_list" "`in` takes a list on its right; {is:0}";
    InTakesListNotText "in_takes_list_not_text" "`in` takes a list on its right; {is:0}; a part of a text is found with `contains`";
    CannotFind "cannot_find" "`in` cannot find {type:0} in {list:1}";
    CannotFindCode "cannot_find_code" "`in` cannot find {type:0} in {list:1}; write the codes as `code('uri')`";
    ItemOfList "item_of_list" "only a list has items by number; {is:0}";
    ItemByNumber "item_by_number" "an item is named by its number, from 0; {is:0}";
    ItemsOfListOrMap "items_of_list_or_map" "only lists and maps have items; {is:0}";
    TakesNameForItem "takes_name_for_item" "`{0}` first takes a name for the item, such as `m`";
    TakesNameForValue "takes_name_for_value" "`{0}` first takes a name for the value, such as `x`";
    SameVariables "same_variables" "both variables of `{0}` are `{1}`";
    MakesEntry "makes_entry" "`{0}` makes an entry of a map; {is:1}";
    MapHoldsNot "map_holds_not" "a map does not hold this; {is:0}";
    TakesOptional "takes_optional" "`{0}` takes an optional value; {is:1}";
    SortsPlainValues "sorts_plain_values" "`{0}` sorts plain values; {is:1}";
    CannotTake "cannot_take" "`{0}` cannot take this: {is:1}";
    CannotTakeCode "cannot_take_code" "`{0}` cannot take this: {is:1}; take its `.code` or `.uri`";
    CannotTakeDate "cannot_take_date" "`{0}` cannot take this: {is:1}; take it as an instant or a text";
    KeyOfMap "key_of_map" "a key of a map is a text, a whole number or a truth; {is:0}";
}

impl Reason {
    /// The sentence with its parameters.
    pub fn with<const N: usize>(self, parameters: [&str; N]) -> Message {
        let message = Message { reason: self, parameters: Vec::with_capacity(N) };
        parameters.into_iter().fold(message, Message::and)
    }
}

/// A sentence with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The sentence.
    pub reason: Reason,
    /// Its parameters.
    pub parameters: Vec<String>,
}

impl From<Reason> for Message {
    fn from(reason: Reason) -> Self {
        Self { reason, parameters: Vec::new() }
    }
}

impl Message {
    /// Adds a parameter: its start, on one line.
    pub fn and(mut self, parameter: &str) -> Self {
        let shown = parameter.chars().take(PARAMETER_CHARACTERS_MAX);
        self.parameters.push(shown.map(|character| if character.is_control() { ' ' } else { character }).collect());
        self
    }

    /// Adds a type.
    pub fn of_type(self, value: &Type) -> Self {
        self.and(type_name(value))
    }

    /// Adds a description of a part: its text, its type, and a field of a record.
    pub fn about(self, (text, value, field): (String, &'static str, String)) -> Self {
        self.and(&text).and(value).and(&field)
    }

    fn at(&self, index: usize) -> &str {
        self.parameters.get(index).map_or("", String::as_str)
    }

    fn place(&self, form: &str, index: usize) -> String {
        match form {
            "any" => format!("`{}`", self.at(index).split(' ').collect::<Vec<_>>().join("` or `")),
            "arguments" => arguments(self.at(index), self.at(index + 1)),
            "type" => type_in_words(self.at(index)).to_owned(),
            "list" => format!("a list of {}", items_in_words(self.at(index))),
            "is" => description(self.at(index), self.at(index + 1), self.at(index + 2)),
            _ => self.at(index).to_owned(),
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.reason.template();
        while let Some((before, (place, after))) =
            rest.split_once('{').and_then(|(before, after)| Some((before, after.split_once('}')?)))
        {
            let (form, index) = place.split_once(':').unwrap_or(("", place));
            f.write_str(before)?;
            f.write_str(&self.place(form, index.parse().unwrap_or(usize::MAX - 2)))?;
            rest = after;
        }
        f.write_str(rest)
    }
}

fn arguments(least: &str, most: &str) -> String {
    let noun = if most == "1" { "argument" } else { "arguments" };
    if least == most { format!("{least} {noun}") } else { format!("{least} to {most} {noun}") }
}

fn description(text: &str, value: &str, field: &str) -> String {
    match value {
        "record" if field.is_empty() => format!("`{text}` is a record"),
        "record" => format!("`{text}` is a record; name one of its fields, such as `{field}`"),
        "list" => format!("`{text}` is a list; ask it with `exists`, `all` or `in`"),
        _ => format!("`{text}` is {}", type_in_words(value)),
    }
}

/// The stable name of a type.
pub fn type_name(value: &Type) -> &'static str {
    match value {
        Type::Boolean => "boolean",
        Type::Integer => "integer",
        Type::Number => "number",
        Type::Text => "text",
        Type::Date => "date",
        Type::Coded(_) => "code",
        Type::Record(_) => "record",
        Type::List(_) => "list",
        Type::Nothing => "nothing",
        Type::Other(OtherType::Unsigned) => "unsigned",
        Type::Other(OtherType::Bytes) => "bytes",
        Type::Other(OtherType::Null) => "null",
        Type::Other(OtherType::Map) => "map",
        Type::Other(OtherType::Timestamp) => "instant",
        Type::Other(OtherType::Duration) => "duration",
        Type::Other(OtherType::Kind) => "type",
        Type::Other(OtherType::Optional) => "optional",
        Type::Dynamic => "any",
    }
}

fn type_in_words(name: &str) -> &'static str {
    match name {
        "boolean" => "true or false",
        "integer" => "a whole number",
        "number" => "a number with a fraction",
        "numeric" => "a number",
        "text" => "text",
        "date" => "a date",
        "code" => "a code",
        "record" => "a record",
        "list" => "a list",
        "nothing" => "nothing",
        "unsigned" => "an unsigned whole number",
        "bytes" => "bytes",
        "null" => "`null`",
        "map" => "a map",
        "instant" => "an instant",
        "date_or_instant" => "a date or an instant",
        "time" => "a date, an instant or a span of time",
        "duration" => "a span of time",
        "type" => "a type",
        "optional" => "an optional value",
        "value" => "a value",
        _ => "a value of any type",
    }
}

fn items_in_words(name: &str) -> &'static str {
    match name {
        "boolean" => "truths",
        "integer" | "number" => "numbers",
        "text" => "texts",
        "date" => "dates",
        "code" => "codes",
        "record" => "records",
        "list" => "lists",
        "nothing" => "nothing",
        _ => "values",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_used_once() {
        let mut names: Vec<&str> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn places_are_filled_by_their_form() {
        let message = Reason::CannotFindCode.with(["code", "text"]).to_string();
        assert_eq!(message, "`in` cannot find a code in a list of texts; write the codes as `code('uri')`");
        let message = Reason::OtherVocabulary.with(["me.gender", "urn:a urn:b", "urn:c"]).to_string();
        assert_eq!(message, "`me.gender` holds codes of `urn:a` or `urn:b`, so it is never one of `urn:c`");
        let message = Reason::BranchTypes.with(["1", "integer", "", "me", "record", "gender"]).to_string();
        let expected = "both answers of `? :` must be of one type; `1` is a whole number and `me` is a record; \
                        name one of its fields, such as `gender`";
        assert_eq!(message, expected);
        let message = Reason::ArgumentCount.with(["map", "2", "3", "1", "list.map(x, …)"]).to_string();
        assert_eq!(message, "`map` takes 2 to 3 arguments, not 1: `list.map(x, …)`");
        let message = Reason::ArgumentCount.with(["size", "1", "1", "2", "size(x)"]).to_string();
        assert_eq!(message, "`size` takes 1 argument, not 2: `size(x)`");
    }

    #[test]
    fn a_parameter_is_short_and_on_one_line() {
        let long = Reason::NoMeaning.with([&"a\n".repeat(PARAMETER_CHARACTERS_MAX)]);
        assert_eq!(long.parameters[0].chars().count(), PARAMETER_CHARACTERS_MAX);
        assert!(!long.to_string().contains('\n'));
    }
}
