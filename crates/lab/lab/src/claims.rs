//! Claims: a process that starts a run claims it first, so that processes that share a results folder do not compute
//! the same run.
//!
//! A claim is the file `claims/RUN.1` in the folder of a study. Its owner creates it with `O_EXCL`, writes to it at
//! fixed intervals (heartbeat), and removes it when the run ends. A claim without a heartbeat for the time that it
//! names has expired. Then another process creates `claims/RUN.2`; the exclusive creation decides who takes over.
//!
//! A claim saves work, and results do not depend on it: a result is named by its content and written atomically. If an
//! owner continues after its claim has expired, the run is computed twice, with the same result.

use crate::host::host_name;
use crate::store::StoreError;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::SystemTime;

/// The folder of claims in the folder of a study.
pub const CLAIMS_FOLDER: &str = "claims";

/// The time without a heartbeat after which a claim has expired.
pub const DEFAULT_EXPIRY: Duration = Duration::from_secs(60);

/// The heartbeats per expiry.
pub(crate) const BEATS_PER_EXPIRY: u32 = 6;

/// The process that owns a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimOwner {
    /// The name of the machine.
    pub host: String,
    /// The process number.
    pub pid: u32,
    /// The start of the machine, the namespace of process numbers and the start of the process, if the system tells.
    /// Together with the process number, they identify the process.
    #[serde(default)]
    pub identity: Option<String>,
    /// The study, cell and seed of the run.
    pub run: String,
    /// The time in seconds without a heartbeat after which the claim has expired.
    pub expiry_s: u64,
}

/// A claim of a process, as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimStatus {
    /// The name of the run's folder.
    pub run: String,
    /// The owner; `None` if the owner was killed while it wrote the file.
    pub owner: Option<ClaimOwner>,
    /// Whether the owner has ended, or has sent no heartbeat for too long.
    pub is_expired: bool,
}

/// The result of an attempt to claim a run.
#[derive(Debug)]
pub enum Attempt {
    /// This process owns the claim.
    Claimed(Claim),
    /// Another process owns it.
    Taken,
}

/// The claims of this process.
#[derive(Debug)]
pub struct Claims {
    expiry: Duration,
    held: Arc<Held>,
    heartbeat: Mutex<Option<JoinHandle<()>>>,
}

/// The open files of held claims, by path.
#[derive(Debug, Default)]
struct Held {
    state: Mutex<HeldState>,
    stopped: Condvar,
}

#[derive(Debug, Default)]
struct HeldState {
    files: BTreeMap<PathBuf, File>,
    is_stopped: bool,
}

impl Default for Claims {
    fn default() -> Self {
        Self::new(DEFAULT_EXPIRY)
    }
}

impl Claims {
    /// Creates claims that expire after this time without a heartbeat.
    pub fn new(expiry: Duration) -> Self {
        let expiry = expiry.max(Duration::from_secs(1));
        Self { expiry, held: Arc::default(), heartbeat: Mutex::new(None) }
    }

    /// Claims a run of the study in `folder`. `description` names the run for `poseidon status`.
    pub fn claim(&self, folder: &Path, run: &str, description: &str) -> Result<Attempt, StoreError> {
        let folder = folder.join(CLAIMS_FOLDER);
        fs::create_dir_all(&folder).map_err(StoreError::io(&folder))?;
        let owner = ClaimOwner::this_process(description, self.expiry);
        let mut generation = 1;
        // Other processes remove claims while this one reads them.
        for _ in 0..MAX_ATTEMPTS {
            let path = claim_path(&folder, run, generation);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => {
                    if generation > 1 && !is_expired(&claim_path(&folder, run, generation - 1)) {
                        // The owner of the expired claim was replaced, and its successor has ended since.
                        let _ = fs::remove_file(&path);
                        generation = 1;
                        continue;
                    }
                    return self.hold(folder, run, generation, file, &owner).map(Attempt::Claimed);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match read_claim(&path) {
                    Some((_, true)) => generation += 1,
                    Some((_, false)) => return Ok(Attempt::Taken),
                    None => generation = 1,
                },
                Err(error) => return Err(StoreError::io(&path)(error)),
            }
        }
        Ok(Attempt::Taken)
    }

    /// Writes the owner and starts heartbeats.
    fn hold(
        &self,
        folder: PathBuf,
        run: &str,
        generation: u32,
        mut file: File,
        owner: &ClaimOwner,
    ) -> Result<Claim, StoreError> {
        let path = claim_path(&folder, run, generation);
        let text = serde_json::to_vec(owner)?;
        file.write_all(&text).map_err(|error| {
            let _ = fs::remove_file(&path);
            StoreError::io(&path)(error)
        })?;
        self.held.lock().files.insert(path, file);
        let mut heartbeat = self.heartbeat.lock().unwrap_or_else(PoisonError::into_inner);
        if heartbeat.is_none() {
            let (held, interval) = (Arc::clone(&self.held), self.expiry / BEATS_PER_EXPIRY);
            *heartbeat = Some(std::thread::spawn(move || held.beat(interval)));
        }
        Ok(Claim { held: Arc::clone(&self.held), folder, run: run.to_owned(), generation })
    }
}

/// The attempts to claim a run whose claims change at the same time.
const MAX_ATTEMPTS: u32 = 1_000;

impl Drop for Claims {
    fn drop(&mut self) {
        self.held.lock().is_stopped = true;
        self.held.stopped.notify_all();
        let thread = self.heartbeat.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Held {
    fn lock(&self) -> std::sync::MutexGuard<'_, HeldState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends heartbeats until the claims are dropped. A write lets the file system set the time, so the clocks of the
    /// machines do not matter. White space after the text does not change it.
    fn beat(&self, interval: Duration) {
        let mut state = self.lock();
        while !state.is_stopped {
            let (guard, wait) =
                self.stopped.wait_timeout(state, interval).unwrap_or_else(PoisonError::into_inner);
            state = guard;
            if wait.timed_out() {
                for file in state.files.values_mut() {
                    // A claim that cannot be written expires, and another process repeats the run.
                    let _ = file.write_all(b" ").and_then(|()| file.sync_data());
                }
            }
        }
    }
}

/// A claim of this process. Dropping it releases the run.
#[derive(Debug)]
pub struct Claim {
    held: Arc<Held>,
    folder: PathBuf,
    run: String,
    generation: u32,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let own = claim_path(&self.folder, &self.run, self.generation);
        self.held.lock().files.remove(&own);
        // Expired claims go first: while this one exists, nobody else takes over from them.
        for generation in 1..=self.generation {
            let _ = fs::remove_file(claim_path(&self.folder, &self.run, generation));
        }
    }
}

impl ClaimOwner {
    pub(crate) fn this_process(run: &str, expiry: Duration) -> Self {
        let pid = std::process::id();
        Self {
            host: host_name(),
            pid,
            identity: process_identity(pid),
            run: run.to_owned(),
            expiry_s: expiry.as_secs().max(1),
        }
    }

    /// Returns whether the process has certainly ended. Only processes of this machine can be seen.
    pub(crate) fn has_ended(&self) -> bool {
        let Some((identity, own)) = self.identity.as_ref().zip(process_identity(std::process::id())) else {
            return false;
        };
        let namespace = |identity: &str| identity.rsplit_once(' ').map(|(first, _)| first.to_owned());
        namespace(identity) == namespace(&own) && process_identity(self.pid).as_ref() != Some(identity)
    }
}

/// Returns the start of the machine, the namespace of process numbers and the start of a process. `None` if the process
/// has ended, or if the system does not tell.
fn process_identity(pid: u32) -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program may contain spaces. The start is the 22nd field.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    // A zombie has ended.
    let state = fields.next()?;
    let start = fields.nth(18)?;
    (state != "Z").then(|| format!("{} {} {start}", boot.trim(), namespace.display()))
}

fn claim_path(folder: &Path, run: &str, generation: u32) -> PathBuf {
    folder.join(format!("{run}.{generation}"))
}

fn is_expired(path: &Path) -> bool {
    read_claim(path).is_some_and(|(_, is_expired)| is_expired)
}

/// Reads a claim, and whether it has expired. Returns `None` if it does not exist.
fn read_claim(path: &Path) -> Option<(Option<ClaimOwner>, bool)> {
    let mut file = File::open(path).ok()?;
    let mut text = Vec::new();
    file.read_to_end(&mut text).ok()?;
    let owner: Option<ClaimOwner> = serde_json::from_slice(&text).ok();
    if owner.as_ref().is_some_and(ClaimOwner::has_ended) {
        return Some((owner, true));
    }
    let expiry = owner.as_ref().map_or(DEFAULT_EXPIRY, |owner| Duration::from_secs(owner.expiry_s));
    let beat = file.metadata().and_then(|metadata| metadata.modified()).ok()?;
    let age = path.parent().and_then(file_system_time)?.duration_since(beat).unwrap_or_default();
    Some((owner, age > expiry))
}

/// Returns the time of a folder's file system, which can differ from the clock of this machine.
fn file_system_time(folder: &Path) -> Option<SystemTime> {
    static PROBES: AtomicU64 = AtomicU64::new(0);
    let number = PROBES.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!(".time.{}-{}-{number}", host_name(), std::process::id()));
    let time = File::create(&path).and_then(|file| file.metadata()).and_then(|metadata| metadata.modified());
    let _ = fs::remove_file(&path);
    // A folder that cannot be written is read by `status`. Clocks then have to agree.
    #[expect(clippy::disallowed_methods, reason = "a claim expires by wall-clock time")]
    Some(time.unwrap_or_else(|_| SystemTime::now()))
}

/// Lists the claims in the folder of a study, ordered by run. Of a run that was taken over, only the last claim counts.
pub fn list_claims(study_folder: &Path) -> Vec<ClaimStatus> {
    let folder = study_folder.join(CLAIMS_FOLDER);
    let mut last: BTreeMap<String, u32> = BTreeMap::new();
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((run, generation)) = name.rsplit_once('.') else { continue };
        let Ok(generation) = generation.parse::<u32>() else { continue };
        let known = last.entry(run.to_owned()).or_default();
        *known = generation.max(*known);
    }
    let status = |(run, generation): (String, u32)| {
        let (owner, is_expired) = read_claim(&claim_path(&folder, &run, generation))?;
        Some(ClaimStatus { run, owner, is_expired })
    };
    last.into_iter().filter_map(status).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn temp_folder(test: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("poseidon-claims-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    fn is_claimed(attempt: Result<Attempt, StoreError>) -> Option<Claim> {
        match attempt.expect("the folder is writable") {
            Attempt::Claimed(claim) => Some(claim),
            Attempt::Taken => None,
        }
    }

    /// Makes a claim of a process of another machine, whose last heartbeat was `age` ago.
    fn write_foreign_claim(folder: &Path, run: &str, generation: u32, age: Duration) {
        let owner = ClaimOwner {
            host: "elsewhere".into(),
            pid: 1,
            identity: Some("another-boot pid:[1] 7".into()),
            run: "a study".into(),
            expiry_s: 60,
        };
        let path = claim_path(&folder.join(CLAIMS_FOLDER), run, generation);
        fs::create_dir_all(folder.join(CLAIMS_FOLDER)).expect("the folder is writable");
        fs::write(&path, serde_json::to_vec(&owner).expect("an owner is JSON"))
            .expect("the folder is writable");
        #[expect(clippy::disallowed_methods, reason = "a claim expires by wall-clock time")]
        let beat = SystemTime::now() - age;
        File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_modified(beat))
            .expect("the file is ours");
    }

    #[test]
    fn a_run_has_one_owner_until_its_claim_is_dropped() {
        let folder = temp_folder("owner");
        let (first, second) = (Claims::default(), Claims::default());
        let claim = is_claimed(first.claim(&folder, "a", "study a")).expect("the run is free");
        assert!(is_claimed(second.claim(&folder, "a", "study a")).is_none());
        let other = is_claimed(second.claim(&folder, "b", "study b")).expect("another run is free");
        let listed = list_claims(&folder);
        let runs: Vec<(&str, bool)> =
            listed.iter().map(|claim| (claim.run.as_str(), claim.is_expired)).collect();
        assert_eq!(runs, [("a", false), ("b", false)]);
        assert_eq!(listed[0].owner.as_ref().map(|owner| owner.run.as_str()), Some("study a"));
        drop(claim);
        assert!(is_claimed(second.claim(&folder, "a", "study a")).is_some());
        drop(other);
        assert!(list_claims(&folder).is_empty());
        assert_eq!(fs::read_dir(folder.join(CLAIMS_FOLDER)).expect("the folder exists").count(), 0);
        fs::remove_dir_all(&folder).expect("the folder is ours");
    }

    #[test]
    fn an_expired_claim_is_taken_over_by_exactly_one_process() {
        let folder = temp_folder("expired");
        for round in 0..50 {
            let run = format!("run{round}");
            write_foreign_claim(&folder, &run, 1, Duration::from_secs(61));
            let claims: Vec<Claims> = (0..8).map(|_| Claims::default()).collect();
            let winners = Mutex::new(Vec::new());
            std::thread::scope(|scope| {
                for claims in &claims {
                    scope.spawn(|| {
                        if let Some(claim) = is_claimed(claims.claim(&folder, &run, "a study")) {
                            winners.lock().expect("no thread panics").push(claim);
                        }
                    });
                }
            });
            assert_eq!(winners.into_inner().expect("no thread panics").len(), 1, "{run}");
            assert!(list_claims(&folder).is_empty(), "the owner also removes the expired claim");
        }
        fs::remove_dir_all(&folder).expect("the folder is ours");
    }

    #[test]
    fn a_claim_with_a_heartbeat_is_not_taken_over() {
        let folder = temp_folder("fresh");
        write_foreign_claim(&folder, "a", 1, Duration::from_secs(50));
        assert!(is_claimed(Claims::default().claim(&folder, "a", "a study")).is_none());
        write_foreign_claim(&folder, "a", 1, Duration::from_secs(70));
        write_foreign_claim(&folder, "a", 2, Duration::from_secs(1));
        assert!(is_claimed(Claims::default().claim(&folder, "a", "a study")).is_none());
        let claims = Claims::new(Duration::from_secs(1));
        let _claim = is_claimed(claims.claim(&folder, "b", "a study")).expect("the run is free");
        let path = claim_path(&folder.join(CLAIMS_FOLDER), "b", 1);
        let beat = || fs::metadata(&path).and_then(|file| file.modified()).expect("the claim exists");
        let first = beat();
        #[expect(clippy::disallowed_methods, reason = "a heartbeat comes after a time")]
        std::thread::sleep(Duration::from_millis(1_500));
        assert!(beat() > first, "the heartbeat changes the time of the file");
        assert!(read_claim(&path).expect("the claim exists").0.is_some(), "the text stays readable");
        fs::remove_dir_all(&folder).expect("the folder is ours");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_claim_of_an_ended_process_of_this_machine_expires_at_once() {
        let folder = temp_folder("ended");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep starts");
        let identity = process_identity(child.id()).expect("the process runs");
        let owner = ClaimOwner {
            pid: child.id(),
            identity: Some(identity),
            ..ClaimOwner::this_process("r", DEFAULT_EXPIRY)
        };
        assert!(!owner.has_ended());
        fs::create_dir_all(folder.join(CLAIMS_FOLDER)).expect("the folder is writable");
        let path = claim_path(&folder.join(CLAIMS_FOLDER), "a", 1);
        fs::write(&path, serde_json::to_vec(&owner).expect("an owner is JSON"))
            .expect("the folder is writable");
        assert!(is_claimed(Claims::default().claim(&folder, "a", "a study")).is_none());
        child.kill().and_then(|()| child.wait()).expect("the process can be killed");
        assert!(owner.has_ended());
        assert!(is_claimed(Claims::default().claim(&folder, "a", "a study")).is_some());
        fs::remove_dir_all(&folder).expect("the folder is ours");
    }

    #[test]
    fn a_torn_claim_expires_by_its_time() {
        let folder = temp_folder("torn");
        write_foreign_claim(&folder, "a", 1, Duration::ZERO);
        let path = claim_path(&folder.join(CLAIMS_FOLDER), "a", 1);
        fs::write(&path, b"{\"host\": \"els").expect("the folder is writable");
        assert!(is_claimed(Claims::default().claim(&folder, "a", "a study")).is_none());
        #[expect(clippy::disallowed_methods, reason = "a claim expires by wall-clock time")]
        let beat = SystemTime::now() - Duration::from_secs(61);
        File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_modified(beat))
            .expect("the file is ours");
        assert!(is_claimed(Claims::default().claim(&folder, "a", "a study")).is_some());
        fs::remove_dir_all(&folder).expect("the folder is ours");
    }
}
