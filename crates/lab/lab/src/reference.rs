//! Generates the book's reference pages from the types that they describe.

use crate::listing::{NameKind, SERIES};
use crate::scenario::Scenario;
use crate::summary::METRICS;
use crate::tables::TABLES;
use core::fmt::Write as _;
use serde_json::Value;

/// Returns the reference page for scenario keys.
pub fn scenario_page() -> String {
    let schema = schemars::schema_for!(Scenario).to_value();
    let mut page = String::from(
        "# Scenario keys\n\n\
         This page is generated from the types that parse scenarios. `poseidon schema` prints a JSON Schema for editors.\n\
         Quantities are strings with a unit. An unknown key is an error with a line number and a suggestion.\n",
    );
    add_table(&mut page, "Top-level keys", "", &schema);
    let definitions = schema.get("$defs").and_then(Value::as_object);
    for (name, definition) in definitions.into_iter().flatten() {
        let Some(title) = heading(name) else { continue };
        match definition.get("oneOf").and_then(Value::as_array) {
            Some(variants) => add_variants(&mut page, &title, definition, variants),
            None => add_table(&mut page, &title, description(definition), definition),
        }
    }
    page.push_str("\n## Built-in names\n\n`poseidon list` prints these names, and `poseidon list traffic` those of one kind.\n");
    for (title, kind) in [
        ("Laws", NameKind::Laws),
        ("Policies", NameKind::Policies),
        ("Workloads", NameKind::Workloads),
        ("Collectives", NameKind::Collectives),
    ] {
        add_names(&mut page, title, kind);
    }
    page
}

/// Adds a table of built-in names to the page.
fn add_names(page: &mut String, title: &str, kind: NameKind) {
    add_line(page, format_args!("\n### {title}\n\n`{}`\n", kind.usage()));
    page.push_str("| name | applies to | description |\n|---|---|---|\n");
    for entry in kind.entries() {
        add_line(page, format_args!("| `{}` | {} | {} |", entry.name, entry.subject, entry.description));
    }
}

/// Returns the reference page for metrics and result columns.
pub fn results_page() -> String {
    let mut page = String::from(
        "# Results\n\n\
         A results folder has one folder per study, which has one folder per run. The hash of the plan and the program\n\
         names the folder of a run. A run has these files:\n\n\
         * `manifest.json`: metadata of the run;\n\
         * `plan.txt`: the effective configuration;\n\
         * `summary.json`: the metrics below, by phase;\n\
         * `messages.bin`: the latency of each message;\n\
         * optionally, its rows as Parquet or CSV.\n\n\
         A study has `verdicts.json`, its figures and the data of each figure.\n\n\
         ## Metrics\n\n\
         A metric is written as `name.metric`, where `name` is a traffic pattern, a queue, a buffer, a class or `run`.\n\
         Claims and figures combine metrics with `+ - * /` and parentheses.\n\n\
         A percentile needs ten samples beyond it. Percentiles of messages are computed over the messages of all seeds. A message\n\
         that did not finish has an infinite latency. If a metric has no value, `summary.json` gives the reason under `missing`.\n\n\
         Of a ring with more than 100,000 messages, the times of a random sample of 100,000 messages are stored. The counts cover\n\
         all messages.\n\n\
         | metric | applies to | meaning |\n|---|---|---|\n",
    );
    for metric in METRICS {
        add_line(
            &mut page,
            format_args!("| `{}` | {} | {} |", metric.name, metric.subject, metric.description),
        );
    }
    page.push_str(
        "\n## Series\n\n\
         Figures of the kind `series` show these series. The name of the traffic, the queue or the message class comes first,\n\
         as in `victim.rate_gbps`.\n\n\
         | series | applies to | meaning |\n|---|---|---|\n",
    );
    for series in SERIES {
        add_line(
            &mut page,
            format_args!("| `{}` | {} | {} |", series.name, series.subject, series.description),
        );
    }
    page.push_str(
        "\n## Rows\n\n\
         Every row names its cell and its seed, and its connection or queue, so that one query can read the rows of many\n\
         runs: `results/**/messages.parquet`. [Analyse results with DuckDB and pandas](../howto/results.md) has examples.\n\n\
         If several cells have the same plan, the plan runs once, and its rows name one of these cells.\n",
    );
    for info in TABLES {
        add_line(
            &mut page,
            format_args!(
                "\n### {}\n\n{}\n\n| column | type | unit | meaning |\n|---|---|---|---|",
                info.name, info.description
            ),
        );
        for column in info.columns {
            let missing = if column.is_optional { "; may be empty" } else { "" };
            add_line(
                &mut page,
                format_args!(
                    "| `{}` | {} | {} | {}{missing} |",
                    column.name,
                    column.kind.name(),
                    column.unit.name(),
                    column.description
                ),
            );
        }
    }
    page
}

fn add_line(page: &mut String, text: core::fmt::Arguments<'_>) {
    writeln!(page, "{text}").expect("writing to a string cannot fail");
}

/// Returns the section heading for a type. Types without a section, such as strings and numbers, have no heading.
fn heading(name: &str) -> Option<String> {
    let headings = [
        ("LawSpec", "`[laws.NAME]`"),
        ("TopologySpec", "`[topology]`"),
        ("LinkSpec", "Links"),
        ("SwitchSpec", "`[switch]`"),
        ("PolicySpec", "Policies"),
        ("GenerationSpec", "`[generation.NAME]`"),
        ("LinkChangeSpec", "`[[link-change]]`"),
        ("LinkImpairmentSpec", "`[[impairment]]`"),
        ("SlowLinkSpec", "`[[slow-link]]`"),
        ("LinkEventSpec", "`link-change.event`"),
        ("MarksGo", "`switch.marks-go`"),
        ("TrimSpec", "`switch.trim`"),
        ("PfcSpec", "`[switch.pfc]`"),
        ("SilenceSpec", "`[switch.silence]`"),
        ("StampSpec", "`switch.stamp`"),
        ("TransportSpec", "`[transport]`"),
        ("EchoSpec", "`transport.echo`"),
        ("PlbSpec", "`transport.plb`"),
        ("CreditsSpec", "`transport.credits`"),
        ("PathFilterSpec", "`transport.path-filter`"),
        ("TrafficSpec", "`[[traffic]]`"),
        ("TrafficKind", "`traffic.kind`"),
        ("DestinationSpec", "`traffic.destinations`"),
        ("FlowFormatSpec", "`traffic.format`"),
        ("StartUnitSpec", "`traffic.start-unit`"),
        ("TopologyFormatSpec", "`topology.format`"),
        ("ClassSpec", "`[observe.classes.NAME]`"),
        ("PhaseSpec", "`[[phase]]`"),
        ("ObserveSpec", "`[observe]`"),
        ("Analytic", "`analytic`"),
        ("QuickSpec", "`[quick]`"),
        ("ClaimSpec", "`[[claim]]`"),
        ("As", "`claim.as`"),
        ("FigureSpec", "`[[figure]]`"),
        ("FigureKind", "`figure.kind`"),
    ];
    headings.iter().find(|(known, _)| *known == name).map(|(_, title)| (*title).to_owned())
}

fn description(schema: &Value) -> &str {
    schema.get("description").and_then(Value::as_str).unwrap_or("")
}

/// Adds a table's keys to the page.
fn add_table(page: &mut String, title: &str, summary: &str, schema: &Value) {
    let Some(keys) = schema.get("properties").and_then(Value::as_object) else { return };
    add_line(page, format_args!("\n## {title}\n"));
    if !summary.is_empty() {
        add_line(page, format_args!("{}\n", summary.replace('\n', " ")));
    }
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    add_rows(page, keys, &required);
}

fn add_rows(page: &mut String, keys: &serde_json::Map<String, Value>, required: &[&str]) {
    page.push_str("| key | | meaning |\n|---|---|---|\n");
    for (key, schema) in keys {
        let required = if required.contains(&key.as_str()) { "required" } else { "" };
        let default = schema
            .get("default")
            .filter(|value| value.is_string() || value.is_number() || value.is_boolean());
        let default = default.map_or_else(String::new, |value| format!(" Default: {value}."));
        add_line(
            page,
            format_args!("| `{key}` | {required} | {}{default} |", description(schema).replace('\n', " ")),
        );
    }
}

/// Adds an enum's variants to the page. Variants are strings or tables with a `kind`.
fn add_variants(page: &mut String, title: &str, schema: &Value, variants: &[Value]) {
    add_line(page, format_args!("\n## {title}\n\n{}\n", description(schema).replace('\n', " ")));
    for variant in variants {
        let word = variant
            .get("const")
            .or_else(|| {
                variant.get("properties").and_then(|keys| keys.get("kind")).and_then(|kind| kind.get("const"))
            })
            .and_then(Value::as_str);
        if let Some(word) = word {
            add_line(page, format_args!("* `\"{word}\"`: {}", description(variant).replace('\n', " ")));
        }
        let keys = variant.get("properties").and_then(Value::as_object);
        for (key, schema) in keys.into_iter().flatten().filter(|(key, _)| *key != "kind") {
            add_line(page, format_args!("  * `{key}`: {}", description(schema).replace('\n', " ")));
        }
        let words = variant.get("enum").and_then(Value::as_array);
        for word in words.into_iter().flatten().filter_map(Value::as_str) {
            add_line(page, format_args!("* `\"{word}\"`"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_and_every_list_of_values_has_a_section() {
        let schema = schemars::schema_for!(Scenario).to_value();
        let definitions = schema.get("$defs").and_then(Value::as_object).expect("the schema has definitions");
        let has_keys = |schema: &Value| schema.get("properties").is_some();
        let has_values = |schema: &Value| {
            let variants = schema.get("oneOf").and_then(Value::as_array).into_iter().flatten();
            variants.into_iter().any(|variant| variant.get("const").is_some())
        };
        for (name, definition) in definitions {
            if has_keys(definition) || has_values(definition) {
                assert!(heading(name).is_some(), "{name} has no section on the reference page");
            }
        }
        let page = scenario_page();
        for text in ["* `\"other-hosts\"`: ", "## `[observe.classes.NAME]`", "| `below` |  | "] {
            assert!(page.contains(text), "{text}");
        }
    }
}
