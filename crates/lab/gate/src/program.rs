//! Another version of the program as a side: it runs the scenarios and prints its results as JSON.

use crate::error::{GateError, ProgramError};
use crate::measurements::{MeasuredRun, ScenarioMeasurements};
use crate::rule::Rule;
use crate::side::{Request, Side};
use core::fmt::Write as _;
use poseidon_lab::manifest::{Manifest, content_hash};
use poseidon_lab::study::Study;
use poseidon_lab::summary::PhaseSummary;
use serde::Deserialize;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The most bytes that are read from a program. A run prints about 10 KB.
const MAX_OUTPUT: u64 = 1 << 30;

/// The number of characters of a failed command's output that an error repeats.
const SHOWN_OUTPUT: usize = 4_000;

/// The exit codes of a complete run: success, and a gating claim that fails, which is not the gate's concern.
const COMPLETE: [i32; 2] = [0, 4];

/// Another version of the command `poseidon`.
pub struct ProgramSide<'a> {
    /// The name in reports.
    pub name: String,
    /// The program.
    pub program: PathBuf,
    /// A folder for its results, and for the texts of built-in scenarios.
    pub folder: PathBuf,
    /// The number of parallel runs.
    pub jobs: usize,
    /// The backend that runs the studies, as `poseidon run --on` names it.
    pub backend: &'static str,
    /// The studies.
    pub studies: &'a [Study],
    /// The guarded metrics.
    pub rules: &'a [Rule],
}

/// What `poseidon run --json` prints, as far as the gate reads it.
#[derive(Deserialize)]
struct RunOutput {
    runs: Vec<RunJson>,
}

#[derive(Deserialize)]
struct RunJson {
    manifest: Manifest,
    phases: Vec<PhaseSummary>,
}

impl ProgramSide<'_> {
    /// Returns a file with the study's text: its own file, or a copy of a built-in scenario or of one with other laws.
    fn scenario_file(&self, study: &Study) -> Result<PathBuf, ProgramError> {
        let own = Path::new(&study.file);
        if fs::read(own).is_ok_and(|text| text == study.text.as_bytes()) {
            return fs::canonicalize(own).map_err(|source| ProgramError::Io { path: own.to_owned(), source });
        }
        // The name of a study is its path below a folder called `scenarios`.
        let path = self.folder.join("scenarios").join(format!("{}.toml", study.name));
        let write = || {
            fs::create_dir_all(path.parent().unwrap_or(&self.folder))?;
            fs::write(&path, &study.text)
        };
        write().map_err(|source| ProgramError::Io { path: path.clone(), source })?;
        fs::canonicalize(&path).map_err(|source| ProgramError::Io { path, source })
    }

    fn run_study(&self, study: &Study, seeds: u64) -> Result<ScenarioMeasurements, ProgramError> {
        let file = self.scenario_file(study)?;
        let mut command = Command::new(&self.program);
        command.arg("run").arg(&file).args(["--json", "--quiet", "--records", "none"]);
        command.args(["--seeds", &seeds.to_string(), "--jobs", &self.jobs.to_string()]);
        command.args(["--on", self.backend]);
        command.arg("--output").arg(self.folder.join("results"));
        if study.is_quick {
            command.arg("--quick");
        }
        let output = run_command(&mut command, "it runs the scenarios of one side", &COMPLETE)?;
        let RunOutput { mut runs } = serde_json::from_slice(&output).map_err(|source| {
            let program = self.program.display().to_string();
            ProgramError::Output { program, source }
        })?;
        runs.retain(|run| !run.manifest.interrupted);
        let text_hash = content_hash(study.text.as_bytes());
        let scenario_hash = runs.first().map_or(text_hash, |run| run.manifest.scenario_hash.clone());
        let measured = runs.iter().map(|run| MeasuredRun { manifest: &run.manifest, phases: &run.phases });
        Ok(ScenarioMeasurements::from_runs(&study.name, &scenario_hash, measured, self.rules))
    }
}

impl Side for ProgramSide<'_> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn measure(&mut self, request: &Request<'_>) -> Result<Vec<ScenarioMeasurements>, GateError> {
        if *request.all_seeds.start() != 1 {
            return Err(ProgramError::FirstSeed.into());
        }
        let requested = self.studies.iter().filter(|study| request.includes_scenario(&study.name));
        let measured: Result<_, ProgramError> =
            requested.map(|study| self.run_study(study, *request.all_seeds.end())).collect();
        Ok(measured?)
    }

    fn seed_limit(&self) -> Option<usize> {
        None
    }
}

/// Runs a command and returns its stdout. Its stderr goes to an error if it fails.
pub(crate) fn run_command(
    command: &mut Command,
    purpose: &'static str,
    complete: &[i32],
) -> Result<Vec<u8>, ProgramError> {
    let tool = command.get_program().to_string_lossy().into_owned();
    let missing = |source| ProgramError::MissingTool { tool: tool.clone(), purpose, source };
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(missing)?;
    // Both pipes are read at the same time, so that the command never waits for a reader.
    let stderr = child.stderr.take().map(|stderr| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            io::BufReader::new(stderr).take(MAX_OUTPUT).read_to_end(&mut text).map(|_| text)
        })
    });
    let mut stdout = Vec::new();
    let read = child.stdout.take().map(|out| out.take(MAX_OUTPUT + 1).read_to_end(&mut stdout));
    if stdout.len() as u64 > MAX_OUTPUT {
        let _ = child.kill();
    }
    let status = child.wait().map_err(missing)?;
    let messages = stderr.and_then(|thread| thread.join().ok()?.ok()).unwrap_or_default();
    if stdout.len() as u64 > MAX_OUTPUT {
        return Err(ProgramError::TooMuchOutput { program: tool, limit: MAX_OUTPUT });
    }
    if let Some(Err(source)) = read {
        return Err(missing(source));
    }
    if status.code().is_some_and(|code| complete.contains(&code)) {
        return Ok(stdout);
    }
    let output = last_characters(&String::from_utf8_lossy(&messages), SHOWN_OUTPUT);
    Err(ProgramError::Failed { command: describe(command), status: status.to_string(), output })
}

fn describe(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        write!(text, " {}", argument.to_string_lossy()).expect("writing to a string cannot fail");
    }
    text
}

/// Returns the end of a text.
fn last_characters(text: &str, count: usize) -> String {
    let text = text.trim_end();
    let skipped = text.chars().count().saturating_sub(count);
    text.chars().skip(skipped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_reports_its_last_words() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo data; echo no such law >&2; exit 3"]);
        let error = run_command(&mut command, "a test needs it", &COMPLETE).expect_err("the command fails");
        let text = error.to_string();
        assert!(text.contains("exit status: 3") && text.ends_with("no such law"), "{text}");
        let mut command = Command::new("sh");
        command.args(["-c", "echo data; exit 4"]);
        assert_eq!(
            run_command(&mut command, "a test needs it", &COMPLETE).ok().as_deref(),
            Some(&b"data\n"[..])
        );
    }

    #[test]
    fn a_missing_tool_is_named() {
        let mut command = Command::new("/no/such/tool");
        let error =
            run_command(&mut command, "a test needs it", &COMPLETE).expect_err("there is no such tool");
        assert!(
            matches!(&error, ProgramError::MissingTool { tool, .. } if tool == "/no/such/tool"),
            "{error}"
        );
    }

    #[test]
    fn long_output_is_shortened_at_its_start() {
        assert_eq!(last_characters("abc\u{b5}d\n", 2), "\u{b5}d");
        assert_eq!(last_characters("ab", 5), "ab");
    }
}
