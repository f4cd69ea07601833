use super::*;
use crate::engine::FEATURES;
use crate::testing::pack_guest::{LOG, PackGuest};

fn code(guest: &PackGuest) -> Vec<u8> {
    split(&guest.build()).unwrap().code
}

#[test]
fn packs_that_differ_in_data_and_manifest_have_the_same_code() {
    let (one, other) =
        (PackGuest::default(), PackGuest { name: "other", vocabulary_name: b"Best", ..PackGuest::default() });
    let (one, other) = (split(&one.build()).unwrap(), split(&other.build()).unwrap());
    assert_eq!(one.code, other.code);
    assert_ne!(one.data, other.data);
    assert_eq!((one.required.num_memories, one.required.max_initial_memory_size), (1, Some(2)));
    assert_eq!((one.required.num_tables, one.required.max_initial_table_size), (0, None));
}

#[test]
fn packs_that_differ_in_code_or_memory_have_other_code() {
    let ours = code(&PackGuest::default());
    let memory = PackGuest { memory: "3", ..PackGuest::default() };
    let groups = PackGuest { groups: "(unreachable)", ..PackGuest::default() };
    for other in [memory, groups] {
        assert_ne!(code(&other), ours);
    }
}

#[test]
fn both_parts_are_valid_and_the_data_part_has_no_functions() {
    let Split { code, data, .. } = split(&PackGuest::default().build()).unwrap();
    for part in [&code, &data] {
        wasmparser::Validator::new_with_features(FEATURES).validate_all(part).unwrap();
    }
    let has_functions = |payload: &Payload<'_>| matches!(payload, Payload::CodeSectionStart { .. });
    assert!(!Parser::new(0).parse_all(&data).any(|payload| has_functions(&payload.unwrap())));
    assert!(split(&code).is_none(), "it has no data any more");
}

#[test]
fn tables_are_counted() {
    let top = "(table 7 funcref)";
    let required = split(&PackGuest { top, ..PackGuest::default() }.build()).unwrap().required;
    assert_eq!((required.num_tables, required.max_initial_table_size), (1, Some(7)));
}

#[test]
fn a_pack_of_another_shape_is_not_divided() {
    let shapes = [
        ("an import", PackGuest { imports: LOG, ..PackGuest::default() }),
        ("a start function", PackGuest { top: "(func $start) (start $start)", ..PackGuest::default() }),
        ("data that code uses", PackGuest { top: "(data $x \"x\") (func (data.drop $x))", ..PackGuest::default() }),
        (
            "data at an address of a global",
            PackGuest { top: "(data (global.get $empty) \"x\")", ..PackGuest::default() },
        ),
    ];
    for (shape, guest) in shapes {
        assert!(split(&guest.build()).is_none(), "{shape}");
    }
    assert!(split(b"").is_none() && split(b"not wasm").is_none());
    assert!(
        split(&wat::parse_str("(module (memory (export \"memory\") 1) (data (i32.const 0) \"x\"))").unwrap()).is_none()
    );
}

#[test]
fn segments_that_no_code_can_use_are_divided() {
    // Such segments remain where the initial memory of a module was computed beforehand.
    let guest = PackGuest { top: "(data \"\")", ..PackGuest::default() };
    assert_eq!(code(&guest), code(&PackGuest::default()));
}

#[test]
fn data_are_divided_up_to_a_size() {
    let with = |bytes: usize| {
        let top: &'static str = format!("(data (i32.const 65536) \"{}\")", "x".repeat(bytes)).leak();
        split(&PackGuest { memory: "80", top, ..PackGuest::default() }.build()).is_some()
    };
    assert!(with(DATA_BYTES_MAX / 2));
    assert!(!with(DATA_BYTES_MAX));
}

#[test]
fn no_prefix_of_a_pack_is_a_panic() {
    let pack = PackGuest::default().build();
    for length in 0..pack.len() {
        drop(pack.get(..length).and_then(split));
    }
}
