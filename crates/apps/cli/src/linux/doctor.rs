//! Implements `poseidon doctor`.

use super::print_json;
use crate::Failure;
use poseidon_linux::doctor::{Check, Feature, State, feature_state, run_checks};
use serde_json::{Map, Value, json};

/// Runs the checks and prints the results. A missing feature is a result, not a failure.
pub(super) fn run(json: bool) -> Result<(), Failure> {
    let checks = run_checks();
    if json {
        let features: Map<String, Value> = Feature::ALL
            .iter()
            .map(|feature| (feature.name().to_owned(), feature_state(*feature, &checks).name().into()))
            .collect();
        return print_json(
            &json!({ "can": features, "checks": checks.iter().map(check_json).collect::<Vec<_>>() }),
        );
    }
    for Check { name, state, finding, purpose, remedy, .. } in &checks {
        outln!("{:9}  {name:13}  {finding}", state.name());
        // Checks that were not tried need root, and another check reports missing root permissions.
        if *state == State::Missing {
            outln!("{:9}  {:13}  why: {purpose}\n{:9}  {:13}  fix: {remedy}", "", "", "", "");
        }
    }
    outln!();
    for feature in Feature::ALL {
        let state = feature_state(feature, &checks);
        let reasons = checks
            .iter()
            .filter(|check| check.state == state && check.needed_by.contains(&feature))
            .map(|check| check.name)
            .collect::<Vec<_>>()
            .join(", ");
        match state {
            State::Ok => outln!("{:9}  works on this machine", feature.name()),
            State::Missing => outln!("{:9}  does not work on this machine: {reasons}", feature.name()),
            State::NotTried => outln!("{:9}  unknown: not tried: {reasons}", feature.name()),
        }
    }
    Ok(())
}

fn check_json(check: &Check) -> Value {
    json!({
        "name": check.name,
        "state": check.state.name(),
        "says": check.finding,
        "why": check.purpose,
        "fix": check.remedy,
        "since": check.since.map(|version| version.to_string()),
        "needed_by": check.needed_by.iter().map(|feature| feature.name()).collect::<Vec<_>>(),
    })
}
