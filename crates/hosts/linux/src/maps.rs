//! The two maps that a port's programs share with user space: `config` for settings, and `stats` for per-CPU counters.

use crate::object::{KernelError, refused};
use crate::port::LoadedObject;
use core::marker::PhantomData;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use zerocopy::{FromBytes, Immutable, IntoBytes};

const KEY: [u8; 4] = 0_u32.to_ne_bytes();

/// A port's maps. `Config` is the value type of the `config` map.
#[derive(Debug)]
pub(crate) struct PortMaps<Config> {
    config: MapHandle,
    stats: MapHandle,
    config_type: PhantomData<Config>,
}

impl<Config: FromBytes + IntoBytes + Immutable> PortMaps<Config> {
    /// The map names, in pinning order.
    pub(crate) const NAMES: [&'static str; 2] = ["config", "stats"];

    /// Returns the maps of an object loaded by this process.
    pub(crate) fn from_object(object: &LoadedObject) -> Result<Self, KernelError> {
        let [config, stats] = Self::NAMES;
        Ok(Self { config: object.map(config)?, stats: object.map(stats)?, config_type: PhantomData })
    }

    /// Returns the maps of an attached port, given its pinned maps.
    pub(crate) fn from_pins(maps: Vec<MapHandle>) -> Result<Self, KernelError> {
        let [config, stats] =
            maps.try_into().map_err(|_| KernelError::ObjectMismatch { missing: "its pinned maps" })?;
        Ok(Self { config, stats, config_type: PhantomData })
    }

    pub(crate) fn write_config(&self, config: &Config) -> Result<(), KernelError> {
        self.config.update(&KEY, config.as_bytes(), MapFlags::ANY).map_err(refused("writing the settings"))
    }

    pub(crate) fn read_config(&self) -> Result<Config, KernelError> {
        let value = self.config.lookup(&KEY, MapFlags::ANY).map_err(refused("reading the settings"))?;
        let config = value.and_then(|value| Config::read_from_bytes(&value).ok());
        config.ok_or(KernelError::ObjectMismatch { missing: "settings of the expected size" })
    }

    /// Returns the 64-bit counters, summed over all CPUs.
    pub(crate) fn read_counters<const N: usize>(&self) -> Result<[u64; N], KernelError> {
        let per_cpu =
            self.stats.lookup_percpu(&KEY, MapFlags::ANY).map_err(refused("reading the counters"))?;
        let mut sums = [0; N];
        for value in per_cpu.iter().flatten() {
            let counters = <[u64; N]>::read_from_bytes(value)
                .map_err(|_| KernelError::ObjectMismatch { missing: "counters of the expected size" })?;
            sums.iter_mut().zip(counters).for_each(|(sum, counter)| *sum += counter);
        }
        Ok(sums)
    }
}
