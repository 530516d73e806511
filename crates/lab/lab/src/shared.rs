//! Where processes share the runs of a study: in the results folder, or in an object store ([`crate::remote`]).

use crate::claims::{Attempt, Claim, Claims};
use crate::store::{FailedRun, Store, StoreError};
use crate::study::Study;
use crate::tables::Format;
use core::fmt::Debug;
use core::time::Duration;

/// A place where processes share runs. Every process computes into its own results folder (`store`), or all of them
/// into the same one.
pub trait SharedResults: Debug + Sync {
    /// Returns whether the results folder is itself the shared place.
    fn is_folder(&self) -> bool;

    /// Stores the scenario of a study.
    fn write_scenario(&self, store: &Store, study: &Study) -> Result<(), StoreError>;

    /// Returns whether the place has a complete result of a run that satisfies this text of the study, with rows in this
    /// format if `rows` is set. Loads no result.
    fn has_run(
        &self,
        store: &Store,
        study: &Study,
        run: &str,
        rows: Option<Format>,
    ) -> Result<bool, StoreError>;

    /// Copies a run into the results folder, if the place has it. `warn` is called if the run is unreadable.
    fn fetch(
        &self,
        store: &Store,
        study: &Study,
        run: &str,
        rows: Option<Format>,
        warn: &dyn Fn(&str),
    ) -> Result<(), StoreError>;

    /// Claims a run. Returns `None` if another process computes it. Dropping the claim releases the run.
    fn claim(
        &self,
        store: &Store,
        study: &Study,
        run: &str,
        description: &str,
    ) -> Result<Option<Box<dyn RunClaim>>, StoreError>;

    /// Copies a complete run of the results folder to the shared place, unless it is there.
    fn publish(&self, store: &Store, study: &Study, run: &str) -> Result<(), StoreError>;

    /// Records that a run failed.
    fn write_failure(
        &self,
        store: &Store,
        study: &Study,
        run: &str,
        failure: &FailedRun,
    ) -> Result<(), StoreError>;

    /// Returns whether a run has failed and has not succeeded since.
    fn has_failed(&self, store: &Store, study: &Study, run: &str) -> Result<bool, StoreError>;
}

/// A claimed run. Dropping it releases the run.
pub trait RunClaim: Debug {}

impl RunClaim for Claim {}

/// A results folder that processes share, on one machine or on a common file system.
#[derive(Debug, Default)]
pub struct SharedFolder {
    claims: Claims,
}

impl SharedFolder {
    /// Shares a folder with claims that expire after this time without a heartbeat.
    pub fn new(expiry: Duration) -> Self {
        Self { claims: Claims::new(expiry) }
    }
}

impl SharedResults for SharedFolder {
    fn is_folder(&self) -> bool {
        true
    }

    fn write_scenario(&self, store: &Store, study: &Study) -> Result<(), StoreError> {
        store.write_scenario(study)
    }

    fn has_run(
        &self,
        store: &Store,
        study: &Study,
        run: &str,
        rows: Option<Format>,
    ) -> Result<bool, StoreError> {
        Ok(store.has_run(study, run, rows))
    }

    fn fetch(
        &self,
        _: &Store,
        _: &Study,
        _: &str,
        _: Option<Format>,
        _: &dyn Fn(&str),
    ) -> Result<(), StoreError> {
        Ok(())
    }

    fn claim(
        &self,
        store: &Store,
        study: &Study,
        run: &str,
        description: &str,
    ) -> Result<Option<Box<dyn RunClaim>>, StoreError> {
        match self.claims.claim(&store.study_folder(&study.name), run, description)? {
            Attempt::Claimed(claim) => Ok(Some(Box::new(claim))),
            Attempt::Taken => Ok(None),
        }
    }

    fn publish(&self, _: &Store, _: &Study, _: &str) -> Result<(), StoreError> {
        Ok(())
    }

    fn write_failure(
        &self,
        store: &Store,
        study: &Study,
        run: &str,
        failure: &FailedRun,
    ) -> Result<(), StoreError> {
        store.write_failure(&study.name, run, failure)
    }

    fn has_failed(&self, store: &Store, study: &Study, run: &str) -> Result<bool, StoreError> {
        Ok(store.has_failed(&study.name, run))
    }
}
