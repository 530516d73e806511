//! Baseline files: the per-seed values of the guarded metrics, small enough to be committed.
//!
//! Each metric takes one line, so that a difference in version control shows which metrics moved.

use crate::error::BaselineError;
use crate::measurements::{CellMeasurements, ScenarioMeasurements};
use core::fmt::Write as _;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;

/// The version of the file format.
pub const BASELINE_SCHEMA: u64 = 1;

/// The largest file that is read. A cell with six metrics and 20 seeds takes about 4 KB.
const MAX_BYTES: u64 = 64 << 20;

/// The values of all scenarios of a gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// The version of the file format.
    pub schema: u64,
    /// The program that made the values.
    pub program: String,
    /// The scenarios.
    pub scenarios: Vec<ScenarioMeasurements>,
}

/// Only the version, so that a file of another version is reported as such.
#[derive(Deserialize)]
struct Version {
    schema: u64,
}

impl Baseline {
    /// Creates a baseline from measured values.
    pub fn new(program: &str, scenarios: Vec<ScenarioMeasurements>) -> Self {
        Self { schema: BASELINE_SCHEMA, program: program.to_owned(), scenarios }
    }

    /// Reads a file. The file is untrusted: its size, its version and its lists are checked.
    pub fn read(path: &Path) -> Result<Self, BaselineError> {
        let io = |source| BaselineError::Io { path: path.to_owned(), source };
        let mut bytes = Vec::new();
        File::open(path).map_err(io)?.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(BaselineError::TooLarge { path: path.to_owned(), limit: MAX_BYTES });
        }
        Self::parse(path, &bytes)
    }

    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, BaselineError> {
        let json = |source| BaselineError::Json { path: path.to_owned(), source };
        let Version { schema } = serde_json::from_slice(bytes).map_err(json)?;
        if schema != BASELINE_SCHEMA {
            let (path, expected) = (path.to_owned(), BASELINE_SCHEMA);
            return Err(BaselineError::Version { path, found: schema, expected });
        }
        let baseline: Self = serde_json::from_slice(bytes).map_err(json)?;
        for scenario in &baseline.scenarios {
            for cell in &scenario.cells {
                if let Some(problem) = cell.find_problem() {
                    let (scenario, cell) = (scenario.scenario.clone(), cell.name());
                    return Err(BaselineError::Inconsistent {
                        path: path.to_owned(),
                        scenario,
                        cell,
                        problem,
                    });
                }
            }
        }
        Ok(baseline)
    }

    /// Writes the file. A partial file never replaces an older one.
    pub fn write(&self, path: &Path) -> Result<(), BaselineError> {
        let io = |source| BaselineError::Io { path: path.to_owned(), source };
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let temporary = path.with_file_name(name);
        let write = || -> std::io::Result<()> {
            let mut file = File::create(&temporary)?;
            file.write_all(self.render().as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&temporary, path)
        };
        write().map_err(|error| {
            let _ = std::fs::remove_file(&temporary);
            io(error)
        })
    }

    /// Returns the file content: JSON with one line per metric.
    pub fn render(&self) -> String {
        let mut text = String::new();
        let mut line = |part: core::fmt::Arguments<'_>| {
            text.write_fmt(part).expect("writing to a string cannot fail");
            text.push('\n');
        };
        line(format_args!("{{\n  \"schema\": {},\n  \"program\": {},", self.schema, json(&self.program)));
        line(format_args!("  \"scenarios\": ["));
        for (index, scenario) in self.scenarios.iter().enumerate() {
            let ScenarioMeasurements { scenario: name, scenario_hash, quick, cells } = scenario;
            line(format_args!("    {{\n      \"scenario\": {},", json(name)));
            line(format_args!(
                "      \"scenario_hash\": {},\n      \"quick\": {quick},",
                json(scenario_hash)
            ));
            let cells: Vec<String> = cells.iter().map(render_cell).collect();
            line(format_args!("      \"cells\": [\n{}\n      ]", cells.join(",\n")));
            line(format_args!("    }}{}", if index + 1 < self.scenarios.len() { "," } else { "" }));
        }
        line(format_args!("  ]\n}}"));
        text
    }
}

fn render_cell(cell: &CellMeasurements) -> String {
    let CellMeasurements { cell, phase, seeds, result_hashes, values, at_least } = cell;
    let metrics = |lists: &std::collections::BTreeMap<String, Vec<Option<f64>>>| {
        let lines: Vec<String> =
            lists.iter().map(|(name, list)| format!("            {}: {}", json(name), json(list))).collect();
        lines.join(",\n")
    };
    let mut text = format!(
        "        {{\n          \"cell\": {},\n          \"phase\": {},\n          \"seeds\": {},\n          \
         \"result_hashes\": {},\n          \"values\": {{\n{}\n          }}",
        json(cell),
        json(phase),
        json(seeds),
        json(result_hashes),
        metrics(values)
    );
    if !at_least.is_empty() {
        text.push_str(&format!(",\n          \"at_least\": {{\n{}\n          }}", metrics(at_least)));
    }
    text.push_str("\n        }");
    text
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts, numbers and lists can be written as JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn example() -> Baseline {
        let cell = CellMeasurements {
            cell: "law \"x\"\n<]]>%".into(),
            phase: "all".into(),
            seeds: vec![1, 2],
            result_hashes: vec!["a".into(), "b".into()],
            values: BTreeMap::from([
                ("flows.total_gbps".into(), vec![Some(0.1 + 0.2), Some(1e-300)]),
                ("rpc.latency_p99_us".into(), vec![None, Some(12.5)]),
            ]),
            at_least: BTreeMap::from([("rpc.latency_p99_us".into(), vec![Some(4.0), None])]),
        };
        let empty = CellMeasurements { cell: "empty".into(), ..CellMeasurements::default() };
        let scenario = |name: &str| ScenarioMeasurements {
            scenario: name.into(),
            scenario_hash: "0123".into(),
            quick: true,
            cells: vec![cell.clone(), empty.clone()],
        };
        Baseline::new("poseidon 0.1.0", vec![scenario("one"), scenario("two")])
    }

    fn parse(text: &str) -> Result<Baseline, String> {
        Baseline::parse(Path::new("b.json"), text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_baseline_is_read_as_it_was_written() {
        let text = example().render();
        assert_eq!(parse(&text), Ok(example()));
        assert!(
            text.contains("\"flows.total_gbps\": [0.30000000000000004,1e-300]\n")
                || text.contains("[0.30000000000000004,1e-300],\n"),
            "{text}"
        );
        assert_eq!(parse(&Baseline::new("p", Vec::new()).render()), Ok(Baseline::new("p", Vec::new())));
    }

    #[test]
    fn an_unusable_file_is_refused() {
        let text = example().render();
        let newer = parse(&text.replace("\"schema\": 1", "\"schema\": 2")).expect_err("the version differs");
        assert!(newer.contains("schema version 2, and this program reads version 1"), "{newer}");
        let inconsistent =
            parse(&text.replace("\"seeds\": [1,2]", "\"seeds\": [2,1]")).expect_err("not sorted");
        assert!(inconsistent.contains("the seeds are not in ascending order"), "{inconsistent}");
        for wrong in
            ["", "{}", "[]", "{\"schema\": -1}", &text[..text.len() / 2], &text.replace("phase", "phse")]
        {
            assert!(parse(wrong).is_err_and(|error| error.contains("is not a baseline")), "{wrong}");
        }
        let missing =
            Baseline::read(Path::new("/no/such/baseline.json")).expect_err("the file does not exist");
        assert!(missing.to_string().contains("--bless"), "{missing}");
    }
}
