//! Restricted fields cannot be inferred: for a client without access to a field, registers that differ in that field
//! alone are the same, for any request.

use daftar::domain::scope::Resource;
use daftar_tests::ApiClient;
use daftar_tests::records::path;
use serde_json::Value;

use super::probes::{Aim, Probe, probes};
use super::samples::{Sample, samples};
use super::worlds::{World, observable};

fn kind(resource: Resource) -> &'static str {
    match resource {
        Resource::Individual => "Individual",
        Resource::Group => "Group",
        Resource::Program => "Program",
        Resource::ProgramMembership => "ProgramMembership",
        Resource::Consent => "Consent",
        Resource::Vocabulary | Resource::Eligibility | Resource::Identifier => panic!("there are no such records"),
    }
}

fn worlds(resource: Resource) -> Vec<(World, ApiClient)> {
    (0..3)
        .map(|variant| {
            let world = World::new(variant);
            let all = world.unrestricted();
            world.furnish(&all);
            world.fill(resource, &all);
            (world, all)
        })
        .collect()
}

fn address(world: &World, sample: &Sample) -> String {
    match sample.resource {
        Resource::Consent => format!("/Consent/{}", world.consent_id(sample)),
        resource => path(kind(resource), &sample.name()),
    }
}

/// Sends every probe of every field of a resource; returns responses that distinguish two registers, or that should
/// have been rejected.
fn compare(resource: Resource) -> Vec<String> {
    let worlds = worlds(resource);
    let mut problems = Vec::new();
    for sample in &samples(resource) {
        let seen = |world: &World, all: &ApiClient| all.get(&address(world, sample)).expect(200).json();
        let before: Vec<Value> = worlds.iter().map(|(world, all)| seen(world, all)).collect();
        let of = |body: &Value| body.pointer(&format!("/{}", sample.field.replace('.', "/"))).cloned();
        let values: Vec<Option<Value>> = before.iter().map(of).collect();
        assert_ne!(values[0], values[1], "`{}`: the registers do not differ, so that nothing is tested", sample.field);
        let restricted: Vec<ApiClient> = worlds.iter().map(|(world, _)| world.restricted_from(sample)).collect();
        let requested: Vec<Vec<Probe>> =
            worlds.iter().map(|(world, _)| probes(sample, &address(world, sample))).collect();
        for (number, probe) in requested[0].iter().enumerate() {
            let responses = || restricted.iter().zip(&requested).map(|(client, probes)| probes[number].ask(client));
            let observed: Vec<Value> = responses().map(|response| observable(&response)).collect();
            if observed.iter().any(|response| *response != observed[0]) {
                let [one, two, three] = [&observed[0], &observed[1], &observed[2]];
                problems.push(format!("`{}` {probe:?}:\n  {one}\n  {two}\n  {three}", sample.field));
            }
            problems.extend(not_refused(sample, probe, &observed[0], &worlds[0].1));
        }
        let after: Vec<Option<Value>> = worlds.iter().map(|(world, all)| of(&seen(world, all))).collect();
        if after != values {
            problems.push(format!("`{}` was changed: {values:?} became {after:?}", sample.field));
        }
    }
    problems
}

/// The problem of the response to a request that uses the field, if any.
fn not_refused(sample: &Sample, probe: &Probe, response: &Value, unrestricted: &ApiClient) -> Option<String> {
    let must_be = match probe.aim {
        Aim::Look => false,
        Aim::Write => true,
        Aim::Use => probe.ask(unrestricted).status == 200,
    };
    if !must_be {
        return None;
    }
    let is_named = response["body"]["errors"][0]["field"] == sample.field.as_str()
        && response["body"]["errors"][0]["code"] == "field_not_granted"
        && response["body"]["detail"].as_str().is_some_and(|detail| detail.contains(&format!("`{}`", sample.field)));
    (response["status"] != 403 || !is_named).then(|| format!("`{}` {probe:?} is not refused: {response}", sample.field))
}

fn check(resource: Resource) {
    let problems = compare(resource);
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn no_response_reveals_a_hidden_field_of_a_person() {
    check(Resource::Individual);
}

#[test]
fn no_response_reveals_a_hidden_field_of_a_group() {
    check(Resource::Group);
}

#[test]
fn no_response_reveals_a_hidden_field_of_a_program() {
    check(Resource::Program);
}

#[test]
fn no_response_reveals_a_hidden_field_of_a_membership() {
    check(Resource::ProgramMembership);
}

#[test]
fn no_response_reveals_a_hidden_field_of_a_consent() {
    check(Resource::Consent);
}
