//! A stream of the triples of an RDF file; no graph is built.
//!
//! N-Triples are read line by line, so every triple has a line number. Turtle is read by a parser that buffers at most
//! 16 MiB of a statement.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use oxrdf::{NamedOrBlankNode, Term, Triple};
use oxttl::{NTriplesParser, TurtleParseError, TurtleParser, TurtleSyntaxError};

use crate::publisher_files::counts::Counts;
use crate::publisher_files::input::Input;
use crate::publisher_files::problem::{ImportError, excerpt};

/// The most blank nodes of one thesaurus.
const BLANK_NODES_MAX: usize = 4_000_000;

/// The syntax of an RDF file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// N-Triples.
    NTriples,
    /// Turtle.
    Turtle,
}

/// A subject or an object that is a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Node<'a> {
    /// With an IRI.
    Iri(&'a str),
    /// Blank, numbered by first occurrence: the same in every pass, unlike the parser's own names.
    Blank(u32),
}

/// An object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Object<'a> {
    /// A node.
    Node(Node<'a>),
    /// A text with its language tag, in lower case, if it has one.
    Text(&'a str, Option<&'a str>),
}

/// A triple with its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statement<'a> {
    /// The line, from 1, if the syntax has one triple per line.
    pub line: Option<u64>,
    /// The subject.
    pub subject: Node<'a>,
    /// The IRI of the predicate.
    pub predicate: &'a str,
    /// The object.
    pub object: Object<'a>,
}

/// Passes every triple of the file to `each`. Unreadable ones are rejected with their line.
///
/// # Errors
/// Reading failed, or `each` returned an error.
pub fn read(
    input: &Input<'_>,
    syntax: Syntax,
    counts: &mut Counts,
    mut each: impl FnMut(Statement<'_>) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    let mut blanks = Blanks { input, numbers: HashMap::new() };
    match syntax {
        Syntax::NTriples => {
            let mut lines = input.lines()?;
            while let Some(line) = lines.next()? {
                let Some(text) = line.text else {
                    counts.refuse(Some(line.number), None, "the line is not UTF-8");
                    counts.check_on()?;
                    continue;
                };
                for triple in NTriplesParser::new().for_slice(text) {
                    match triple {
                        Ok(triple) => {
                            counts.rows += 1;
                            blanks.pass_on(&triple, Some(line.number), &mut each)?;
                        }
                        Err(error) => {
                            refuse(counts, line.number, &error)?;
                            break;
                        }
                    }
                }
            }
        }
        Syntax::Turtle => {
            for triple in TurtleParser::new().for_reader(input.pass()?) {
                match triple {
                    Ok(triple) => {
                        counts.rows += 1;
                        blanks.pass_on(&triple, None, &mut each)?;
                    }
                    Err(TurtleParseError::Syntax(error)) => refuse(counts, error.location().start.line + 1, &error)?,
                    Err(TurtleParseError::Io(error)) => return Err(input.broken(None, &error)),
                }
            }
        }
    }
    Ok(())
}

fn refuse(counts: &mut Counts, line: u64, error: &TurtleSyntaxError) -> Result<(), ImportError> {
    let column = error.location().start.column + 1;
    counts.refuse(Some(line), None, format_args!("column {column}: {}", excerpt(error.message())));
    counts.check_on()
}

/// A 16-byte hash of a name: names may be as long as a line, and there are millions of them.
pub fn fingerprint(name: impl Hash) -> u128 {
    let hash = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        seed.hash(&mut hasher);
        name.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    hash(0) << 64 | hash(1)
}

/// Numbers blank nodes by the fingerprints of their names.
struct Blanks<'a, 'b> {
    input: &'a Input<'b>,
    numbers: HashMap<u128, u32>,
}

impl Blanks<'_, '_> {
    fn pass_on(
        &mut self,
        triple: &Triple,
        line: Option<u64>,
        each: &mut impl FnMut(Statement<'_>) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        let subject = match &triple.subject {
            NamedOrBlankNode::NamedNode(node) => Node::Iri(node.as_str()),
            NamedOrBlankNode::BlankNode(node) => Node::Blank(self.number(node.as_str())?),
        };
        let language;
        let object = match &triple.object {
            Term::NamedNode(node) => Object::Node(Node::Iri(node.as_str())),
            Term::BlankNode(node) => Object::Node(Node::Blank(self.number(node.as_str())?)),
            Term::Literal(literal) => {
                language = literal.language().map(str::to_ascii_lowercase);
                Object::Text(literal.value(), language.as_deref())
            }
        };
        each(Statement { line, subject, predicate: triple.predicate.as_str(), object })
    }

    fn number(&mut self, name: &str) -> Result<u32, ImportError> {
        let name = fingerprint(name);
        if let Some(number) = self.numbers.get(&name) {
            return Ok(*number);
        }
        let number = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        if self.numbers.len() >= BLANK_NODES_MAX {
            let reason = format_args!("it has more than {BLANK_NODES_MAX} anonymous nodes");
            return Err(self.input.unusable(None, reason));
        }
        self.numbers.insert(name, number);
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{Blanks, fingerprint};
    use crate::publisher_files::NoProgress;
    use crate::publisher_files::input::Input;

    #[test]
    fn long_names_are_distinguished_by_their_hashes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "# nothing\n").unwrap();
        let mut progress = NoProgress;
        let input = Input::open(file.path(), 100, &mut progress).unwrap();
        let mut blanks = Blanks { input: &input, numbers: HashMap::new() };
        let name = |last: &str| "b".repeat(900_000) + last;
        assert_eq!(blanks.number(&name("1")).unwrap(), 0);
        assert_eq!(blanks.number(&name("2")).unwrap(), 1);
        assert_eq!(blanks.number(&name("1")).unwrap(), 0);
        let mut retained: Vec<(u128, u32)> = blanks.numbers.into_iter().collect();
        retained.sort_by_key(|(_, number)| *number);
        assert_eq!(retained, [(fingerprint(name("1").as_str()), 0), (fingerprint(name("2").as_str()), 1)]);
    }
}
