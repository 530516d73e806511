//! Connections that run the law when it is switched off get another congestion control.

use super::error::TcpError;
use crate::in_kernel::{KernelError, may_load};
use libbpf_rs::{Iter, ObjectBuilder};
use std::io::Read as _;

/// libelf reads structs of eight bytes out of it.
#[repr(C, align(8))]
struct Aligned<Bytes: ?Sized>(Bytes);

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/restore.bpf.o")));

/// Gives all connections of this network namespace that run Poseidon the congestion control `law`, and says how many. One that the kernel does not
/// have is refused. Connections of other namespaces keep Poseidon until they end.
pub fn restore_connections(law: &str) -> Result<usize, TcpError> {
    may_load()?;
    let available = super::read_text("/proc/sys/net/ipv4/tcp_available_congestion_control")?;
    if !available.split_whitespace().any(|name| name == law) || law == "poseidon" {
        return Err(TcpError::NoSuchControl { law: law.to_owned(), available });
    }
    let mut builder = ObjectBuilder::default();
    let mut open = builder.open_memory(&OBJECT.0).map_err(TcpError::refused("opening the object"))?;
    let mut map = open.maps_mut().find(|map| map.name().to_string_lossy().ends_with("wanted"));
    let place = map.as_mut().and_then(|map| map.initial_value_mut());
    let place = place.and_then(|place| place.get_mut(..law.len()));
    place.ok_or(KernelError::OtherObject { lacks: "a place for the name" })?.copy_from_slice(law.as_bytes());
    let object = open.load().map_err(TcpError::refused("loading the program"))?;
    let program = object.progs_mut().next().ok_or(KernelError::OtherObject { lacks: "restore" })?;
    let link = program.attach().map_err(TcpError::refused("attaching to the list of sockets"))?;
    let mut rows = Vec::new();
    let mut all = Iter::new(&link).map_err(TcpError::refused("reading the list of sockets"))?;
    all.read_to_end(&mut rows).map_err(TcpError::file("reading", "the list of sockets"))?;
    Ok(rows.len())
}
