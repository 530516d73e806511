//! A network for real packets: two hosts and a router in network namespaces, with one bottleneck.
//!
//! ```text
//!  sender ────────── router ──TBF──> receiver
//! 10.91.1.1   10.91.1.2 10.91.2.2   10.91.2.1
//! ```
//!
//! Dropping a network removes its namespaces. Creating a network requires root, and `ip` and `tc` from iproute2.

use poseidon_netns::{Interface, configure, create, delete, link, run_in, run_tool};

/// A network with unique names, so that tests can run in parallel.
pub(crate) struct TestNetwork {
    /// The prefix of the namespace names.
    prefix: String,
}

/// A node of the network.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Node {
    Sender,
    Router,
    Receiver,
}

/// The receiver's address.
pub(crate) const RECEIVER: &str = "10.91.2.1";

impl TestNetwork {
    /// Creates a network whose bottleneck has this rate and queue size.
    pub(crate) fn new(mbps: u32, queue_bytes: u32) -> Self {
        let network = Self { prefix: format!("poseidon-{}", std::process::id()) };
        network.build(mbps, queue_bytes).unwrap_or_else(|error| panic!("{error}"));
        network
    }

    fn build(&self, mbps: u32, queue_bytes: u32) -> poseidon_netns::Result<()> {
        let [sender, router, receiver] = Node::ALL.map(|node| self.netns(node));
        create(&[&sender, &router, &receiver])?;
        link((Some(&sender), "e0"), (Some(&router), "e0"))?;
        link((Some(&receiver), "e0"), (Some(&router), "e1"))?;
        let host = |address: &'static [&'static str]| [Interface { device: "e0", addresses: address }];
        configure(Some(&sender), &host(&["10.91.1.1/24"]), &["10.91.1.2"])?;
        let ports = [
            Interface { device: "e0", addresses: &["10.91.1.2/24"] },
            Interface { device: "e1", addresses: &["10.91.2.2/24"] },
        ];
        configure(Some(&router), &ports, &[])?;
        configure(Some(&receiver), &host(&["10.91.2.1/24"]), &["10.91.2.2"])?;
        self.run_in(Node::Router, || {
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("root may change settings");
        });
        // The bucket holds 0.8 ms at 100 Mbit/s. With a smaller bucket, throughput drops when the shaper runs late.
        let (rate, limit) = (format!("{mbps}mbit"), queue_bytes.to_string());
        let qdisc = ["-n", &router, "qdisc", "replace", "dev", "e1", "root", "tbf"];
        let shaper = ["rate", &rate, "burst", "10000", "limit", &limit];
        run_tool("tc", &[&qdisc[..], &shaper].concat(), "").map(drop)
    }

    /// Runs `work` in a thread inside a node. Sockets that `work` opens stay in the node.
    pub(crate) fn run_in<T: Send>(&self, node: Node, work: impl FnOnce() -> T + Send) -> T {
        run_in(&self.netns(node), work).unwrap_or_else(|error| panic!("{error}"))
    }

    fn netns(&self, node: Node) -> String {
        format!("{}-{node:?}", self.prefix).to_lowercase()
    }
}

impl Drop for TestNetwork {
    fn drop(&mut self) {
        delete(&Node::ALL.map(|node| self.netns(node)));
    }
}

impl Node {
    const ALL: [Self; 3] = [Self::Sender, Self::Router, Self::Receiver];
}
