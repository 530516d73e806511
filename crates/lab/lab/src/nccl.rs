//! Collective results with the keys of nccl-tests' JSON output, so that existing plots can read them.

use crate::summary::CollectiveSummary;
use serde_json::{Value, json};

/// Returns a collective's results. Times are in microseconds and bandwidths in GB/s.
pub fn nccl_result(name: &str, collective: &CollectiveSummary) -> Value {
    let CollectiveSummary { algorithm, operation, ranks, size_bytes, bus_factor, times_us } = collective;
    let count = times_us.len() as f64;
    let mean = times_us.iter().sum::<f64>() / count;
    let deviation = (times_us.iter().map(|time| (time - mean) * (time - mean)).sum::<f64>() / count).sqrt();
    let bandwidth = *size_bytes as f64 / mean / 1e3;
    let reduces = operation.contains("reduce");
    json!({
        "name": name,
        "algorithm": algorithm,
        "operation": operation,
        "ranks": ranks,
        "size": size_bytes,
        // Elements have one byte.
        "count": size_bytes,
        "type": "uint8",
        "redop": if reduces { "sum" } else { "none" },
        "root": -1,
        "out_of_place": {
            "time": mean,
            "alg_bw": bandwidth,
            "bus_bw": bandwidth * bus_factor,
            "nwrong": 0,
        },
        "per_iter": {
            "min_us": times_us.iter().copied().fold(f64::INFINITY, f64::min),
            "max_us": times_us.iter().copied().fold(0.0, f64::max),
            "avg_us": mean,
            "stdev_us": deviation,
            "cv_pct": 100.0 * deviation / mean,
            "times_us": times_us,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_are_those_of_nccl_tests() {
        let collective = CollectiveSummary {
            algorithm: "ring-all-reduce".to_owned(),
            operation: "all-reduce".to_owned(),
            ranks: 4,
            size_bytes: 4_000_000,
            bus_factor: 1.5,
            times_us: vec![100.0, 300.0],
        };
        let result = nccl_result("ring", &collective);
        assert_eq!(result["out_of_place"]["time"], 200.0);
        assert_eq!(result["out_of_place"]["alg_bw"], 20.0);
        assert_eq!(result["out_of_place"]["bus_bw"], 30.0);
        assert_eq!(result["per_iter"]["stdev_us"], 100.0);
        assert_eq!(result["redop"], "sum");
        // A run without finished repetitions has no times, which JSON writes as null.
        let unfinished = CollectiveSummary { times_us: Vec::new(), ..collective };
        assert!(nccl_result("ring", &unfinished)["out_of_place"]["time"].is_null());
    }
}
