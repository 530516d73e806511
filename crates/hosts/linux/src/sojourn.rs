//! How long packets really waited in the queues of this machine's ports: `bpf/sojourn.bpf.c`, which watches and touches nothing.
//!
//! A stamp says before a packet is queued how long it will wait; this says how long it did. It is there while a [`Sojourns`] lives.
//!
//! ```no_run
//! use poseidon_linux::sojourn::{Port, Sojourns};
//!
//! let sojourns = Sojourns::watch(&[Port::find("e0")?])?;
//! println!("{}", sojourns.read()?[0].delay);
//! # Ok::<(), poseidon_linux::port::PortError>(())
//! ```

use crate::in_kernel::{Aligned, KernelError, refused};
use crate::port::{Device, Loaded, PortError, namespace};
use libbpf_rs::{Link, MapCore as _, MapFlags, MapHandle};
use poseidon_types::{Bytes, Nanos};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/sojourn.bpf.o")));

/// A port of any network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct Port {
    netns: u32,
    device: u32,
}

impl Port {
    /// The device called `name` of the network namespace of the calling thread.
    pub fn find(name: &str) -> Result<Self, PortError> {
        let device = Device::find(name)?.index;
        Ok(Self { netns: namespace()?, device: device.cast_unsigned() })
    }
}

/// A queue, from when it was first watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Packets that left it.
    pub packets: u64,
    /// Bytes that left it, link headers included.
    pub sent: Bytes,
    /// How long the packet that left last had waited.
    pub delay: Nanos,
    /// Bytes that wait.
    pub waiting: Bytes,
}

/// Watches queues while it lives.
#[derive(Debug)]
pub struct Sojourns {
    ports: Vec<Port>,
    watched: MapHandle,
    _seen: Vec<Link>,
}

/// `struct queue`.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct InC {
    packets: u64,
    bytes: u64,
    delay: u64,
    waiting: u64,
}

impl Sojourns {
    /// Begins to watch.
    pub fn watch(ports: &[Port]) -> Result<Self, KernelError> {
        let loaded = Loaded::load(&OBJECT.0, None)?;
        let watched = loaded.map("watched")?;
        for port in ports {
            let nothing = InC::default();
            watched
                .update(port.as_bytes(), nothing.as_bytes(), MapFlags::ANY)
                .map_err(refused("naming a port to watch"))?;
        }
        let seen =
            ["joins", "leaves"].map(|name| loaded.trace(name)).into_iter().collect::<Result<_, _>>()?;
        Ok(Self { ports: ports.to_vec(), watched, _seen: seen })
    }

    /// The queues as they are now, in the order in which they were given.
    pub fn read(&self) -> Result<Vec<Queue>, KernelError> {
        let one = |port: &Port| {
            let value =
                self.watched.lookup(port.as_bytes(), MapFlags::ANY).map_err(refused("reading a queue"))?;
            let queue = value.and_then(|bytes| InC::read_from_bytes(&bytes).ok());
            let queue = queue.ok_or(KernelError::OtherObject { lacks: "a queue of the expected size" })?;
            Ok(Queue {
                packets: queue.packets,
                sent: Bytes::new(queue.bytes),
                delay: Nanos::new(queue.delay),
                waiting: Bytes::new(queue.waiting),
            })
        };
        self.ports.iter().map(one).collect()
    }
}
