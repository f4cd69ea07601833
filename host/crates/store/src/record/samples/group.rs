//! Groups.

use jiff::civil::Date;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use daftar_domain::address::Address;
use daftar_domain::calendar::Period;
use daftar_domain::group::{Group, GroupDetails, Member, Relationship};
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::record::RecordId;

use super::parts::{
    any_address, any_coded, any_extension, any_identifier, any_meta, any_period, any_text, coded, full_address,
    full_extension, meta,
};

/// A group with every field set.
pub fn full_group() -> Group {
    let since = Period { start: Some(Date::constant(1969, 12, 31)), end: None };
    let details = GroupDetails {
        identifiers: vec![Identifier { key: IdentifierKey::parse("urn:x:household|H-1").unwrap(), period: None }],
        active: Some(false),
        name: Some("Haile household".into()),
        group_type: Some(coded(20, 5)),
        housing_type: Some(coded(21, 6)),
        members: Some(vec![
            Member { individual: RecordId(7), role: Some(coded(30, 7)), period: Some(since), is_inactive: false },
            Member { individual: RecordId(300), role: None, period: None, is_inactive: true },
        ]),
        relationships: Some(vec![
            Relationship { target: RecordId(5), kind: coded(31, 7), period: Some(since) },
            Relationship { target: RecordId(300), kind: coded(32, 7), period: None },
        ]),
        address: Some(vec![full_address(), Address::default()]),
        extension: full_extension(),
    };
    Group { id: RecordId(2), meta: meta(), details }
}

/// Any group that can be stored.
pub fn any_group() -> impl Strategy<Value = Group> {
    let member = (any::<u64>(), option::of(any_coded()), option::of(any_period()), any::<bool>()).prop_map(
        |(individual, role, period, is_inactive)| Member {
            individual: RecordId(individual),
            role,
            period,
            is_inactive,
        },
    );
    let types = (option::of(any_coded()), option::of(any_coded()));
    let members = option::of(vec(member, 0..5));
    let relationship = (any::<u64>(), any_coded(), option::of(any_period()))
        .prop_map(|(target, kind, period)| Relationship { target: RecordId(target), kind, period });
    let (relationships, address) = (option::of(vec(relationship, 0..3)), option::of(vec(any_address(), 0..3)));
    let rest = (members, relationships, address, any_extension());
    (any_meta(), vec(any_identifier(), 0..3), any::<Option<bool>>(), any_text(), types, rest).prop_map(
        |(meta, identifiers, active, name, types, (members, relationships, address, extension))| {
            let (group_type, housing_type) = types;
            let details = GroupDetails {
                identifiers,
                active,
                name,
                group_type,
                housing_type,
                members,
                relationships,
                address,
                extension,
            };
            Group { id: RecordId(4), meta, details }
        },
    )
}
