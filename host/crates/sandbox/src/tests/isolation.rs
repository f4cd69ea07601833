//! Nothing of one call reaches the next, and nothing of the machine reaches a guest.

use std::sync::Arc;

use crate::package::Package;
use crate::testing::guest::host_with;
use crate::testing::pack_guest::PackGuest;

/// Instances that run sequentially, so that each may get the slot of the one before.
const ROUNDS: usize = 50;

fn assert_valid(guest: &PackGuest) {
    let host = host_with(None);
    let plugin = Arc::new(host.load(&Package::read(guest.build()).unwrap()).unwrap());
    for round in 0..ROUNDS {
        host.try_out(&plugin).map(drop).unwrap_or_else(|error| panic!("round {round}: {error}"));
    }
}

#[test]
fn an_instance_begins_with_its_initial_memory_after_another_wrote_to_the_same_slot() {
    // The start function traps if memory, a global or a table has a value that an instance before it wrote; then it
    // writes these, and the end of a larger memory.
    let top = r#"
        (global $seen (mut i32) (i32.const 0))
        (table $table 2 funcref)
        (func $start
            (if (i32.load (i32.const 131000)) (then (unreachable)))
            (if (global.get $seen) (then (unreachable)))
            (if (i32.eqz (ref.is_null (table.get $table (i32.const 1)))) (then (unreachable)))
            (if (i32.ne (memory.size) (i32.const 2)) (then (unreachable)))
            (if (i32.eq (memory.grow (i32.const 1)) (i32.const -1)) (then (unreachable)))
            (if (i32.load (i32.const 196000)) (then (unreachable)))
            (i32.store (i32.const 131000) (i32.const 1))
            (i32.store (i32.const 196000) (i32.const 1))
            (global.set $seen (i32.const 1))
            (table.set $table (i32.const 1) (ref.func $start)))
        (elem declare func $start)
        (start $start)"#;
    assert_valid(&PackGuest { top, ..PackGuest::default() });
}

#[test]
fn the_bits_of_a_nan_are_the_same_on_every_machine() {
    // Without canonical values x86 makes a NaN with its sign set, and other processors one without. The zero is read from
    // memory, so that no compiler computes the result.
    let describe = "(local $zero f64)
        (local.set $zero (f64.load (i32.const 131000)))
        (if (i64.ne (i64.reinterpret_f64 (f64.div (local.get $zero) (local.get $zero))) (i64.const 0x7ff8000000000000))
            (then (unreachable)))
        (if (i32.ne (i32.reinterpret_f32 (f32.sqrt (f32.sub (f32.load (i32.const 131000)) (f32.const 1))))
                (i32.const 0x7fc00000))
            (then (unreachable)))
        (global.get $descriptions)";
    assert_valid(&PackGuest { describe, ..PackGuest::default() });
}
