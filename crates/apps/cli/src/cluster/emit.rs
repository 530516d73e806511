//! `poseidon emit`: writes the job of a study for Slurm or Kubernetes. The scheduler distributes tasks over machines;
//! the tasks share the runs through the results folder.

use crate::backend::{self, simulator};
use crate::backend_kind::BackendKind;
use crate::duration::parse_duration;
use crate::location::Location;
use crate::records::Records;
use crate::{Failure, catalog};
use clap::{Args, ValueEnum};
use core::fmt::Write as _;
use core::time::Duration;
use poseidon_lab::budget::{Limits, SuiteEstimate, TimeEstimation};
use poseidon_lab::runner::{self, RunOptions, Shard};
use poseidon_lab::study::Study;
use poseidon_types::Bytes;
use std::path::{Path, PathBuf};

/// Arguments of `poseidon emit`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct EmitArgs {
    /// The scheduler.
    #[arg(value_enum)]
    target: Target,
    /// A file, or the name of a built-in scenario.
    scenario: String,
    /// The number of tasks [default: 8, but at most one per run].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    tasks: Option<u32>,
    /// The parallel runs, and the cores, of a task.
    #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    jobs: u32,
    /// The results folder, on a file system that all machines share, or s3://BUCKET/PREFIX.
    #[arg(long, short, default_value = "results")]
    output: PathBuf,
    /// Use the quick form of the scenario.
    #[arg(long)]
    quick: bool,
    /// Number of seeds per cell, instead of the number in the scenario.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    seeds: Option<u32>,
    /// The memory of a task, such as `2 GB` [default: 1.5 times the estimate, plus 64 MB].
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// The time limit of a task, such as `2 h` [default: twice the estimate, plus 10 min].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    time: Option<Duration>,
    /// The rows that tasks store. Without rows, a later `run` needs `--records none`, or it computes all runs again.
    #[arg(long, value_enum, default_value = "none")]
    records: Records,
    /// The command on the machines of the cluster.
    #[arg(long, default_value = "poseidon")]
    command: String,
    /// Kubernetes: the image with the command.
    #[arg(long, default_value = "poseidon:latest")]
    image: String,
    /// Kubernetes: the claim of the volume that the tasks share. It is mounted at the results folder.
    #[arg(long, value_name = "CLAIM", default_value = "poseidon-results")]
    volume_claim: String,
    /// Kubernetes with s3://: the Secret whose keys are the environment of the tasks, such as AWS_ACCESS_KEY_ID.
    #[arg(long, value_name = "SECRET", default_value = "poseidon-s3")]
    secret: String,
}

const EXAMPLES: &str = "\
Examples:
  poseidon emit slurm my.toml --tasks 100 -o /shared/results > my.sh && sh my.sh
  poseidon emit k8s fig14b --tasks 16 --image registry/poseidon:0.9 -o /results | kubectl apply -f -
  poseidon emit slurm my.toml --tasks 100 -o s3://bucket/my-study > my.sh && sh my.sh";

/// The folder of the tasks' logs, below the results folder.
pub(crate) const LOGS: &str = "logs";

/// A scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Target {
    /// A shell script that submits an array job, and a job that collects the results.
    Slurm,
    /// A manifest with an indexed Job.
    K8s,
}

/// What the job of a study needs.
struct JobEstimate {
    estimate: SuiteEstimate,
    tasks: u32,
    memory_mb: u64,
    minutes: u64,
}

/// Prints the job of a study.
pub(crate) fn emit(args: &EmitArgs) -> Result<(), Failure> {
    if args.scenario == catalog::STDIN {
        return Err(Failure::Usage("the machines of a cluster read the scenario; write it to a file".into()));
    }
    let study = catalog::find_study(&args.scenario, args.quick)?;
    let job = estimate_job(&study, args)?;
    let text = match args.target {
        Target::Slurm => slurm_script(&study, args, &job)?,
        Target::K8s => kubernetes_manifest(&study, args, &job)?,
    };
    outln!("{}", text.trim_end());
    eprintln!("{}", job.estimate);
    Ok(())
}

fn estimate_job(study: &Study, args: &EmitArgs) -> Result<JobEstimate, Failure> {
    let options = RunOptions {
        seeds: args.seeds,
        jobs: 1,
        records: None,
        shard: Shard::WHOLE,
        program: backend::program(BackendKind::Sim),
        limits: Limits::default(),
        time_estimation: TimeEstimation::FromSpeed,
    };
    let estimate = runner::estimate_studies(core::slice::from_ref(study), &simulator(), None, &options)?;
    let runs = u32::try_from(estimate.runs).unwrap_or(u32::MAX).max(1);
    let tasks = args.tasks.unwrap_or(8).min(runs);
    // A task ends at most one run after its share of the work.
    let total = estimate.time.map_or(0.0, |(time, _)| (time + estimate.drain_time).as_secs_f64());
    let longest = estimate.weights.values().copied().max().unwrap_or(0) as f64;
    let longest =
        total * longest / estimate.weights.values().map(|weight| *weight as f64).sum::<f64>().max(1.0);
    let share = total / (f64::from(tasks) * f64::from(args.jobs)) + longest;
    let time = args.time.unwrap_or_else(|| Duration::from_secs_f64(2.0 * share + 600.0));
    let memory = estimate.memory.get().saturating_mul(args.jobs.into());
    let memory = args.memory.map_or(memory / 2 * 3 + 64_000_000, Bytes::get);
    Ok(JobEstimate {
        estimate,
        tasks,
        memory_mb: memory.div_ceil(1_000_000),
        minutes: time.as_secs().div_ceil(60).max(1),
    })
}

/// Returns a text as one word of a shell command.
fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Returns the options that a task and the collecting run have in common.
fn common_options(args: &EmitArgs) -> String {
    let mut options = format!(" --records {}", args.records.name());
    if args.quick {
        options.push_str(" --quick");
    }
    if let Some(seeds) = args.seeds {
        let _ = write!(options, " --seeds {seeds}");
    }
    options
}

/// Returns the name of a job: letters, digits and `-`.
fn job_name(study: &Study) -> String {
    let to_plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = study.name.chars().map(to_plain).take(40).collect();
    format!("poseidon-{}", name.trim_matches('-'))
}

/// Returns the absolute form of a path as text.
fn absolute(path: impl AsRef<Path>) -> Result<String, Failure> {
    let path = path.as_ref();
    let absolute = std::path::absolute(path)
        .map_err(|error| Failure::Run(format!("{}: the current folder: {error}", path.display())))?;
    Ok(absolute.to_string_lossy().into_owned())
}

fn slurm_script(study: &Study, args: &EmitArgs, job: &JobEstimate) -> Result<String, Failure> {
    let JobEstimate { estimate, tasks, memory_mb, minutes } = job;
    let (name, last) = (job_name(study), tasks - 1);
    // The jobs can be submitted from any folder.
    let scenario =
        if Path::new(&args.scenario).is_file() { absolute(&args.scenario)? } else { args.scenario.clone() };
    let folder = match Location::new(&args.output) {
        Location::Folder(folder) => absolute(folder)?,
        Location::ObjectStore(url) => url.to_owned(),
    };
    let [command, scenario, output] = [&args.command, &scenario, &folder].map(|word| shell_word(word));
    let (options, jobs) = (common_options(args), args.jobs);
    let limits = format!(
        "#SBATCH --cpus-per-task={jobs}\n#SBATCH --mem={memory_mb}M\n#SBATCH --time={minutes}\n\
         #SBATCH --requeue\n#SBATCH --open-mode=append"
    );
    // An object store has no logs. The job is submitted from a folder that the machines share.
    let logs = match Location::new(&args.output) {
        Location::Folder(_) => format!("{output}/{LOGS}"),
        Location::ObjectStore(_) => format!("{name}-logs"),
    };
    Ok(format!(
        "#!/bin/sh
# Submits {study_name} to Slurm: {runs} runs in {tasks} tasks, and a job that collects the results.
# The estimate was made on the machine that wrote this script: {estimate}
# Each task takes the longest runs of its share first, and then helps other tasks. A task that is stopped keeps its
# finished runs and exits with 130. To compute what is missing, submit this script again.
set -eu
mkdir -p {logs}
job=$(sbatch --parsable <<'EOF'
#!/bin/sh
#SBATCH --job-name={name}
#SBATCH --array=0-{last}
{limits}
#SBATCH --signal=TERM@60
#SBATCH --output={logs}/%A_%a.log
exec srun {command} run {scenario}{options} --task \"$SLURM_ARRAY_TASK_ID/{tasks}\" --jobs {jobs} -o {output}
EOF
)
echo \"array job $job; watch it: {command} status {output}\"
# Computes what failed tasks have left, judges the claims and writes the report.
collect=$(sbatch --parsable --dependency=\"afterany:$job\" <<'EOF'
#!/bin/sh
#SBATCH --job-name={name}-collect
{limits}
#SBATCH --output={logs}/collect_%j.log
exec srun {command} run {scenario}{options} --jobs {jobs} -o {output}
EOF
)
echo \"collecting job $collect; to stop the study: scancel $job $collect\"
",
        study_name = study.name,
        runs = estimate.runs,
    ))
}

/// Returns a text as a JSON string, which is also a YAML string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn kubernetes_manifest(study: &Study, args: &EmitArgs, job: &JobEstimate) -> Result<String, Failure> {
    let JobEstimate { estimate, tasks, memory_mb, minutes } = job;
    let (name, jobs, seconds) = (job_name(study), args.jobs, minutes * 60);
    let output = args.output.to_string_lossy();
    let is_folder = matches!(Location::new(&args.output), Location::Folder(_));
    if is_folder && !output.starts_with('/') {
        return Err(Failure::Usage(format!(
            "-o {output} is not an absolute path; the volume is mounted there, such as -o /results"
        )));
    }
    // The study has the same name in the pod.
    let scenario = format!("/scenarios/{}.toml", study.name);
    let mut command = vec![args.command.clone(), "run".into(), scenario.clone()];
    command.extend(common_options(args).split_whitespace().map(str::to_owned));
    command.extend(
        ["--task", &format!("$(JOB_COMPLETION_INDEX)/{tasks}"), "--jobs", &jobs.to_string(), "-o"]
            .map(str::to_owned),
    );
    command.push(output.clone().into_owned());
    let command: Vec<String> = command.iter().map(|word| quoted(word)).collect();
    let text: String = study.text.lines().map(|line| format!("    {line}\n")).collect();
    let (image, claim, output_text) = (quoted(&args.image), quoted(&args.volume_claim), quoted(&output));
    let options = common_options(args);
    let place = if is_folder { ", where the volume is mounted" } else { "" };
    // With an object store, a task computes in a temporary folder of its pod.
    let (environment, mount, volume) = if is_folder {
        (
            String::new(),
            format!("{{name: results, mountPath: {output_text}}}"),
            format!("persistentVolumeClaim: {{claimName: {claim}}}"),
        )
    } else {
        let secret =
            format!("          envFrom:\n            - secretRef: {{name: {}}}\n", quoted(&args.secret));
        (secret, "{name: results, mountPath: /tmp}".to_owned(), "emptyDir: {}".to_owned())
    };
    Ok(format!(
        "# {study_name}: {runs} runs in {tasks} tasks.
# The estimate was made on the machine that wrote this file: {estimate}
# A pod that is stopped keeps its finished runs. Watch: {cli} status {output}{place}.
# Collect: kubectl wait --for=condition=complete --timeout=-1s job/{name}
#          {cli} run {argument}{options} -o {output}{place}.
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
data:
  scenario.toml: |
{text}---
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
spec:
  completions: {tasks}
  parallelism: {tasks}
  completionMode: Indexed
  backoffLimit: {retries}
  template:
    spec:
      restartPolicy: OnFailure
      activeDeadlineSeconds: {seconds}
      terminationGracePeriodSeconds: 60
      containers:
        - name: task
          image: {image}
          command: [{command}]
{environment}          resources:
            requests: {{cpu: \"{jobs}\", memory: {memory_mb}M}}
            limits: {{memory: {memory_mb}M}}
          volumeMounts:
            - {mount}
            - {{name: scenario, mountPath: {scenario_file}, subPath: scenario.toml}}
      volumes:
        - name: results
          {volume}
        - name: scenario
          configMap: {{name: {name}}}
",
        study_name = study.name,
        runs = estimate.runs,
        cli = args.command,
        argument = args.scenario,
        retries = 2 * tasks,
        command = command.join(", "),
        scenario_file = quoted(&scenario),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_shell_are_quoted() {
        assert_eq!(shell_word("/shared/my-results_1.toml"), "/shared/my-results_1.toml");
        assert_eq!(shell_word("my results"), "'my results'");
        assert_eq!(shell_word("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(shell_word(""), "''");
    }
}
