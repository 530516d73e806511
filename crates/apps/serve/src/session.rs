//! The jobs of this server: a short queue, and one thread that executes them.

use crate::error::ApiError;
use crate::guard::Token;
use crate::job::{Job, OnClose, Status};
use crate::runner::execute;
use crate::scenario::{Lab, ScenarioRequest};
use poseidon_lab::study::Study;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::Semaphore;

/// The number of jobs that may wait.
const MAX_WAITING: usize = 4;

/// The number of jobs that the server remembers. The files of forgotten jobs remain.
const MAX_JOBS: usize = 40;

/// The number of event streams that may be open.
pub(crate) const MAX_STREAMS: usize = 16;

/// The number of checks that run at the same time.
const MAX_CHECKS: usize = 2;

/// The state of the server.
pub(crate) struct Session {
    pub(crate) lab: Lab,
    /// The token in the paths of files.
    pub(crate) file_key: Token,
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) checks: Arc<Semaphore>,
    jobs: Mutex<Jobs>,
    wake: Condvar,
}

#[derive(Default)]
struct Jobs {
    /// All remembered jobs, from the oldest to the newest.
    all: VecDeque<Arc<Job>>,
    waiting: VecDeque<Arc<Job>>,
    last_id: u64,
    is_stopping: bool,
}

impl Session {
    /// Creates a session without jobs.
    pub(crate) fn new(lab: Lab, file_key: Token) -> Self {
        Self {
            lab,
            file_key,
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            checks: Arc::new(Semaphore::new(MAX_CHECKS)),
            jobs: Mutex::default(),
            wake: Condvar::new(),
        }
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread that executes jobs.
    pub(crate) fn start_worker(self: &Arc<Self>) -> io::Result<JoinHandle<()>> {
        let session = Arc::clone(self);
        std::thread::Builder::new().name("serve-jobs".to_owned()).spawn(move || {
            while let Some(job) = session.next_job() {
                execute(&job, &session.lab);
            }
        })
    }

    /// Waits for the next job. Returns `None` when the server stops.
    fn next_job(&self) -> Option<Arc<Job>> {
        let mut jobs = self.jobs();
        loop {
            if jobs.is_stopping {
                return None;
            }
            if let Some(job) = jobs.waiting.pop_front() {
                return Some(job);
            }
            jobs = self.wake.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Adds a job to the queue.
    pub(crate) fn submit(
        &self,
        request: ScenarioRequest,
        study: Study,
        on_close: OnClose,
    ) -> Result<Arc<Job>, ApiError> {
        let mut jobs = self.jobs();
        if jobs.is_stopping {
            return Err(ApiError::Stopping);
        }
        if jobs.waiting.len() >= MAX_WAITING {
            return Err(ApiError::QueueFull { waiting: jobs.waiting.len() });
        }
        jobs.last_id += 1;
        let job = Arc::new(Job::new(jobs.last_id, request, study, on_close));
        jobs.waiting.push_back(Arc::clone(&job));
        jobs.all.push_back(Arc::clone(&job));
        while jobs.all.len() > MAX_JOBS {
            let Some(oldest) = jobs.all.iter().position(|job| job.state().status.has_ended()) else { break };
            jobs.all.remove(oldest);
        }
        self.wake.notify_all();
        Ok(job)
    }

    /// Finds a job.
    pub(crate) fn find(&self, id: u64) -> Result<Arc<Job>, ApiError> {
        let job = self.jobs().all.iter().find(|job| job.id == id).cloned();
        job.ok_or_else(|| ApiError::NotFound { what: "run", name: id.to_string() })
    }

    /// Returns all jobs, from the newest to the oldest.
    pub(crate) fn list(&self) -> Vec<Arc<Job>> {
        self.jobs().all.iter().rev().cloned().collect()
    }

    /// Stops a job. A job that waits ends at once.
    pub(crate) fn stop(&self, job: &Job) {
        job.stop();
        let mut jobs = self.jobs();
        let was_waiting = jobs.waiting.iter().any(|waiting| waiting.id == job.id);
        jobs.waiting.retain(|waiting| waiting.id != job.id);
        drop(jobs);
        if was_waiting {
            job.update(|state| state.status = Status::Stopped);
        }
    }

    /// Stops all jobs and the worker. Returns whether a job was running or waiting.
    pub(crate) fn stop_all(&self) -> bool {
        self.jobs().is_stopping = true;
        let mut was_busy = false;
        for job in self.list() {
            was_busy |= !job.state().status.has_ended();
            self.stop(&job);
        }
        self.wake.notify_all();
        was_busy
    }
}
