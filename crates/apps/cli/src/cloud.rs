//! Results in an object store: `-o s3://BUCKET/PREFIX`.
//!
//! The feature `cloud` adds an S3 client. Builds without the feature accept such URLs, but only print how to enable it.

#[cfg(feature = "cloud")]
mod bucket;

use crate::Failure;
use crate::location::Location;
use crate::study_args::StudyArgs;
use core::time::Duration;
use poseidon_lab::objects::ObjectStorage;
use poseidon_lab::remote::{RemoteResults, temporary_folder};
use poseidon_lab::shared::{SharedFolder, SharedResults};
use poseidon_lab::store::Store;
use poseidon_lab::study::Study;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder of results of a command that names none.
const DEFAULT_FOLDER: &str = "results";

/// Opens an object store by its URL. Sends no request.
#[cfg(feature = "cloud")]
fn open_storage(url: &str) -> Result<Arc<dyn ObjectStorage>, Failure> {
    let bucket = bucket::Bucket::open(url, &|name| std::env::var(name).ok())
        .map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(Arc::new(bucket))
}

/// Explains how to build the command with an S3 client.
#[cfg(not(feature = "cloud"))]
fn open_storage(_: &str) -> Result<Arc<dyn ObjectStorage>, Failure> {
    Err(Failure::NotBuilt(
        "this poseidon was built without object stores; to use s3://, run this command in a clone of the project:\n  \
         cargo install --path crates/apps/cli --features cloud    # adds an S3 client; needs a C compiler",
    ))
}

/// Opens existing results to read them.
pub(crate) fn open_existing(url: &str) -> Result<RemoteResults, Failure> {
    let remote = RemoteResults::open_existing(open_storage(url)?)?;
    remote.ok_or_else(|| {
        Failure::Run(format!(
            "{url} has no results; name the bucket and prefix that `poseidon run -o` writes"
        ))
    })
}

/// Where the runs of a command go.
pub(crate) struct Output {
    /// The folder in which this process computes.
    pub(crate) store: Store,
    target: Target,
    /// The folder that is removed at the end.
    temporary: Option<PathBuf>,
}

enum Target {
    Folder(SharedFolder),
    ObjectStore(RemoteResults),
}

impl Output {
    /// Opens the results of a command that runs whole studies, and copies the runs that others have computed.
    pub(crate) fn for_studies(args: &StudyArgs, studies: &[Study]) -> Result<Self, Failure> {
        let Location::ObjectStore(url) = Location::new(&args.output) else {
            check_local(args)?;
            let target = Target::Folder(SharedFolder::default());
            return Ok(Self { store: Store::new(&args.output), target, temporary: None });
        };
        let store = Store::new(args.local.clone().unwrap_or_else(|| DEFAULT_FOLDER.into()));
        let remote = RemoteResults::open(open_storage(url)?, poseidon_lab::claims::DEFAULT_EXPIRY)?;
        let warn = |text: &str| eprintln!("poseidon: {text}; the run is repeated");
        let mut copied = 0;
        for study in studies {
            copied += remote.pull(&store, &study.name, &warn)?.copied;
        }
        if copied > 0 && !args.quiet {
            eprintln!("poseidon: copied {copied} runs from {url} into {}", store.root().display());
        }
        Ok(Self { store, target: Target::ObjectStore(remote), temporary: None })
    }

    /// Opens the results of a task. Its claims expire after this time.
    pub(crate) fn for_task(args: &StudyArgs, expiry: Duration) -> Result<Self, Failure> {
        let Location::ObjectStore(url) = Location::new(&args.output) else {
            check_local(args)?;
            let target = Target::Folder(SharedFolder::new(expiry));
            return Ok(Self { store: Store::new(&args.output).synced(), target, temporary: None });
        };
        let remote = RemoteResults::open(open_storage(url)?, expiry)?;
        let temporary = args.local.is_none().then(temporary_folder);
        let folder: &Path =
            args.local.as_deref().or(temporary.as_deref()).unwrap_or_else(|| Path::new(DEFAULT_FOLDER));
        Ok(Self { store: Store::new(folder), target: Target::ObjectStore(remote), temporary })
    }

    /// Returns where processes share the runs.
    pub(crate) fn shared(&self) -> &dyn SharedResults {
        match &self.target {
            Target::Folder(folder) => folder,
            Target::ObjectStore(remote) => remote,
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(folder) = &self.temporary {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

fn check_local(args: &StudyArgs) -> Result<(), Failure> {
    match &args.local {
        Some(_) => Err(Failure::Usage("--local needs an object store: -o s3://BUCKET/PREFIX".into())),
        None => Ok(()),
    }
}
