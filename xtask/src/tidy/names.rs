//! Which paths a Rust file names: in `use`, in code, inside the arguments of macros; and which of its modules are tests.

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A path that a file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Its parts; `crate`, `self` and `super` are resolved, so that a path of ours starts with `crate`.
    pub path: Vec<String>,
    pub line: usize,
    pub is_test: bool,
}

/// What was found in a file.
#[derive(Debug, Default)]
pub struct Names {
    pub named: Vec<Named>,
    /// Modules in files of their own that are compiled for tests only, by their path from the crate's root.
    pub test_modules: Vec<Vec<String>>,
    /// Lines with an `allow` attribute.
    pub allows: Vec<usize>,
    /// Lines with an `ignore` attribute.
    pub ignores: Vec<usize>,
}

/// Reads a file that is the module at `module`, from the crate's root.
///
/// # Errors
/// It is not Rust; says where.
pub fn read(text: &str, module: &[String]) -> Result<Names, (usize, String)> {
    let file = syn::parse_file(text).map_err(|error| (error.span().start().line, error.to_string()))?;
    let mut reader = Reader { module: module.to_vec(), tests: 0, names: Names::default() };
    reader.visit_file(&file);
    Ok(reader.names)
}

struct Reader {
    module: Vec<String>,
    /// How many items around this place are compiled for tests only.
    tests: usize,
    names: Names,
}

impl Reader {
    fn name(&mut self, parts: Vec<String>, line: usize) {
        let mut rest = parts.as_slice();
        let mut path = match rest.first().map(String::as_str) {
            Some("self" | "super") => self.module.clone(),
            _ => Vec::new(),
        };
        let is_relative = rest.first().is_some_and(|first| first == "self" || first == "super");
        while let Some((first, others)) = rest.split_first() {
            match first.as_str() {
                "super" => drop(path.pop()),
                "self" => {}
                _ => break,
            }
            rest = others;
        }
        path.extend(rest.iter().cloned());
        if is_relative {
            path.insert(0, "crate".to_owned());
        }
        self.names.named.push(Named { path, line, is_test: self.tests > 0 });
    }

    fn use_tree(&mut self, tree: &syn::UseTree, before: &[String]) {
        match tree {
            syn::UseTree::Path(path) => {
                let before: Vec<String> = before.iter().cloned().chain([path.ident.to_string()]).collect();
                self.use_tree(&path.tree, &before);
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.use_tree(tree, before);
                }
            }
            syn::UseTree::Name(syn::UseName { ident }) | syn::UseTree::Rename(syn::UseRename { ident, .. }) => {
                let last = ident.to_string();
                // `use a::{self}` names `a`; a lone `use self::…` keeps its first word.
                let is_module_itself = last == "self" && !before.is_empty();
                let parts = before.iter().cloned().chain((!is_module_itself).then_some(last)).collect();
                self.name(parts, ident.span().start().line);
            }
            syn::UseTree::Glob(glob) => self.name(before.to_vec(), glob.star_token.span().start().line),
        }
    }

    /// Paths among tokens: words joined by `::`. What a macro makes of them is its business; that they are named is ours.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut parts: Vec<String> = Vec::new();
        let mut line = 0;
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.end_of_path(&mut parts, line);
                    }
                    if parts.is_empty() {
                        line = ident.span().start().line;
                    }
                    parts.push(ident.to_string());
                    colons = 0;
                }
                other => {
                    self.end_of_path(&mut parts, line);
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.end_of_path(&mut parts, line);
    }

    fn end_of_path(&mut self, parts: &mut Vec<String>, line: usize) {
        let parts = std::mem::take(parts);
        // A lone word is a variable or a keyword.
        if parts.len() > 1 {
            self.name(parts, line);
        }
    }

    fn within_tests(&mut self, is_test: bool, visit: impl FnOnce(&mut Self)) {
        self.tests += usize::from(is_test);
        visit(self);
        self.tests -= usize::from(is_test);
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let is_test = attributes(item).iter().any(is_for_tests);
        self.within_tests(is_test, |reader| visit::visit_item(reader, item));
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        let is_test = function.attrs.iter().any(is_for_tests);
        self.within_tests(is_test, |reader| visit::visit_impl_item_fn(reader, function));
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        self.module.push(module.ident.to_string());
        if module.content.is_none() && self.tests > 0 {
            self.names.test_modules.push(self.module.clone());
        }
        visit::visit_item_mod(self, module);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.use_tree(&item.tree, &[]);
        item.attrs.iter().for_each(|attribute| self.visit_attribute(attribute));
    }

    fn visit_item_extern_crate(&mut self, item: &'ast syn::ItemExternCrate) {
        self.name(vec![item.ident.to_string()], item.ident.span().start().line);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if parts.len() > 1 || path.leading_colon.is_some() {
            self.name(parts, path.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        let line = attribute.span().start().line;
        let tokens = match &attribute.meta {
            syn::Meta::List(list) => list.tokens.clone(),
            syn::Meta::Path(_) | syn::Meta::NameValue(_) => TokenStream::new(),
        };
        let is_conditional = attribute.path().is_ident("cfg_attr");
        let holds = |word: &str| tokens.clone().into_iter().any(|token| token.to_string() == word);
        if attribute.path().is_ident("allow") || (is_conditional && holds("allow")) {
            self.names.allows.push(line);
        }
        if attribute.path().is_ident("ignore") || (is_conditional && holds("ignore")) {
            self.names.ignores.push(line);
        }
        self.tokens(tokens);
        visit::visit_attribute(self, attribute);
    }
}

/// Whether an attribute is `#[cfg(test)]`.
fn is_for_tests(attribute: &syn::Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else { return false };
    list.path.is_ident("cfg") && list.tokens.to_string() == "test"
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::ExternCrate(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::ForeignMod(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::TraitAlias(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Union(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths that a text of the module `vocab::check` names, with the line, tests marked.
    fn named(text: &str) -> Vec<String> {
        let names = read(text, &["vocab".to_owned(), "check".to_owned()]).unwrap();
        let shown =
            |one: &Named| format!("{}{}:{}", if one.is_test { "test " } else { "" }, one.path.join("::"), one.line);
        names.named.iter().map(shown).collect()
    }

    #[test]
    fn sees_every_leaf_of_a_nested_use() {
        let text = "use crate::{domain::{code::Code, vocabulary as v}, error::*};\nuse std::fmt::{self, Display};";
        let expected = [
            "crate::domain::code::Code:1",
            "crate::domain::vocabulary:1",
            "crate::error:1",
            "std::fmt:2",
            "std::fmt::Display:2",
        ];
        assert_eq!(named(text), expected);
    }

    #[test]
    fn resolves_self_and_super_from_where_they_stand() {
        let text = "use super::limits;\nuse super::super::store::Store;\nmod inner { use super::Own; use self::x::Y; }";
        let expected = [
            "crate::vocab::limits:1",
            "crate::store::Store:2",
            "crate::vocab::check::Own:3",
            "crate::vocab::check::inner::x::Y:3",
        ];
        assert_eq!(named(text), expected);
    }

    #[test]
    fn sees_paths_in_code_types_macros_and_derives() {
        let text = "fn f(a: crate::store::Store) -> bool { println!(\"{}\", crate::plugin::x(b.c)); sled::open() }\n\
                    #[derive(serde::Serialize)]\nstruct S;\nwasmtime::component::bindgen!({ world: \"w\" });";
        let named = named(text);
        for expected in [
            "crate::store::Store:1",
            "crate::plugin::x:1",
            "sled::open:1",
            "serde::Serialize:2",
            "wasmtime::component::bindgen:4",
        ] {
            assert!(named.iter().any(|path| path == expected), "{expected} in {named:?}");
        }
    }

    #[test]
    fn tells_tests_from_the_rest() {
        let text = "#[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod more { use crate::store::A; }\nuse crate::domain::B;";
        let names = read(text, &["vocab".to_owned()]).unwrap();
        assert_eq!(names.test_modules, [["vocab", "tests"]]);
        assert_eq!(named(text), ["test crate::store::A:4", "crate::domain::B:5"]);
    }

    #[test]
    fn sees_attributes_that_silence() {
        let text = "#![allow(dead_code)]\n#[cfg_attr(unix, allow(unused))]\nfn f() {}\n#[test]\n#[ignore]\nfn g() {}\n#[expect(unused, reason = \"r\")]\nfn h() {}";
        let names = read(text, &[]).unwrap();
        assert_eq!((names.allows, names.ignores), (vec![1, 2], vec![5]));
    }

    #[test]
    fn says_where_a_file_is_not_rust() {
        assert_eq!(read("fn f() {}\nfn {", &[]).unwrap_err().0, 2);
    }
}
