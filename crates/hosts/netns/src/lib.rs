//! Network namespaces as hosts and routers on one machine.
//!
//! ```text
//!   PrivateNetns::run_test ──> unshare --mount --net ──> the same program, inside
//!                                                          │ create, link, configure
//!                                                          v
//!                              /run/netns/left ── veth ── router ── veth ── /run/netns/right
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`private`] | [`PrivateNetns`]: restarts this program in private network and mount namespaces |
//! | [`namespace`] | named namespaces: [`create`], [`setns`], [`run_in`], [`configure`] |
//! | [`command`] | [`sh`] and [`run_tool`]: run scripts and tools, and include their output in errors |
//! | [`role`] | [`RoleProcess`]: another process of this program that acts as a host in a namespace |
//!
//! Everything here needs root privileges and the tools `ip` (iproute2), `unshare` and `nsenter` (util-linux).

pub mod command;
mod error;
pub mod namespace;
mod path;
pub mod private;
pub mod role;

pub use command::{run_tool, sh, sh_in};
pub use error::NetnsError;
pub use namespace::{Interface, configure, create, delete, link, run_in, setns};
pub use path::path;
pub use private::PrivateNetns;
pub use role::RoleProcess;

/// The result of a namespace operation.
pub type Result<T> = core::result::Result<T, NetnsError>;
