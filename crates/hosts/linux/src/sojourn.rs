//! Measures how long packets wait in this machine's queues. `bpf/sojourn.bpf.c` observes packets without changing them.
//!
//! A stamp predicts a packet's delay at enqueue time. This module measures the actual delay at dequeue time.
//!
//! ```no_run
//! use poseidon_linux::sojourn::{Port, SojournMonitor};
//!
//! let monitor = SojournMonitor::attach(&[Port::find("e0")?])?;
//! println!("{}", monitor.read()?[0].delay);
//! # Ok::<(), poseidon_linux::port::PortError>(())
//! ```

use crate::kernel_features;
use crate::object::{AlignedBytes, KernelError, refused};
use crate::port::{Device, LoadedObject, PortError, current_netns};
use libbpf_rs::{Link, MapCore as _, MapFlags, MapHandle};
use poseidon_types::{Bytes, Nanos};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

static OBJECT: &AlignedBytes<[u8]> =
    &AlignedBytes(*include_bytes!(concat!(env!("OUT_DIR"), "/sojourn.bpf.o")));

/// A port in any network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct Port {
    netns: u32,
    device: u32,
}

impl Port {
    /// Finds the device called `name` in the calling thread's network namespace.
    pub fn find(name: &str) -> Result<Self, PortError> {
        let device = Device::find(name)?.index;
        Ok(Self { netns: current_netns()?, device: device.cast_unsigned() })
    }
}

/// A queue's state. The counters start at zero when the monitor is attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// The number of packets that left the queue.
    pub packets: u64,
    /// The number of bytes that left the queue, including link headers.
    pub sent: Bytes,
    /// The queueing delay of the packet that left most recently.
    pub delay: Nanos,
    /// The number of bytes currently in the queue.
    pub backlog: Bytes,
}

/// A monitor that measures queues until it is dropped.
#[derive(Debug)]
pub struct SojournMonitor {
    ports: Vec<Port>,
    watched: MapHandle,
    _tracepoints: Vec<Link>,
}

/// The Rust counterpart of `struct queue` in `bpf/sojourn.bpf.c`.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawQueueStats {
    packets: u64,
    bytes: u64,
    delay: u64,
    waiting: u64,
}

impl SojournMonitor {
    /// Starts monitoring the queues of `ports`.
    pub fn attach(ports: &[Port]) -> Result<Self, KernelError> {
        let object = LoadedObject::load(&OBJECT.0, kernel_features::SOJOURN, None)?;
        let watched = object.map("watched")?;
        for port in ports {
            let empty = RawQueueStats::default();
            watched
                .update(port.as_bytes(), empty.as_bytes(), MapFlags::ANY)
                .map_err(refused("adding a port to the monitor"))?;
        }
        let tracepoints = ["joins", "leaves"]
            .map(|name| object.attach_tracepoint(name))
            .into_iter()
            .collect::<Result<_, _>>()?;
        Ok(Self { ports: ports.to_vec(), watched, _tracepoints: tracepoints })
    }

    /// Returns the current queue states, in port order.
    pub fn read(&self) -> Result<Vec<QueueStats>, KernelError> {
        self.ports.iter().map(|port| self.read_port(port)).collect()
    }

    fn read_port(&self, port: &Port) -> Result<QueueStats, KernelError> {
        let value =
            self.watched.lookup(port.as_bytes(), MapFlags::ANY).map_err(refused("reading a queue"))?;
        let queue = value.and_then(|bytes| RawQueueStats::read_from_bytes(&bytes).ok());
        let queue = queue.ok_or(KernelError::ObjectMismatch { missing: "a queue of the expected size" })?;
        Ok(QueueStats {
            packets: queue.packets,
            sent: Bytes::new(queue.bytes),
            delay: Nanos::new(queue.delay),
            backlog: Bytes::new(queue.waiting),
        })
    }
}
