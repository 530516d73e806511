//! Reference pages of the book, made from the types that they describe.

use crate::scenario::Scenario;
use crate::summary::METRICS;
use crate::tables::TABLES;
use core::fmt::Write as _;
use serde_json::Value;

/// The page of scenario keys.
pub fn scenarios() -> String {
    let schema = schemars::schema_for!(Scenario).to_value();
    let mut page = String::from(
        "# Scenario keys\n\n\
         Made from the types that read scenarios; `poseidon schema` prints the same for editors. Quantities are text with a unit. A key that\n\
         is not here is refused with its line and the one that was probably meant.\n",
    );
    table(&mut page, "The scenario itself", "", &schema);
    let definitions = schema.get("$defs").and_then(Value::as_object);
    for (name, definition) in definitions.into_iter().flatten() {
        let Some(title) = heading(name) else { continue };
        match definition.get("oneOf").and_then(Value::as_array) {
            Some(variants) => choices(&mut page, &title, definition, variants),
            None => table(&mut page, &title, said(definition), definition),
        }
    }
    page
}

/// The page of result columns and metrics.
pub fn results() -> String {
    let mut page = String::from(
        "# Results\n\n\
         A folder of results holds one folder per study and in it one per run, named by the hash of its plan and the program. A run has `manifest.json` (what\n\
         really happened), `plan.txt` (the effective configuration), `summary.json` (the metrics below, by phase), `messages.bin` (how long each\n\
         message took) and, where they were asked for, its rows as Parquet or CSV. A study has `verdicts.json`, its figures and the data of each.\n\n\
         ## Metrics\n\n\
         Written as `name.metric`, where the name is a traffic's, a queue's, or `run`. Claims and figures may join them with `+ - * /` and\n\
         parentheses. A percentile is given only where ten samples lie beyond it; of messages it is taken over those of all seeds, and a message\n\
         that did not finish has an infinite time. Where a number cannot be given, `summary.json` has the reason under `missing`.\n\n\
         | metric | of | what it says |\n|---|---|---|\n",
    );
    for metric in METRICS {
        line(&mut page, format_args!("| `{}` | {} | {} |", metric.name, metric.of, metric.says));
    }
    page.push_str("\n## Rows\n");
    for info in TABLES {
        line(
            &mut page,
            format_args!(
                "\n### {}\n\n{}\n\n| column | type | unit | what it says |\n|---|---|---|---|",
                info.name, info.says
            ),
        );
        for column in info.columns {
            let missing = if column.may_miss { "; may be empty" } else { "" };
            line(
                &mut page,
                format_args!(
                    "| `{}` | {} | {} | {}{missing} |",
                    column.name,
                    column.kind.name(),
                    column.unit.name(),
                    column.says
                ),
            );
        }
    }
    page
}

fn line(page: &mut String, text: core::fmt::Arguments<'_>) {
    writeln!(page, "{text}").expect("a text takes everything");
}

/// The title of a part, where it deserves one: texts and numbers describe themselves.
fn heading(name: &str) -> Option<String> {
    let known = [
        ("LawSpec", "`[laws.NAME]`"),
        ("TopologySpec", "`[topology]`"),
        ("LinkSpec", "A link"),
        ("SwitchSpec", "`[switch]`"),
        ("PolicySpec", "A policy"),
        ("MarksGo", "`switch.marks-go`"),
        ("PfcSpec", "`[switch.pfc]`"),
        ("StampSpec", "`switch.stamp`"),
        ("TransportSpec", "`[transport]`"),
        ("EchoSpec", "`transport.echo`"),
        ("PlbSpec", "`transport.plb`"),
        ("TrafficSpec", "`[[traffic]]`"),
        ("TrafficKind", "`traffic.kind`"),
        ("PhaseSpec", "`[[phase]]`"),
        ("ObserveSpec", "`[observe]`"),
        ("Analytic", "`analytic`"),
        ("QuickSpec", "`[quick]`"),
        ("ClaimSpec", "`[[claim]]`"),
        ("As", "`claim.as`"),
        ("FigureSpec", "`[[figure]]`"),
        ("FigureKind", "`figure.kind`"),
    ];
    known.iter().find(|(known, _)| *known == name).map(|(_, title)| (*title).to_owned())
}

fn said(of: &Value) -> &str {
    of.get("description").and_then(Value::as_str).unwrap_or("")
}

/// The keys of a table.
fn table(page: &mut String, title: &str, says: &str, of: &Value) {
    let Some(keys) = of.get("properties").and_then(Value::as_object) else { return };
    line(page, format_args!("\n## {title}\n"));
    if !says.is_empty() {
        line(page, format_args!("{}\n", says.replace('\n', " ")));
    }
    let required: Vec<&str> = of
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    rows(page, keys, &required);
}

fn rows(page: &mut String, keys: &serde_json::Map<String, Value>, required: &[&str]) {
    page.push_str("| key | | what it is |\n|---|---|---|\n");
    for (key, of) in keys {
        let must = if required.contains(&key.as_str()) { "must be there" } else { "" };
        let default =
            of.get("default").filter(|value| value.is_string() || value.is_number() || value.is_boolean());
        let default = default.map_or_else(String::new, |value| format!(" Otherwise {value}."));
        line(page, format_args!("| `{key}` | {must} | {}{default} |", said(of).replace('\n', " ")));
    }
}

/// The words that may be written, or the kinds of a table.
fn choices(page: &mut String, title: &str, of: &Value, variants: &[Value]) {
    line(page, format_args!("\n## {title}\n\n{}\n", said(of).replace('\n', " ")));
    for variant in variants {
        let word = variant
            .get("const")
            .or_else(|| {
                variant.get("properties").and_then(|keys| keys.get("kind")).and_then(|kind| kind.get("const"))
            })
            .and_then(Value::as_str);
        if let Some(word) = word {
            line(page, format_args!("* `\"{word}\"`: {}", said(variant).replace('\n', " ")));
        }
        let keys = variant.get("properties").and_then(Value::as_object);
        for (key, of) in keys.into_iter().flatten().filter(|(key, _)| *key != "kind") {
            line(page, format_args!("  * `{key}`: {}", said(of).replace('\n', " ")));
        }
        let several = variant.get("enum").and_then(Value::as_array);
        for word in several.into_iter().flatten().filter_map(Value::as_str) {
            line(page, format_args!("* `\"{word}\"`"));
        }
    }
}
