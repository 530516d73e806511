//! Claims in an object store, with the rules of [`crate::claims`].
//!
//! A claim is created by a conditional put, so exactly one process owns it. Its heartbeat writes the same content again,
//! which renews its time. The age of a claim is measured by the clock of the server. An expired claim stays, and its
//! successor has the next number.

use super::{MAX_TEXT, lock};
use crate::claims::{BEATS_PER_EXPIRY, ClaimOwner};
use crate::objects::{ObjectError, ObjectStorage};
use crate::shared::RunClaim;
use crate::store::{StoreError, process_name};
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime};

/// The attempts to claim a run whose claims change at the same time.
const MAX_ATTEMPTS: u32 = 32;

/// The clock of the server is read again after this time.
const CLOCK_LIFETIME: Duration = Duration::from_secs(60);

/// The shortest expiry. Servers round times to seconds.
const MIN_EXPIRY: Duration = Duration::from_secs(5);

/// The content of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClaimText {
    #[serde(flatten)]
    pub(super) owner: ClaimOwner,
    /// Text that no other claim has. It tells an owner that its own put succeeded although the answer was lost.
    pub(super) token: String,
}

/// The claims of this process in an object store.
#[derive(Debug)]
pub(super) struct RemoteClaims {
    storage: Arc<dyn ObjectStorage>,
    expiry: Duration,
    held: Arc<Held>,
    heartbeat: Mutex<Option<JoinHandle<()>>>,
    clock: Mutex<Option<(Instant, SystemTime)>>,
}

#[derive(Debug, Default)]
struct Held {
    claims: Mutex<BTreeMap<String, Arc<Beat>>>,
    is_stopped: Mutex<bool>,
    stopped: Condvar,
}

/// The heartbeat of a claim.
#[derive(Debug)]
struct Beat {
    key: String,
    text: ClaimText,
    /// Whether this process still owns the claim. The lock is held while the claim is written or released.
    is_held: Mutex<bool>,
}

/// A claim of this process. Dropping it releases the run.
#[derive(Debug)]
pub(super) struct RemoteClaim {
    storage: Arc<dyn ObjectStorage>,
    held: Arc<Held>,
    beat: Arc<Beat>,
    base: String,
    generation: u32,
}

impl RunClaim for RemoteClaim {}

pub(super) fn claim_key(base: &str, generation: u32) -> String {
    format!("{base}.{generation}")
}

impl RemoteClaims {
    pub(super) fn new(storage: Arc<dyn ObjectStorage>, expiry: Duration) -> Self {
        let expiry = expiry.max(MIN_EXPIRY);
        Self { storage, expiry, held: Arc::default(), heartbeat: Mutex::new(None), clock: Mutex::new(None) }
    }

    /// Claims a run. Returns `None` if another process owns it.
    pub(super) fn claim(
        &self,
        study: &str,
        run: &str,
        description: &str,
    ) -> Result<Option<RemoteClaim>, StoreError> {
        let base = format!("claims/{study}/{run}");
        let owner = ClaimOwner::this_process(description, self.expiry);
        let text = ClaimText { owner, token: new_token() };
        let bytes = serde_json::to_vec(&text)?;
        let mut generation = 1;
        // Other processes remove claims while this one reads them.
        for _ in 0..MAX_ATTEMPTS {
            let key = claim_key(&base, generation);
            if !self.storage.create(&key, &bytes)? {
                match self.read(&key)? {
                    Some((Some(found), _)) if found == text => {}
                    Some((_, true)) => {
                        generation += 1;
                        continue;
                    }
                    Some((_, false)) => return Ok(None),
                    None => {
                        generation = 1;
                        continue;
                    }
                }
            }
            if generation > 1 && !self.is_expired(&claim_key(&base, generation - 1))? {
                // The owner of the expired claim was replaced, and its successor has ended since.
                self.storage.delete(&key)?;
                generation = 1;
                continue;
            }
            return Ok(Some(self.hold(base, generation, text)));
        }
        Ok(None)
    }

    /// Starts heartbeats.
    fn hold(&self, base: String, generation: u32, text: ClaimText) -> RemoteClaim {
        let key = claim_key(&base, generation);
        let beat = Arc::new(Beat { key: key.clone(), text, is_held: Mutex::new(true) });
        lock(&self.held.claims).insert(key, Arc::clone(&beat));
        let mut heartbeat = lock(&self.heartbeat);
        if heartbeat.is_none() {
            let (held, storage) = (Arc::clone(&self.held), Arc::clone(&self.storage));
            let interval = self.expiry / BEATS_PER_EXPIRY;
            *heartbeat = Some(std::thread::spawn(move || held.beat(storage.as_ref(), interval)));
        }
        RemoteClaim {
            storage: Arc::clone(&self.storage),
            held: Arc::clone(&self.held),
            beat,
            base,
            generation,
        }
    }

    fn is_expired(&self, key: &str) -> Result<bool, ObjectError> {
        Ok(self.read(key)?.is_some_and(|(_, is_expired)| is_expired))
    }

    /// Reads a claim, and whether it has expired. Returns `None` if it does not exist.
    pub(super) fn read(&self, key: &str) -> Result<Option<(Option<ClaimText>, bool)>, ObjectError> {
        let Some(object) = self.storage.get(key, MAX_TEXT)? else { return Ok(None) };
        let text: Option<ClaimText> = serde_json::from_slice(&object.bytes).ok();
        if text.as_ref().is_some_and(|text| text.owner.has_ended()) {
            return Ok(Some((text, true)));
        }
        let expiry = text.as_ref().map_or(self.expiry, |text| Duration::from_secs(text.owner.expiry_s));
        let age = self.server_time()?.duration_since(object.modified).unwrap_or_default();
        Ok(Some((text, age > expiry)))
    }

    /// Returns the time by the clock of the server, which can differ from that of this machine. A small object shows it.
    fn server_time(&self) -> Result<SystemTime, ObjectError> {
        #[expect(clippy::disallowed_methods, reason = "a claim expires by wall-clock time")]
        let now = Instant::now();
        if let Some((read, time)) = *lock(&self.clock)
            && now - read < CLOCK_LIFETIME
        {
            return Ok(time + (now - read));
        }
        let key = format!("clock/{}", new_token());
        self.storage.put(&key, b"")?;
        let info = self.storage.info(&key)?;
        self.storage.delete(&key)?;
        #[expect(clippy::disallowed_methods, reason = "a claim expires by wall-clock time")]
        let time = info.map_or_else(SystemTime::now, |info| info.modified);
        *lock(&self.clock) = Some((now, time));
        Ok(time)
    }
}

impl Drop for RemoteClaims {
    fn drop(&mut self) {
        *lock(&self.held.is_stopped) = true;
        self.held.stopped.notify_all();
        let thread = self.heartbeat.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Held {
    /// Sends heartbeats until the claims are dropped.
    fn beat(&self, storage: &dyn ObjectStorage, interval: Duration) {
        let mut is_stopped = lock(&self.is_stopped);
        while !*is_stopped {
            let (guard, wait) =
                self.stopped.wait_timeout(is_stopped, interval).unwrap_or_else(PoisonError::into_inner);
            is_stopped = guard;
            if *is_stopped || !wait.timed_out() {
                continue;
            }
            drop(is_stopped);
            let beats: Vec<Arc<Beat>> = lock(&self.claims).values().cloned().collect();
            for beat in beats {
                beat.send(storage);
            }
            is_stopped = lock(&self.is_stopped);
        }
    }
}

impl Beat {
    /// Writes the claim again, if it still is that of this process. A claim that cannot be written expires, and another
    /// process repeats the run.
    fn send(&self, storage: &dyn ObjectStorage) {
        let mut is_held = lock(&self.is_held);
        if !*is_held {
            return;
        }
        let Ok(found) = storage.get(&self.key, MAX_TEXT) else { return };
        let text = found.and_then(|object| serde_json::from_slice::<ClaimText>(&object.bytes).ok());
        *is_held = text.as_ref() == Some(&self.text);
        if let (true, Ok(bytes)) = (*is_held, serde_json::to_vec(&self.text)) {
            let _ = storage.put(&self.key, &bytes);
        }
    }
}

impl Drop for RemoteClaim {
    fn drop(&mut self) {
        lock(&self.held.claims).remove(&self.beat.key);
        let mut is_held = lock(&self.beat.is_held);
        if !core::mem::take(&mut *is_held) {
            // Another process has taken over, and removes all claims.
            return;
        }
        // Expired claims go first: while this one exists, nobody else takes over from them.
        for generation in 1..=self.generation {
            let _ = self.storage.delete(&claim_key(&self.base, generation));
        }
    }
}

/// Returns text that no other process uses, and that this process uses once.
fn new_token() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    #[expect(clippy::disallowed_methods, reason = "a token must differ from those of earlier processes")]
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}-{}", process_name(), COUNT.fetch_add(1, Ordering::Relaxed), now.as_nanos())
}
