//! Samples as columns of bytes.

use super::network::MapNetwork;
use super::sampling::MapSamples;

/// The unit of loads: half a percent of the capacity.
const LOAD_UNIT: f64 = 0.005;
/// The largest load that is stored, in units. A load of one is 200.
const MAX_LOAD: f64 = 250.0;
/// The load of a link that is down.
const DOWN: u8 = u8::MAX;

/// Samples as bytes. Each column contains the values of the first channel over time, then those of the next channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    /// The loads (one byte), the queues (two bytes) and the delays (two bytes). The lower bytes of a column precede its
    /// higher bytes, because equal bytes compress well.
    pub(super) bytes: Vec<u8>,
    /// The unit of queues in bytes.
    pub(super) queue_unit: u64,
    /// The unit of delays in nanoseconds.
    pub(super) delay_unit: u64,
}

impl Columns {
    pub(super) fn new(network: &MapNetwork, samples: &MapSamples) -> Self {
        let channels = network.channel_count();
        let each = |value: &dyn Fn(usize, usize) -> u64| -> Vec<u64> {
            let steps = samples.steps.len();
            (0..channels).flat_map(|channel| (0..steps).map(move |step| value(step, channel))).collect()
        };
        let mut bytes: Vec<u8> = (0..channels)
            .flat_map(|channel| (0..samples.steps.len()).map(move |step| (step, channel)))
            .map(|(step, channel)| encode_load(samples.load(network, step, channel)))
            .collect();
        let queue_unit = push_column(&mut bytes, &each(&|step, channel| samples.steps[step].queued[channel]));
        let delay_unit = push_column(&mut bytes, &each(&|step, channel| samples.steps[step].delay[channel]));
        Self { bytes, queue_unit, delay_unit }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the value is between 0 and 250")]
fn encode_load(load: Option<f64>) -> u8 {
    load.map_or(DOWN, |load| (load / LOAD_UNIT).round().clamp(0.0, MAX_LOAD) as u8)
}

/// Appends a column of 16-bit values and returns their unit. Values are rounded up, so only zero is zero.
fn push_column(bytes: &mut Vec<u8>, values: &[u64]) -> u64 {
    let largest = values.iter().copied().max().unwrap_or(0);
    let unit = largest.div_ceil(u64::from(u16::MAX)).max(1);
    let scaled = values.iter().map(|value| u16::try_from(value.div_ceil(unit)).unwrap_or(u16::MAX));
    let pairs: Vec<[u8; 2]> = scaled.map(u16::to_le_bytes).collect();
    for position in 0..2 {
        bytes.extend(pairs.iter().map(|pair| pair[position]));
    }
    unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_round_up_to_their_unit() {
        let mut bytes = vec![7];
        assert_eq!(push_column(&mut bytes, &[0, 1, 65_535]), 1);
        assert_eq!(bytes, [7, 0, 1, 255, 0, 0, 255]);
        let mut bytes = Vec::new();
        assert_eq!(push_column(&mut bytes, &[0, 1, 65_536]), 2);
        assert_eq!(bytes, [0, 1, 0, 0, 0, 128]);
        assert_eq!(push_column(&mut Vec::new(), &[]), 1);
    }

    #[test]
    fn loads_have_a_resolution_of_half_a_percent() {
        let loads = [Some(0.0), Some(0.25), Some(1.0), Some(1.25), Some(9.0), None];
        assert_eq!(loads.map(encode_load), [0, 50, 200, 250, 250, DOWN]);
    }
}
