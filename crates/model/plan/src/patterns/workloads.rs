//! Published distributions of flow sizes.

/// A published distribution of flow sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its name in scenario files.
    pub name: &'static str,
    /// What it is.
    pub says: &'static str,
    /// Its points, and where they come from: the file of its name in `workloads/`.
    pub text: &'static str,
}

/// The published distributions, in the order of their names.
pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "alistorage2019",
        says: "storage at Alibaba, 2019",
        text: include_str!("../../../../../workloads/alistorage2019.csv"),
    },
    Workload {
        name: "fb-hadoop-hpcc",
        says: "Hadoop at Facebook, in HPCC's points",
        text: include_str!("../../../../../workloads/fb-hadoop-hpcc.csv"),
    },
    Workload {
        name: "websearch-hpcc",
        says: "web search (DCTCP), in HPCC's points",
        text: include_str!("../../../../../workloads/websearch-hpcc.csv"),
    },
    Workload {
        name: "websearch-powertcp",
        says: "web search (DCTCP), in PowerTCP's points: nothing below 2 kB",
        text: include_str!("../../../../../workloads/websearch-powertcp.csv"),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;
    use crate::patterns::SizeDistribution;

    #[test]
    fn every_workload_is_read_and_has_its_published_mean() {
        // Trapezoid sums over the points of the artifacts, in bytes.
        let table = [
            ("alistorage2019", 9, 40_869.8, 2_000_000),
            ("fb-hadoop-hpcc", 20, 120_420.75, 10_000_000),
            ("websearch-hpcc", 12, 1_711_250.0, 30_000_000),
            ("websearch-powertcp", 16, 1_711_222.5, 30_000_000),
        ];
        assert_eq!(table.len(), WORKLOADS.len());
        for (name, points, mean, largest) in table {
            let sizes = SizeDistribution::named(name).expect("in the table");
            assert_eq!(sizes.points().len(), points, "{name}");
            assert!((sizes.mean() - mean).abs() < 0.001, "{name}: {}", sizes.mean());
            assert_eq!(sizes.quantile(1.0).get(), largest, "{name}");
        }
        assert_eq!(SizeDistribution::named("websearch"), None, "which of the two?");
        assert!(WORKLOADS.iter().all(|workload| workload.text.contains("# Source: ")));
    }

    #[test]
    fn vai_sf_says_of_them_what_they_are() {
        // Section VI-A: Hadoop 95 % below 300 kB and 2.5 % above 1 MB; web search 30 % above 1 MB; storage 96 % below 128 kB.
        let at = |name, share| SizeDistribution::named(name).expect("in the table").quantile(share).get();
        assert_eq!((at("fb-hadoop-hpcc", 0.95), at("fb-hadoop-hpcc", 0.975)), (300_000, 1_000_000));
        assert_eq!(at("websearch-hpcc", 0.7), 1_000_000);
        assert!(at("alistorage2019", 0.96) < 128_000 && at("alistorage2019", 0.97) > 128_000);
    }

    #[test]
    fn drawn_sizes_have_the_mean() {
        // Deviations are 2.3 to 5.6 times the means, so the mean of 10^6 has a standard error of at most 0.6 %.
        for workload in WORKLOADS {
            let sizes = SizeDistribution::named(workload.name).expect("in the table");
            let root = Chance::new(7, workload.name);
            let sum: u64 = (0..1_000_000).map(|i| sizes.draw(root.of(i)).get()).sum();
            let ratio = sum as f64 / 1e6 / sizes.mean();
            assert!((ratio - 1.0).abs() < 0.02, "{}: {ratio}", workload.name);
        }
    }

    #[test]
    fn no_web_search_of_powertcp_is_below_two_kilobytes() {
        let sizes = SizeDistribution::named("websearch-powertcp").expect("in the table");
        let smallest = (0..100_000).map(|i| sizes.draw(Chance::new(i, "small")).get()).min();
        assert!(smallest.is_some_and(|size| (2_000..2_010).contains(&size)), "{smallest:?}");
    }
}
