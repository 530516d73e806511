//! Published flow size distributions.

/// A published flow size distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The name used in scenario files.
    pub name: &'static str,
    /// A short description.
    pub description: &'static str,
    /// The contents of the file in `workloads/`, which lists the distribution's points and their source.
    pub text: &'static str,
}

/// The published distributions, sorted by name.
pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "alistorage2019",
        description: "storage at Alibaba, 2019",
        text: include_str!("../../../../../workloads/alistorage2019.csv"),
    },
    Workload {
        name: "fb-hadoop-hpcc",
        description: "Hadoop at Facebook, in HPCC's points",
        text: include_str!("../../../../../workloads/fb-hadoop-hpcc.csv"),
    },
    Workload {
        name: "websearch-hpcc",
        description: "web search (DCTCP), in HPCC's points",
        text: include_str!("../../../../../workloads/websearch-hpcc.csv"),
    },
    Workload {
        name: "websearch-powertcp",
        description: "web search (DCTCP), in PowerTCP's points: nothing below 2 kB",
        text: include_str!("../../../../../workloads/websearch-powertcp.csv"),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::SizeDistribution;
    use crate::random::RandomKey;

    #[test]
    fn every_workload_has_its_published_mean() {
        // The mean sizes in bytes, computed as trapezoidal sums over the artifacts' CDF points.
        let table = [
            ("alistorage2019", 9, 40_869.8, 2_000_000),
            ("fb-hadoop-hpcc", 20, 120_420.75, 10_000_000),
            ("websearch-hpcc", 12, 1_711_250.0, 30_000_000),
            ("websearch-powertcp", 16, 1_711_222.5, 30_000_000),
        ];
        assert_eq!(table.len(), WORKLOADS.len());
        for (name, points, mean, largest) in table {
            let sizes = SizeDistribution::named(name).expect("the workload exists");
            assert_eq!(sizes.points().len(), points, "{name}");
            assert!((sizes.mean() - mean).abs() < 0.001, "{name}: {}", sizes.mean());
            assert_eq!(sizes.quantile(1.0).get(), largest, "{name}");
        }
        assert_eq!(SizeDistribution::named("websearch"), None, "the name is ambiguous");
        assert!(WORKLOADS.iter().all(|workload| workload.text.contains("# Source: ")));
    }

    #[test]
    fn quantiles_match_vai_sf() {
        // VAI + SF section VI-A. Hadoop: 95 % below 300 kB and 2.5 % above 1 MB. Web search: 30 % above 1 MB.
        // Storage: 96 % below 128 kB.
        let quantile = |name, probability| {
            SizeDistribution::named(name).expect("the workload exists").quantile(probability).get()
        };
        assert_eq!(
            (quantile("fb-hadoop-hpcc", 0.95), quantile("fb-hadoop-hpcc", 0.975)),
            (300_000, 1_000_000)
        );
        assert_eq!(quantile("websearch-hpcc", 0.7), 1_000_000);
        assert!(quantile("alistorage2019", 0.96) < 128_000);
        assert!(quantile("alistorage2019", 0.97) > 128_000);
    }

    #[test]
    fn drawn_sizes_have_the_expected_mean() {
        // The standard deviations are 2.3 to 5.6 times the means, so the standard error of the mean over 10^6 draws is
        // at most 0.6 %.
        for workload in WORKLOADS {
            let sizes = SizeDistribution::named(workload.name).expect("the workload exists");
            let random = RandomKey::new(7, workload.name);
            let sum: u64 = (0..1_000_000).map(|i| sizes.draw(random.nth(i)).get()).sum();
            let ratio = sum as f64 / 1e6 / sizes.mean();
            assert!((ratio - 1.0).abs() < 0.02, "{}: {ratio}", workload.name);
        }
    }

    #[test]
    fn powertcp_web_search_has_no_flow_below_2_kb() {
        let sizes = SizeDistribution::named("websearch-powertcp").expect("the workload exists");
        let smallest = (0..100_000).map(|i| sizes.draw(RandomKey::new(i, "small")).get()).min();
        assert!(smallest.is_some_and(|size| (2_000..2_010).contains(&size)), "{smallest:?}");
    }
}
