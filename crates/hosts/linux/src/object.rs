//! Opens, configures and loads BPF objects.

use crate::kernel_features::{KernelFeature, KernelTypes, NEWER_KERNEL};
use core::fmt;
use core::time::Duration;
use libbpf_rs::{ErrorKind, MapHandle, MapType, Object, ObjectBuilder, OpenObject};
use libbpf_sys::bpf_map_create_opts;
use std::fs;
use std::thread;

/// The bytes of an object file, aligned to eight bytes because libelf reads its structs in place.
#[derive(Debug)]
#[repr(C, align(8))]
pub struct AlignedBytes<Bytes: ?Sized>(pub Bytes);

/// The maximum number of attempts to load an object.
const LOAD_ATTEMPTS: u32 = 5;
/// The pause between two attempts.
const LOAD_PAUSE: Duration = Duration::from_millis(20);

/// Why the kernel did not run a BPF program.
#[derive(Debug)]
#[non_exhaustive]
pub enum KernelError {
    /// This process is not permitted to load BPF programs.
    NotPermitted,
    /// The kernel is too old, or was built without a feature.
    MissingFeatures {
        /// The features that the kernel lacks.
        features: Vec<KernelFeature>,
        /// The kernel's release, such as `6.1.0-56-amd64`.
        release: String,
    },
    /// The kernel refused an operation.
    Refused {
        /// The operation, such as "loading the programs".
        operation: &'static str,
        /// The libbpf error.
        error: libbpf_rs::Error,
    },
    /// The compiled object lacks a map or a program, or one of them has an unexpected size.
    ObjectMismatch {
        /// What the object lacks.
        missing: &'static str,
    },
}

/// Opens an object, lets `configure` change it, and loads it.
///
/// The kernel may return `EAGAIN` while it verifies a program, for example if a signal is pending. In that case the
/// load is retried, with at most five attempts in total. Each attempt opens and configures the object again.
pub fn load_object(
    bytes: &[u8],
    mut configure: impl FnMut(&mut OpenObject) -> Result<(), KernelError>,
) -> Result<Object, KernelError> {
    check_permission()?;
    let load = || {
        let mut builder = ObjectBuilder::default();
        let mut object = builder.open_memory(bytes).map_err(refused("opening the object"))?;
        configure(&mut object)?;
        object.load().map_err(refused("loading the programs"))
    };
    retry(LOAD_ATTEMPTS, is_interrupted, pause, load)
}

/// Overwrites the initial value of the first map whose name ends with `name`. The new value must have the same size.
pub fn set_initial_value(
    object: &mut OpenObject,
    name: &'static str,
    value: &[u8],
) -> Result<(), KernelError> {
    let mut map = object.maps_mut().find(|map| map.name().to_string_lossy().ends_with(name));
    let initial = map.as_mut().and_then(|map| map.initial_value_mut());
    let initial = initial.filter(|initial| initial.len() == value.len());
    initial.ok_or(KernelError::ObjectMismatch { missing: name })?.copy_from_slice(value);
    Ok(())
}

/// Checks that this process may load BPF programs.
///
/// The check creates a map of a type that always requires this permission. Loading a program would be inconclusive,
/// because the kernel also returns "permission denied" for a program that the verifier rejects.
pub(crate) fn check_permission() -> Result<(), KernelError> {
    let options =
        bpf_map_create_opts { sz: size_of::<bpf_map_create_opts>() as u64, ..bpf_map_create_opts::default() };
    let map = MapHandle::create(MapType::LruHash, Some("may_load"), 4, 4, 1, &options);
    map.map(drop).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => KernelError::NotPermitted,
        _ => KernelError::Refused { operation: "creating a map", error },
    })
}

/// Fails with the missing features if this kernel lacks any of them.
///
/// A kernel without BTF passes, because loading the programs reports that.
pub(crate) fn require_features(needed: &[KernelFeature]) -> Result<(), KernelError> {
    let missing = KernelTypes::current().map_or_else(|_| Vec::new(), |types| types.missing(needed));
    if missing.is_empty() {
        return Ok(());
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Err(KernelError::MissingFeatures { features: missing, release: release.trim().to_owned() })
}

/// Wraps a libbpf error with the operation that failed.
pub(crate) fn refused(operation: &'static str) -> impl FnOnce(libbpf_rs::Error) -> KernelError {
    move |error| KernelError::Refused { operation, error }
}

/// Returns whether the kernel interrupted the operation. If so, the operation may succeed when retried.
fn is_interrupted(error: &KernelError) -> bool {
    matches!(error, KernelError::Refused { error, .. } if error.kind() == ErrorKind::WouldBlock)
}

#[expect(clippy::disallowed_methods, reason = "the kernel needs real time between two attempts")]
fn pause() {
    thread::sleep(LOAD_PAUSE);
}

/// Retries `operation` while it fails with a temporary error, up to a total of `attempts` attempts.
fn retry<T, E>(
    attempts: u32,
    is_temporary: impl Fn(&E) -> bool,
    pause: impl Fn(),
    mut operation: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    for _ in 1..attempts {
        match operation() {
            Err(error) if is_temporary(&error) => pause(),
            result => return result,
        }
    }
    operation()
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPermitted => f.write_str("loading BPF programs is not permitted; run as root"),
            Self::MissingFeatures { features, release } => {
                write!(f, "this kernel, {release}, lacks ")?;
                for (index, feature) in features.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(f, "{separator}{} (Linux {})", feature.name(), feature.since())?;
                }
                write!(f, "; {NEWER_KERNEL}")
            }
            // The alternate format prints the whole chain of causes.
            Self::Refused { operation, error } => write!(f, "the kernel refused {operation}: {error:#}"),
            Self::ObjectMismatch { missing } => {
                write!(f, "the BPF object lacks {missing}; rebuild poseidon-linux")
            }
        }
    }
}

impl core::error::Error for KernelError {}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    /// Retries an operation that fails with the given errors and then succeeds. Returns the result and the call count.
    fn run(errors: &[&'static str]) -> (Result<&'static str, &'static str>, usize) {
        let calls = Cell::new(0);
        let result = retry(
            3,
            |error| *error == "EAGAIN",
            || (),
            || {
                let call = calls.replace(calls.get() + 1);
                errors.get(call).map_or(Ok("loaded"), |error| Err(*error))
            },
        );
        (result, calls.get())
    }

    #[test]
    fn temporary_errors_are_retried_a_bounded_number_of_times() {
        assert_eq!(run(&[]), (Ok("loaded"), 1));
        assert_eq!(run(&["EAGAIN", "EAGAIN"]), (Ok("loaded"), 3));
        assert_eq!(run(&["EAGAIN"; 3]), (Err("EAGAIN"), 3));
    }

    #[test]
    fn other_errors_are_returned_at_once() {
        assert_eq!(run(&["EACCES"]), (Err("EACCES"), 1));
        assert_eq!(run(&["EAGAIN", "EINVAL"]), (Err("EINVAL"), 2));
    }

    #[test]
    fn missing_features_are_named_with_their_version() {
        let features = vec![KernelFeature::StructOpsLink, KernelFeature::CongControlArguments];
        let error = KernelError::MissingFeatures { features, release: "6.1.0-56-amd64".to_owned() };
        assert_eq!(
            error.to_string(),
            "this kernel, 6.1.0-56-amd64, lacks struct_ops link (Linux 6.4), cong_control with four arguments \
             (Linux 6.10); boot a newer kernel; on Debian 12: apt-get install -t bookworm-backports linux-image-amd64"
        );
    }

    #[test]
    fn eagain_from_the_kernel_is_temporary() {
        let error = |code| KernelError::Refused {
            operation: "loading the programs",
            error: std::io::Error::from_raw_os_error(code).into(),
        };
        // 11 is EAGAIN, and 13 is EACCES.
        assert!(is_interrupted(&error(11)) && !is_interrupted(&error(13)));
        assert!(!is_interrupted(&KernelError::NotPermitted));
    }
}
