//! Switches connections to another congestion control when Poseidon is disabled.

use super::error::TcpError;
use crate::object::{AlignedBytes, KernelError, load_object};
use libbpf_rs::Iter;
use std::io::Read as _;

static OBJECT: &AlignedBytes<[u8]> =
    &AlignedBytes(*include_bytes!(concat!(env!("OUT_DIR"), "/restore.bpf.o")));

/// Switches all Poseidon connections in this network namespace to the congestion control `control`.
///
/// Returns the number of switched connections. Fails if `control` is not available. Connections in other namespaces
/// keep Poseidon until they end.
pub fn restore_connections(control: &str) -> Result<usize, TcpError> {
    let available = super::read_text("/proc/sys/net/ipv4/tcp_available_congestion_control")?;
    if !available.split_whitespace().any(|name| name == control) || control == "poseidon" {
        return Err(TcpError::UnknownControl { control: control.to_owned(), available });
    }
    let object = load_object(&OBJECT.0, |object| {
        let mut map = object.maps_mut().find(|map| map.name().to_string_lossy().ends_with("wanted"));
        let initial = map.as_mut().and_then(|map| map.initial_value_mut());
        let name = initial.and_then(|initial| initial.get_mut(..control.len()));
        name.ok_or(KernelError::ObjectMismatch { missing: "a variable for the name" })?
            .copy_from_slice(control.as_bytes());
        Ok(())
    })?;
    let program = object.progs_mut().next().ok_or(KernelError::ObjectMismatch { missing: "restore" })?;
    let link = program.attach().map_err(TcpError::refused("attaching to the list of sockets"))?;
    let mut changed = Vec::new();
    let mut sockets = Iter::new(&link).map_err(TcpError::refused("reading the list of sockets"))?;
    sockets.read_to_end(&mut changed).map_err(TcpError::file("reading", "the list of sockets"))?;
    Ok(changed.len())
}
