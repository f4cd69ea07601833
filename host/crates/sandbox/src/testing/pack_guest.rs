//! A vocabulary pack in WebAssembly text, valid by default.

use crate::testing::guest::{Image, component, manifest, pair, plugin};
use daftar_domain::manifest::PluginKind;

/// The parts of a pack's module. Each body is the text of a function's instructions.
pub struct PackGuest {
    pub name: &'static str,
    pub version: &'static str,
    /// Pages of memory at the start.
    pub memory: &'static str,
    /// The imports of the module.
    pub imports: &'static str,
    /// Other definitions at the module's top level.
    pub top: &'static str,
    /// Pushes the address of a list of descriptions.
    pub describe: &'static str,
    /// Pushes the address of a page. `$cursor` is a parameter.
    pub concepts: &'static str,
    /// Pushes the address of a list of concept groups.
    pub groups: &'static str,
    /// The number of concepts that the description declares.
    pub promised: u32,
    /// The vocabulary's name.
    pub vocabulary_name: &'static [u8],
}

impl Default for PackGuest {
    fn default() -> Self {
        Self {
            name: "test",
            version: "1.0.0",
            memory: "2",
            imports: "",
            top: "",
            describe: "(global.get $descriptions)",
            concepts: "(global.get $page)",
            groups: "(global.get $empty)",
            promised: 2,
            vocabulary_name: b"Test",
        }
    }
}

impl PackGuest {
    /// The plugin's file.
    pub fn build(&self) -> Vec<u8> {
        plugin(
            &component(&self.text(), "vocabulary-pack"),
            &manifest(self.name, self.version, PluginKind::VocabularyPack),
        )
    }

    /// The module's text.
    pub fn text(&self) -> String {
        let mut image = Image::at(1_024);
        let empty = image.put(&pair(0, 0));
        let descriptions = self.descriptions(&mut image);
        let concepts = [concept(&mut image, "a"), concept(&mut image, "b")].concat();
        let all = image.put(&concepts);
        let page = page(&mut image, all, 2, None);
        // A page of one concept, and one of none, whose next cursor the guest writes.
        let short_page = next_page(&mut image, all, 1);
        let empty_page = next_page(&mut image, all, 0);
        format!(
            r#"(module
            {imports}
            (memory (export "memory") {memory})
            (global $empty i32 (i32.const {empty}))
            (global $descriptions i32 (i32.const {descriptions}))
            (global $page i32 (i32.const {page}))
            (global $short_page i32 (i32.const {short_page}))
            (global $empty_page i32 (i32.const {empty_page}))
            {data}
            {top}
            (func (export "daftar:plugin/vocabulary@0.1.0#describe") (result i32) {describe})
            (func (export "daftar:plugin/vocabulary@0.1.0#concept-groups") (result i32) {groups})
            (func (export "daftar:plugin/vocabulary@0.1.0#concepts")
                (param $name i32) (param $length i32) (param $cursor i32) (param $limit i32) (result i32) {concepts})
            (func (export "daftar:plugin/vocabulary@0.1.0#resolve") (param i32 i32 i32 i32) (result i32) (unreachable))
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 65536))
            )"#,
            imports = self.imports,
            memory = self.memory,
            data = image.data(),
            top = self.top,
            describe = self.describe,
            groups = self.groups,
            concepts = self.concepts,
        )
    }

    fn descriptions(&self, image: &mut Image) -> u32 {
        let name = image.put(self.vocabulary_name);
        let language = image.text("en");
        let languages = image.put(&language);
        let mut record = Vec::new();
        record.extend(image.text("urn:test"));
        record.extend(pair(name, self.vocabulary_name.len()));
        for field in ["Core", "2026", "A source", "CC0-1.0", "Ministry", "en"] {
            record.extend(image.text(field));
        }
        record.extend(pair(languages, 1));
        // Not hierarchical, complete, closed, read-only, not extensible; three bytes of padding.
        record.extend([0, 0, 0, 1, 0, 0, 0, 0]);
        record.extend(self.promised.to_le_bytes());
        let record = image.put(&record);
        image.put(&pair(record, 1))
    }
}

fn concept(image: &mut Image, code: &str) -> Vec<u8> {
    let label = [image.text("en"), image.text("A label")].concat();
    let labels = image.put(&label);
    let mut record = image.text(code).to_vec();
    record.extend([0, 1, 0, 0]); // active, selectable, padding
    record.extend(pair(0, 0)); // parents
    record.extend([0; 12]); // replaced-by
    record.extend(pair(labels, 1));
    record.extend(pair(0, 0)); // definitions
    record.extend(pair(0, 0)); // aliases
    record.extend([0; 12]); // uri
    record.extend(pair(0, 0)); // properties
    record
}

fn page(image: &mut Image, concepts: u32, count: usize, next: Option<u32>) -> u32 {
    let mut record = vec![0, 0, 0, 0]; // ok
    record.extend(pair(concepts, count));
    record.extend(u32::from(next.is_some()).to_le_bytes());
    record.extend(next.unwrap_or(0).to_le_bytes());
    image.put(&record)
}

/// A page whose next cursor, at offset 16, the guest writes.
fn next_page(image: &mut Image, concepts: u32, count: usize) -> u32 {
    page(image, concepts, count, Some(0))
}

/// The import `log`, as `$log`.
pub const LOG: &str = r#"(import "daftar:plugin/log@0.1.0" "write" (func $log (param i32 i32 i32)))"#;
/// An endless loop.
pub const LOOP: &str = "(loop $again (br $again)) (unreachable)";
/// Allocates megabytes of memory without end.
pub const MEMORY_BOMB: &str = "(loop $again (drop (memory.grow (i32.const 16))) (br $again)) (unreachable)";
/// Adds a thousand elements at a time to a table `$table` without end.
pub const TABLE_BOMB: &str =
    "(loop $again (drop (table.grow $table (ref.null func) (i32.const 1000))) (br $again)) (unreachable)";
/// A page of one concept that continues at the next cursor.
pub const ENDLESS_PAGES: &str =
    "(i32.store offset=16 (global.get $short_page) (i32.add (local.get $cursor) (i32.const 1)))
    (global.get $short_page)";
/// An empty page that continues at the next cursor.
pub const ENDLESS_EMPTY_PAGES: &str = "(i32.store offset=16 (global.get $empty_page) (i32.add (local.get $cursor) (i32.const 1))) (global.get $empty_page)";
/// A page of one concept that continues at its own cursor.
pub const STANDING_PAGES: &str =
    "(i32.store offset=16 (global.get $short_page) (local.get $cursor)) (global.get $short_page)";
