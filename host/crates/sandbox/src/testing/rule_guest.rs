//! An eligibility engine in WebAssembly text whose expressions are one letter: the fault to commit.

use crate::testing::guest::{Image, component, manifest, pair, plugin};
use daftar_domain::manifest::PluginKind;

/// The plugin's file. Expressions, by their first letter:
///
/// | letter | effect |
/// |---|---|
/// | `!` | rejected with a diagnostic |
/// | `?` | rejected without one |
/// | `l` | compiling never ends |
/// | `f` | reads a field that does not exist |
/// | `e` | evaluating never ends |
/// | `m` | evaluating allocates memory without end |
/// | `s` | evaluating recurses without end |
/// | `t` | evaluating traps |
/// | `o` | the outcomes exceed the output limit |
/// | `v` | one verdict too many |
/// | `x` | the engine's own budget `width` is exhausted |
/// | `c` | the batch lacks a column |
/// | any other | all individuals are eligible |
pub fn letters(name: &str, version: &str) -> Vec<u8> {
    plugin(&component(&text(), "eligibility-engine"), &manifest(name, version, PluginKind::EligibilityEngine))
}

fn text() -> String {
    let mut image = Image::at(1_024);
    let empty = image.put(&pair(0, 0));
    let compiled = image.put(&[0; 8]);
    let refused_empty = image.put(&[&[1, 0, 0, 0][..], &pair(0, 0)].concat());
    let refused = {
        let mut diagnostic = vec![0, 0, 0, 0]; // an error
        diagnostic.extend(image.text("syntax"));
        diagnostic.extend(image.text("This cannot be read."));
        diagnostic.extend(image.text("unreadable"));
        diagnostic.extend(pair(0, 0)); // no parameters
        for number in [1u32, 2, 3] {
            diagnostic.extend(number.to_le_bytes());
        }
        diagnostic.extend([0; 12]); // no suggestion
        let diagnostics = image.put(&diagnostic);
        image.put(&[&[1, 0, 0, 0][..], &pair(diagnostics, 1)].concat())
    };
    let unknown_field = {
        let mut reference = vec![0, 0, 0, 0]; // `me`
        reference.extend(image.text("secret"));
        reference.extend([0; 4]);
        for number in [1u32, 1, 1] {
            reference.extend(number.to_le_bytes());
        }
        let references = image.put(&reference);
        image.put(&pair(references, 1))
    };
    let bound = image.put(&[0; 8]);
    let exhausted = {
        let budget = image.text("width");
        // A budget contains a 64-bit number, so the payload of a result or a variant is aligned to eight bytes.
        image
            .put_wide(&[&[1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0][..], &budget, &80_u64.to_le_bytes()].concat())
    };
    let missing_column = {
        let path = image.text("me.gender");
        image.put_wide(&[&[1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0][..], &path, &[0; 8]].concat())
    };
    // Verdicts of ones, offsets of zeros: capacity for 4,096 rows.
    let verdicts = image.put(&[1; 4_097]);
    let offsets = image.put(&[0; 4 * 4_097]);
    let summary = {
        let result_type = image.text("bool");
        let cost = [1_u64.to_le_bytes(), 1_u64.to_le_bytes(), 100_u64.to_le_bytes()].concat();
        image.put_wide(&[&result_type[..], &cost].concat())
    };
    let unexplained = image.put_wide(&[0; 24]);
    let outcomes = image.put_wide(
        &[&[0; 8][..], &pair(verdicts, 0), &pair(0, 0), &pair(offsets, 0), &pair(0, 0), &pair(0, 0)].concat(),
    );
    let data = image.data();
    let evaluate_parameters = "(param $rule i32) (param $as_of i32) (param $rows i32)
        (param i32 i32 i32 i32 i32) (param i32 i32 i32 i32 i32) (param $columns i32) (param $columns_length i32)";
    format!(
        r#"(module
        (import "[export]daftar:plugin/eligibility@0.1.0" "[resource-new]rule" (func $rule_new (param i32) (result i32)))
        (memory (export "memory") 160)
        {data}
        (global $room (mut i32) (i32.const 131072))
        (func $deeper (param i32) (result i32)
            (i32.add (call $deeper (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))
        (func (export "daftar:plugin/eligibility@0.1.0#compile")
            (param $expression i32) (param $length i32) (param i32 i32 i32 i32 i32) (result i32)
            (local $letter i32)
            (local.set $letter (i32.load8_u (local.get $expression)))
            (if (i32.eq (local.get $letter) (i32.const {bang})) (then (return (i32.const {refused}))))
            (if (i32.eq (local.get $letter) (i32.const {question})) (then (return (i32.const {refused_empty}))))
            (if (i32.eq (local.get $letter) (i32.const {l})) (then (loop $again (br $again))))
            (i32.store8 (i32.const {compiled}) (i32.const 0))
            (i32.store offset=4 (i32.const {compiled}) (call $rule_new (local.get $letter)))
            (i32.const {compiled}))
        (func (export "daftar:plugin/eligibility@0.1.0#[method]rule.references") (param $rule i32) (result i32)
            (if (i32.eq (local.get $rule) (i32.const {f})) (then (return (i32.const {unknown_field}))))
            (i32.const {empty}))
        (func (export "daftar:plugin/eligibility@0.1.0#[method]rule.questions") (param i32) (result i32) (i32.const {empty}))
        (func (export "daftar:plugin/eligibility@0.1.0#[method]rule.warnings") (param i32) (result i32) (i32.const {empty}))
        (func (export "daftar:plugin/eligibility@0.1.0#[method]rule.summary") (param i32) (result i32) (i32.const {summary}))
        (func (export "daftar:plugin/eligibility@0.1.0#[method]rule.explain") {evaluate_parameters} (param $row i32) (result i32)
            (i32.const {unexplained}))
        (func (export "daftar:plugin/eligibility@0.1.0#[method]rule.bind") (param i32 i32 i32 i32 i32) (result i32)
            (if (i32.ne (local.get 2) (i32.const 0)) (then
                (i32.store8 (i32.const {bound}) (i32.const 1))
                (return (i32.const {bound}))))
            (i32.const {bound}))
        (func (export "daftar:plugin/eligibility@0.1.0#[method]rule.evaluate") {evaluate_parameters} (result i32)
            (if (i32.eq (local.get $rule) (i32.const {e})) (then (loop $again (br $again))))
            (if (i32.eq (local.get $rule) (i32.const {m})) (then
                (loop $again (drop (memory.grow (i32.const 16))) (br $again))))
            (if (i32.eq (local.get $rule) (i32.const {s})) (then (drop (call $deeper (i32.const 0)))))
            (if (i32.eq (local.get $rule) (i32.const {t})) (then (unreachable)))
            (if (i32.eq (local.get $rule) (i32.const {x})) (then (return (i32.const {exhausted}))))
            (if (i32.eq (local.get $rule) (i32.const {c})) (then (return (i32.const {missing_column}))))
            (i32.store offset=12 (i32.const {outcomes}) (local.get $rows))
            (if (i32.eq (local.get $rule) (i32.const {v})) (then
                (i32.store offset=12 (i32.const {outcomes}) (i32.add (local.get $rows) (i32.const 1)))))
            (if (i32.eq (local.get $rule) (i32.const {o})) (then
                (i32.store offset=12 (i32.const {outcomes}) (i32.const 9000000))))
            (i32.store offset=28 (i32.const {outcomes}) (i32.add (local.get $rows) (i32.const 1)))
            (i32.const {outcomes}))
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
            (local $address i32)
            (local.set $address (i32.and (i32.add (global.get $room) (i32.const 15)) (i32.const -16)))
            (global.set $room (i32.add (local.get $address) (local.get 3)))
            (local.get $address))
        )"#,
        bang = u32::from(b'!'),
        question = u32::from(b'?'),
        l = u32::from(b'l'),
        f = u32::from(b'f'),
        e = u32::from(b'e'),
        m = u32::from(b'm'),
        s = u32::from(b's'),
        t = u32::from(b't'),
        x = u32::from(b'x'),
        c = u32::from(b'c'),
        v = u32::from(b'v'),
        o = u32::from(b'o'),
    )
}
