//! Published results: where they come from, whether they are older than their scenarios, and how they are held against a rerun.

use crate::args::{How, On};
use crate::backend::{self, identity, simulator};
use crate::catalog::{SCENARIOS, natural};
use crate::code_hash::{CODE, LINUX_CODE, LOCK, code_hash};
use crate::studies;
use crate::watch::Bars;
use crate::{Failure, catalog};
use poseidon_lab::judge::Ran;
use poseidon_lab::report::{self, Comparison, Difference, Key, Number, Plans, Rejudged, Shown, Source};
use poseidon_lab::store::Store;
use poseidon_lab::study::{self, Finished, Options, Study, StudyError, Watch};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where results that are about to be published come from. Refuses what has no commit: runs of another program, code or scenarios that are
/// not those of the repository, and changes that are not committed.
pub(crate) fn source(studies: &[Study], finished: &[Finished]) -> Result<Source, Failure> {
    let refuse = |why: String| Err(Failure::Run(format!("cannot publish: {why}")));
    let own = [backend::code_hash(On::Sim), backend::code_hash(On::Linux)];
    if let Some(run) = finished.iter().find(|run| !own.contains(&run.manifest.code_hash)) {
        let (study, tool) = (&studies[run.study].name, &run.manifest.tool);
        return refuse(format!("{study} was run by {tool}, not by this program; run it again"));
    }
    let repository = repository()?;
    let is_on_linux = finished.iter().any(|run| run.manifest.code_hash == own[1]);
    let checked_out = match is_on_linux {
        false => hash_of(&repository, CODE)?,
        true => format!("{}-{}", hash_of(&repository, CODE)?, hash_of(&repository, LINUX_CODE)?),
    };
    let built = &own[usize::from(is_on_linux)];
    if checked_out != *built {
        return refuse(format!(
            "the code in {} has the hash {checked_out} and this program was built from {built}; build it again",
            repository.display()
        ));
    }
    let mut files: Vec<String> = CODE.iter().chain([&LOCK]).map(|file| (*file).to_owned()).collect();
    files.extend(LINUX_CODE.iter().filter(|_| is_on_linux).map(|file| (*file).to_owned()));
    for study in studies {
        let file = format!("scenarios/{}.toml", study.name);
        if std::fs::read_to_string(repository.join(&file)).ok().as_ref() != Some(&study.text) {
            return refuse(format!("{file} is not there or not what was run; run {} again", study.name));
        }
        files.push(file);
    }
    let commit = commit_of(&repository, &files)?;
    Ok(Source { commit, tool: identity(On::Sim), code_hash: backend::code_hash(On::Sim) })
}

fn hash_of(repository: &Path, places: &[&str]) -> Result<String, Failure> {
    code_hash(repository, places).map_err(Failure::Run)
}

/// The repository that the current directory belongs to.
fn repository() -> Result<PathBuf, Failure> {
    Ok(PathBuf::from(git(Path::new("."), &["rev-parse", "--show-toplevel"])?))
}

/// The commit that is checked out; refuses where one of the files is not as it was committed.
fn commit_of(repository: &Path, files: &[String]) -> Result<String, Failure> {
    let mut status = vec!["status", "--porcelain", "--"];
    status.extend(files.iter().map(String::as_str));
    let changed = git(repository, &status)?;
    if let Some(first) = changed.lines().next() {
        return Err(Failure::Run(format!(
            "{} of the files that results depend on are not committed, such as {}; commit them first",
            changed.lines().count(),
            first.get(2..).unwrap_or(first).trim()
        )));
    }
    git(repository, &["rev-parse", "HEAD"])
}

fn git(folder: &Path, args: &[&str]) -> Result<String, Failure> {
    let failed = |why: String| Failure::Run(format!("git {}: {}", args[0], why.trim()));
    let output = Command::new("git").arg("-C").arg(folder).args(args).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// The scenario of a published study as it is now: the file below the current directory, or the one that is built in.
fn scenario_of(shown: &Shown) -> Option<Study> {
    let file = format!("scenarios/{}.toml", shown.name);
    let built_in =
        || SCENARIOS.iter().find(|(name, _)| *name == shown.name).map(|(_, text)| (*text).to_owned());
    let text = std::fs::read_to_string(&file).ok().or_else(built_in)?;
    let is_quick = shown.provenance.as_ref().is_some_and(|provenance| provenance.quick);
    Study::read(&file, &text, is_quick).ok()
}

/// The plans that a published study would have now, where they are worth comparing: where the text has changed it is stale without them,
/// and plans of real packets are resolved by another backend.
fn plans_now(shown: &Shown, study: Option<&Study>) -> Option<Plans> {
    let provenance = shown.provenance.as_ref().filter(|provenance| !provenance.on_linux)?;
    // A scenario that can no longer be resolved has no plans: it differs.
    let none = Plans { count: 0, hash: String::new() };
    let study = study?;
    (provenance.plans.count > 0).then(|| report::plans_of(study, &simulator()).unwrap_or(none))
}

/// Says of each study whether it is older than its scenario. Plans of large studies take seconds to resolve, so all cores share the work.
fn mark_stale(shown: &mut [Shown]) {
    let threads = backend::jobs(On::Sim, None);
    let mut parts: Vec<Vec<&mut Shown>> = (0..threads).map(|_| Vec::new()).collect();
    // Dealt out one by one: the large studies of a paper stand side by side.
    for (index, study) in shown.iter_mut().enumerate() {
        parts[index % threads].push(study);
    }
    std::thread::scope(|scope| {
        for part in parts {
            scope.spawn(move || {
                for study in part {
                    let scenario = scenario_of(study);
                    study.stale = why_stale(study, scenario.as_ref());
                }
            });
        }
    });
}

fn why_stale(shown: &Shown, scenario: Option<&Study>) -> Option<String> {
    let provenance = shown.provenance.as_ref();
    // The text first: it is cheap, and where it has changed plans need not be resolved.
    report::why_stale(provenance, scenario, None).or_else(|| {
        let plans = plans_now(shown, scenario);
        report::why_stale(provenance, scenario, plans.as_ref())
    })
}

fn read(folder: &Path) -> Result<Vec<Shown>, Failure> {
    let mut names = Store::new(folder)
        .studies("verdicts.json")
        .map_err(|error| Failure::Run(format!("{}: {error}", folder.display())))?;
    names.sort_by_key(|name| natural(name));
    report::published(folder, &names).map_err(Failure::Run)
}

/// Makes the page and the table of a folder of published results anew, and marks studies that are older than their scenarios.
pub(crate) fn index(folder: &Path) -> Result<Vec<Shown>, Failure> {
    let mut shown = read(folder)?;
    mark_stale(&mut shown);
    report::index(&mut shown, folder).map_err(Failure::Run)?;
    studies::page(&shown, &Store::new(folder), &report::origins(&shown).join(" "))?;
    Ok(shown)
}

/// Judges published studies again by the claims that their scenarios have now.
pub(crate) fn judge_again(folder: &Path) -> Result<(), Failure> {
    let commit = commit_of(&repository()?, &["scenarios".to_owned()])?;
    let mut total = Rejudged::default();
    for mut shown in read(folder)? {
        let Some(study) = scenario_of(&shown) else { continue };
        let before = shown.verdicts.clone();
        let plans = plans_now(&shown, Some(&study));
        let Rejudged { exactly, by_means, kept } =
            report::judge_again(folder, &mut shown, &study, plans.as_ref(), &commit)
                .map_err(|why| Failure::Run(format!("{}: {why}", shown.name)))?;
        total.exactly += exactly;
        total.by_means += by_means;
        total.kept += kept;
        for now in &shown.verdicts {
            let before = before.iter().find(|verdict| verdict.says == now.says);
            let was = before.map_or("not judged", |before| report::word(before.outcome));
            if was != report::word(now.outcome) {
                say!("{}: {}: {was}, now {}", shown.name, now.says, report::word(now.outcome));
            }
        }
    }
    index(folder)?;
    let Rejudged { exactly, by_means, kept } = total;
    say!(
        "{exactly} claims judged by the values of each seed, {by_means} by means over seeds; {kept} keep their verdict"
    );
    Ok(())
}

/// Runs a published study again and compares every number with what is published.
pub(crate) fn verify(name: &str, results: &Path, how: &How) -> Result<(), Failure> {
    let name = catalog::study(name, false)?.name;
    if !results.join(&name).join("verdicts.json").is_file() {
        return Err(Failure::Run(format!(
            "{name} is not published in {}; `poseidon report --publish` publishes what was run",
            results.display()
        )));
    }
    let shown = report::published(results, core::slice::from_ref(&name)).map_err(Failure::Run)?.remove(0);
    let scenario = scenario_of(&shown);
    if let Some(why) = why_stale(&shown, scenario.as_ref()) {
        let older = report::OLDER;
        return Err(Failure::Run(format!("{name} is {older}: {why}; run and publish it again")));
    }
    let (Some(study), Some(provenance)) = (scenario, &shown.provenance) else {
        return Err(Failure::Run(format!("{name} has no scenario or no hashes")));
    };
    if provenance.on_linux {
        return Err(Failure::Run(format!(
            "{name} ran on real packets, which do not repeat to the digit; `poseidon compare` puts two runs side by side"
        )));
    }
    let runs = study.runs(None);
    eprintln!("{name}: {runs} runs, {:.0} s of computing when they were published", shown.wall_s);
    let options = Options {
        seeds: None,
        jobs: backend::jobs(On::Sim, how.jobs),
        records: None,
        shard: (0, 1),
        identity: identity(On::Sim),
        code_hash: backend::code_hash(On::Sim),
    };
    let bars = Bars::new(runs, how.quiet || how.json);
    let store = Store::new(&how.output);
    let finished =
        study::run(&[study], &simulator(), &store, &options, &bars).map_err(|error| match error {
            StudyError::Scenario(error) => Failure::Scenario(error),
            StudyError::Store(_) | StudyError::Panicked { .. } => Failure::Run(error.to_string()),
        })?;
    bars.finish();
    if bars.is_interrupted() {
        return Err(Failure::Interrupted("what was finished is kept, and `poseidon report` reads it"));
    }
    let rerun = finished.iter().map(Finished::with_messages).collect::<Result<Vec<Ran>, _>>();
    let rerun = rerun.map_err(|error| Failure::Run(error.to_string()))?;
    let published = report::published_numbers(results, &shown).map_err(Failure::Run)?;
    let comparison = report::compare_numbers(&published, &report::numbers_of(&rerun));
    print(&name, &comparison, provenance, how.json)?;
    match comparison.differences.len() {
        0 => Ok(()),
        some => Err(Failure::Run(format!("{some} of {} numbers of {name} differ", comparison.compared))),
    }
}

/// Differences that are printed.
const SHOWN: usize = 10;

fn print(name: &str, of: &Comparison, from: &report::Provenance, json: bool) -> Result<(), Failure> {
    let Comparison { compared, differences } = of;
    let first = differences.iter().take(SHOWN);
    if json {
        let value = |number: &Option<Number>| {
            number.map(|number| serde_json::json!({ "mean": number.mean, "half": number.half, "seeds": number.seeds }))
        };
        let row = |Difference { key: Key { cell, phase, name }, published, rerun }: &Difference| {
            serde_json::json!({
                "cell": cell, "phase": phase, "name": name, "published": value(published), "rerun": value(rerun),
            })
        };
        let all = serde_json::json!({
            "study": name,
            "published": from,
            "code_hash": backend::code_hash(On::Sim),
            "compared": compared,
            "differ": differences.len(),
            "first": first.map(row).collect::<Vec<_>>(),
        });
        say!("{}", serde_json::to_string_pretty(&all).map_err(|error| Failure::Run(error.to_string()))?);
        return Ok(());
    }
    say!("published: {from}");
    say!("run again by {}", identity(On::Sim));
    say!("{compared} numbers compared, {} differ", differences.len());
    for Difference { key: Key { cell, phase, name }, published, rerun } in first {
        let text = |number: &Option<Number>| {
            number.map_or_else(
                || "missing".into(),
                |n| {
                    let half = n.half.map_or_else(String::new, |half| format!(" ± {half}"));
                    format!("{}{half} ({} seeds)", n.mean, n.seeds)
                },
            )
        };
        say!("  {cell}, {phase}, {name}: published {}, now {}", text(published), text(rerun));
    }
    Ok(())
}
