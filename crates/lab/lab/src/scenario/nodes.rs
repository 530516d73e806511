//! Selects hosts by the node numbers of a topology file.

use super::OneOrMore;
use super::select::{SelectionError, select_hosts, split_word_and_range};
use poseidon_plan::patterns::Racks;
use poseidon_traces::NodeMap;
use poseidon_types::HostId;

/// Selects hosts, in the order of `selectors`. `node[0-3]` uses the numbers of the topology file; other selectors have
/// their usual meaning.
pub fn select_nodes(
    selectors: &OneOrMore,
    nodes: &NodeMap,
    racks: &Racks,
) -> Result<Vec<HostId>, SelectionError> {
    let mut selected = Vec::new();
    for text in &selectors.0 {
        if !text.starts_with("node") {
            selected.extend(select_hosts(&OneOrMore(vec![text.clone()]), racks)?);
            continue;
        }
        let (word, range) = split_word_and_range(text)?;
        if word != "node" {
            return Err(SelectionError::NotHosts { text: text.clone() });
        }
        for node in range {
            let host = nodes.host(node);
            selected.push(host.ok_or_else(|| SelectionError::NotAHostNode { text: text.clone(), node })?);
        }
    }
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_plan::topology::{Edges, Topology};

    #[test]
    fn nodes_have_the_numbers_of_the_file() {
        let text = "h0 s0 1 Gbps 1 us\nh1 s1 1 Gbps 1 us\nh2 s1 1 Gbps 1 us\ns0 s1 1 Gbps 1 us";
        let racks = Racks::new(&Topology::Edges(Edges::parse(text).expect("the list is valid")));
        let mut hosts = vec![None; 8];
        (hosts[0], hosts[1], hosts[7]) = (Some(HostId::new(2)), Some(HostId::new(0)), Some(HostId::new(1)));
        let nodes = NodeMap::Table(hosts);
        let select = |text: &str| {
            select_nodes(&OneOrMore(vec![text.into()]), &nodes, &racks)
                .map(|hosts| hosts.into_iter().map(HostId::get).collect::<Vec<_>>())
        };
        assert_eq!(select("node[0-1]"), Ok(vec![2, 0]));
        assert_eq!(select("node7"), Ok(vec![1]));
        assert_eq!(select("host[0-1]"), Ok(vec![0, 1]));
        let error = select("node[1-2]").expect_err("node 2 is a switch").to_string();
        assert_eq!(error, "\"node[1-2]\": node 2 of the topology file is not a host");
        assert!(select("nodes3").is_err());
    }
}
