//! The kernel features that some of our programs need and that older kernels lack.
//!
//! The types that a kernel publishes (BTF) show which features it has, so nothing has to be loaded. Distributions add
//! features to old kernels and leave others out, so the version alone does not answer this.
//!
//! ```text
//! /sys/kernel/btf/vmlinux ──> KernelTypes ──> missing_features ──> KernelError::MissingFeatures, `poseidon doctor`
//! ```

use core::fmt;
use libbpf_rs::btf::types::{Enum, Func, FuncProto, Ptr, Struct, Typedef};
use libbpf_rs::btf::{Btf, ReferencesType as _};

/// What to do if a feature is missing.
pub(crate) const NEWER_KERNEL: &str =
    "boot a newer kernel; on Debian 12: apt-get install -t bookworm-backports linux-image-amd64";

/// A feature of the kernel that our programs need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelFeature {
    /// A BPF program can be a congestion control.
    TcpStructOps,
    /// A link registers a congestion control until it is dropped or its pin is removed.
    StructOpsLink,
    /// A congestion control receives the ACK's number and flags.
    CongControlArguments,
    /// A program at a port can read the kernel's packet, and thereby the port's queue.
    CastToKernCtx,
    /// Tracepoints report the packets that join and leave a queue.
    QueueTracepoints,
}

/// The features that [`crate::tcp`] needs.
pub(crate) const TCP: &[KernelFeature] =
    &[KernelFeature::TcpStructOps, KernelFeature::StructOpsLink, KernelFeature::CongControlArguments];
/// The features that a congestion control without the arguments of the ACK needs.
pub(crate) const WINDOW_CONTROL: &[KernelFeature] =
    &[KernelFeature::TcpStructOps, KernelFeature::StructOpsLink];
/// The features that [`crate::switch`] and [`crate::rpm`] need.
pub(crate) const PORT: &[KernelFeature] = &[KernelFeature::CastToKernCtx];
/// The features that [`crate::sojourn`] needs.
pub(crate) const SOJOURN: &[KernelFeature] = &[KernelFeature::QueueTracepoints];

/// The major and minor version of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion {
    /// The major version.
    pub major: u32,
    /// The minor version.
    pub minor: u32,
}

impl KernelVersion {
    const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl KernelFeature {
    /// All features, in the order of the kernels that brought them.
    pub const ALL: [Self; 5] = [
        Self::TcpStructOps,
        Self::QueueTracepoints,
        Self::CastToKernCtx,
        Self::StructOpsLink,
        Self::CongControlArguments,
    ];

    /// Returns the feature's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TcpStructOps => "TCP struct_ops",
            Self::StructOpsLink => "struct_ops link",
            Self::CongControlArguments => "cong_control with four arguments",
            Self::CastToKernCtx => "bpf_cast_to_kern_ctx",
            Self::QueueTracepoints => "qdisc tracepoints",
        }
    }

    /// Returns the first version of Linux that has the feature.
    pub const fn since(self) -> KernelVersion {
        match self {
            Self::TcpStructOps => KernelVersion::new(5, 6),
            Self::QueueTracepoints => KernelVersion::new(5, 15),
            Self::CastToKernCtx => KernelVersion::new(6, 2),
            Self::StructOpsLink => KernelVersion::new(6, 4),
            Self::CongControlArguments => KernelVersion::new(6, 10),
        }
    }

    /// Returns why our programs need the feature.
    pub const fn purpose(self) -> &'static str {
        match self {
            Self::TcpStructOps => "the congestion control is a BPF program; also needs CONFIG_BPF_JIT",
            Self::StructOpsLink => {
                "the congestion control stays registered after the command, and is removed with its pin"
            }
            Self::CongControlArguments => "the congestion control reads the number and flags of each ACK",
            Self::CastToKernCtx => "a port reads the backlog of its queue",
            Self::QueueTracepoints => "a testbed measures how long packets wait",
        }
    }

    /// Returns whether the kernel has the feature.
    const fn is_in(self, types: &KernelTypes) -> bool {
        match self {
            Self::TcpStructOps => types.has_tcp_struct_ops,
            Self::StructOpsLink => types.has_struct_ops_link,
            Self::CongControlArguments => types.cong_control_arguments >= CONG_CONTROL_ARGUMENTS,
            Self::CastToKernCtx => types.has_cast_to_kern_ctx,
            Self::QueueTracepoints => types.has_queue_tracepoints,
        }
    }

    /// Describes what was found, for `poseidon doctor`.
    pub(crate) fn finding(self, types: &KernelTypes) -> Result<String, String> {
        if self.is_in(types) {
            return Ok("in this kernel".to_owned());
        }
        let found = match self {
            Self::TcpStructOps => "no struct bpf_struct_ops_tcp_congestion_ops".to_owned(),
            Self::StructOpsLink => "no attach type BPF_STRUCT_OPS".to_owned(),
            Self::CongControlArguments => {
                format!("cong_control has {} arguments", types.cong_control_arguments)
            }
            Self::CastToKernCtx => "no function bpf_cast_to_kern_ctx".to_owned(),
            Self::QueueTracepoints => "no tracepoints qdisc_enqueue and qdisc_dequeue".to_owned(),
        };
        Err(format!("{found}; Linux {} and later have it", self.since()))
    }
}

/// The number of arguments of `cong_control` that `bpf/tcp.bpf.c` and `bpf/swift.bpf.c` use.
const CONG_CONTROL_ARGUMENTS: usize = 4;

/// What a kernel's types show about its features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KernelTypes {
    has_tcp_struct_ops: bool,
    has_struct_ops_link: bool,
    cong_control_arguments: usize,
    has_cast_to_kern_ctx: bool,
    has_queue_tracepoints: bool,
}

impl KernelTypes {
    /// Reads the types of the running kernel.
    pub(crate) fn current() -> libbpf_rs::Result<Self> {
        Ok(Self::read(&Btf::from_vmlinux()?))
    }

    fn read(types: &Btf<'_>) -> Self {
        let has_tracepoint = |name: &str| types.type_by_name::<Typedef<'_>>(name).is_some();
        let attach_types = types.type_by_name::<Enum<'_>>("bpf_attach_type");
        Self {
            has_tcp_struct_ops: types
                .type_by_name::<Struct<'_>>("bpf_struct_ops_tcp_congestion_ops")
                .is_some(),
            has_struct_ops_link: attach_types.is_some_and(|values| {
                values.iter().any(|value| value.name.is_some_and(|name| name == "BPF_STRUCT_OPS"))
            }),
            cong_control_arguments: count_cong_control_arguments(types).unwrap_or(0),
            has_cast_to_kern_ctx: types.type_by_name::<Func<'_>>("bpf_cast_to_kern_ctx").is_some(),
            has_queue_tracepoints: ["btf_trace_qdisc_enqueue", "btf_trace_qdisc_dequeue"]
                .into_iter()
                .all(has_tracepoint),
        }
    }

    pub(crate) fn missing(&self, needed: &[KernelFeature]) -> Vec<KernelFeature> {
        needed.iter().copied().filter(|feature| !feature.is_in(self)).collect()
    }
}

/// Returns the number of arguments of the member `cong_control` of `struct tcp_congestion_ops`.
fn count_cong_control_arguments(types: &Btf<'_>) -> Option<usize> {
    let operations = types.type_by_name::<Struct<'_>>("tcp_congestion_ops")?;
    let member = operations.iter().find(|member| member.name.is_some_and(|name| name == "cong_control"))?;
    let pointer = types.type_by_id::<Ptr<'_>>(member.ty)?;
    let function = FuncProto::try_from(pointer.referenced_type()).ok()?;
    Some(function.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Debian 12 publishes.
    const LINUX_6_1: KernelTypes = KernelTypes {
        has_tcp_struct_ops: true,
        has_struct_ops_link: false,
        cong_control_arguments: 2,
        has_cast_to_kern_ctx: false,
        has_queue_tracepoints: true,
    };

    #[test]
    fn linux_6_1_lacks_links_arguments_and_the_cast() {
        use KernelFeature::{CastToKernCtx, CongControlArguments, StructOpsLink};
        assert_eq!(LINUX_6_1.missing(TCP), [StructOpsLink, CongControlArguments]);
        assert_eq!(LINUX_6_1.missing(WINDOW_CONTROL), [StructOpsLink]);
        assert_eq!(LINUX_6_1.missing(PORT), [CastToKernCtx]);
        assert_eq!(LINUX_6_1.missing(SOJOURN), []);
        assert_eq!(KernelTypes::default().missing(&KernelFeature::ALL), KernelFeature::ALL);
    }

    #[test]
    fn findings_name_what_was_found_and_the_first_version() {
        let finding = |feature: KernelFeature| feature.finding(&LINUX_6_1);
        assert_eq!(
            finding(KernelFeature::CongControlArguments),
            Err("cong_control has 2 arguments; Linux 6.10 and later have it".to_owned())
        );
        assert_eq!(finding(KernelFeature::QueueTracepoints), Ok("in this kernel".to_owned()));
        for feature in KernelFeature::ALL {
            let text = feature.finding(&KernelTypes::default()).expect_err("an empty kernel has nothing");
            assert!(text.contains(&format!("Linux {}", feature.since())), "{text}");
        }
    }

    #[test]
    fn features_are_ordered_by_version() {
        assert!(KernelFeature::ALL.is_sorted_by_key(|feature| feature.since()));
        assert!(KernelFeature::CongControlArguments.since() > KernelFeature::StructOpsLink.since());
    }

    /// The tests of this crate run on kernels from 6.1 on, if the kernel publishes its types.
    #[test]
    fn the_running_kernel_is_read() {
        let Ok(types) = KernelTypes::current() else { return };
        assert!(types.has_tcp_struct_ops, "{types:?}");
        assert!([2, CONG_CONTROL_ARGUMENTS].contains(&types.cong_control_arguments), "{types:?}");
    }
}
