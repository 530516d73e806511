//! Prints laws, scenarios and other names.

use super::table::print_table;
use crate::Failure;
use crate::catalog::{self, SCENARIOS};
use poseidon_lab::listing::NameKind;
use poseidon_lab::study::Study;
use poseidon_laws::{AnyParams, LAWS};

/// Prints the studies that would run.
pub(crate) fn print_plan(studies: &[Study], seeds: Option<u32>, json: bool) {
    if json {
        let list: Vec<_> = studies
            .iter()
            .map(|study| {
                let scenario = study.scenario();
                serde_json::json!({
                    "name": study.name, "title": scenario.title, "source": scenario.source,
                    "cells": study.cells.len(), "runs": study.run_count(seeds), "claims": scenario.claim.len(),
                })
            })
            .collect();
        outln!("{}", serde_json::Value::from(list));
        return;
    }
    let mut rows = vec![["entry", "cells", "runs", "claims", "title"].map(str::to_owned).to_vec()];
    for study in studies {
        let scenario = study.scenario();
        rows.push(vec![
            study.name.clone(),
            study.cells.len().to_string(),
            study.run_count(seeds).to_string(),
            scenario.claim.len().to_string(),
            scenario.title.clone(),
        ]);
    }
    print_table(&rows);
}

/// Prints all laws.
pub(crate) fn print_laws(json: bool) {
    if json {
        let list: Vec<_> = LAWS
            .iter()
            .map(|law| serde_json::json!({ "name": law.name, "source": law.source, "state_bytes": law.state_bytes }))
            .collect();
        outln!("{}", serde_json::Value::from(list));
        return;
    }
    let mut rows = vec![["law", "bytes per flow", "needs", "source"].map(str::to_owned).to_vec()];
    for law in LAWS {
        let needs = AnyParams::for_law(law.name).map(|params| params.needs().to_string()).unwrap_or_default();
        rows.push(vec![law.name.into(), law.state_bytes.to_string(), needs, law.source.into()]);
    }
    print_table(&rows);
}

/// Prints a law and its parameters.
pub(crate) fn print_law(name: &str, json: bool) -> Result<(), Failure> {
    let params = catalog::law_defaults(name)?;
    let mut rows: Vec<Vec<String>> = Vec::new();
    params.for_each(&mut |info, value| {
        rows.push(vec![info.name.replace('_', "-"), value.to_string(), info.description.trim().to_owned()]);
    });
    if json {
        let list: Vec<_> = rows
            .iter()
            .map(|row| serde_json::json!({ "name": row[0], "value": row[1], "says": row[2] }))
            .collect();
        outln!("{}", serde_json::Value::from(list));
        return Ok(());
    }
    if let Some(law) = LAWS.iter().find(|law| law.name == name) {
        outln!("{name}: {}\nneeds {}; {} bytes per flow\n", law.source, params.needs(), law.state_bytes);
    }
    rows.insert(0, ["parameter", "value", "description"].map(str::to_owned).to_vec());
    print_table(&rows);
    params.for_each_preset(&mut |name, description| outln!("preset {name}: {description}"));
    Ok(())
}

/// Prints the built-in scenarios.
pub(crate) fn print_scenarios(json: bool) -> Result<(), Failure> {
    let studies: Vec<(&str, Study)> = SCENARIOS
        .iter()
        .map(|(name, text)| Ok((*name, Study::read(&format!("{name}.toml"), text, false)?)))
        .collect::<Result<_, Failure>>()?;
    if json {
        let list: Vec<_> = studies
            .iter()
            .map(|(name, study)| {
                let scenario = study.scenario();
                serde_json::json!({ "name": name, "title": scenario.title, "source": scenario.source })
            })
            .collect();
        outln!("{}", serde_json::Value::from(list));
        return Ok(());
    }
    let rows: Vec<Vec<String>> = studies
        .iter()
        .map(|(name, study)| vec![(*name).to_owned(), study.scenario().title.clone()])
        .collect();
    print_table(&rows);
    Ok(())
}

/// Prints the names of these kinds.
pub(crate) fn print_names(kinds: &[NameKind], json: bool) -> Result<(), Failure> {
    if json {
        let mut lists = serde_json::Map::new();
        for kind in kinds {
            lists.insert(kind.name().to_owned(), serde_json::to_value(kind.entries())?);
        }
        outln!("{}", serde_json::to_string_pretty(&lists)?);
        return Ok(());
    }
    for (number, kind) in kinds.iter().enumerate() {
        if number > 0 {
            outln!();
        }
        outln!("{}: {}", kind.name(), kind.usage());
        let entries = kind.entries();
        let has_subjects = entries.iter().any(|entry| !entry.subject.is_empty());
        let rows: Vec<Vec<String>> = entries
            .into_iter()
            .map(|entry| {
                let subject = has_subjects.then_some(entry.subject);
                [entry.name].into_iter().chain(subject).chain([entry.description]).collect()
            })
            .collect();
        print_table(&rows);
    }
    Ok(())
}
