//! The two maps of a port's programs: `config`, which they read, and `stats`, which each CPU counts in by itself.

use crate::in_kernel::{KernelError, refused};
use crate::port::Loaded;
use core::marker::PhantomData;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use zerocopy::{FromBytes, Immutable, IntoBytes};

const KEY: [u8; 4] = 0_u32.to_ne_bytes();

/// Both, with the struct that `config` holds.
#[derive(Debug)]
pub(crate) struct Maps<Config> {
    config: MapHandle,
    stats: MapHandle,
    holds: PhantomData<Config>,
}

impl<Config: FromBytes + IntoBytes + Immutable> Maps<Config> {
    /// Their names, in the order in which they are pinned.
    pub(crate) const NAMES: [&'static str; 2] = ["config", "stats"];

    /// Of programs that this process has loaded.
    pub(crate) fn of(loaded: &Loaded) -> Result<Self, KernelError> {
        let [config, stats] = Self::NAMES;
        Ok(Self { config: loaded.map(config)?, stats: loaded.map(stats)?, holds: PhantomData })
    }

    /// Of a port that is attached.
    pub(crate) fn pinned(maps: Vec<MapHandle>) -> Result<Self, KernelError> {
        let [config, stats] =
            maps.try_into().map_err(|_| KernelError::OtherObject { lacks: "its pinned maps" })?;
        Ok(Self { config, stats, holds: PhantomData })
    }

    pub(crate) fn write(&self, config: &Config) -> Result<(), KernelError> {
        self.config.update(&KEY, config.as_bytes(), MapFlags::ANY).map_err(refused("writing the settings"))
    }

    pub(crate) fn config(&self) -> Result<Config, KernelError> {
        let value = self.config.lookup(&KEY, MapFlags::ANY).map_err(refused("reading the settings"))?;
        let config = value.and_then(|value| Config::read_from_bytes(&value).ok());
        config.ok_or(KernelError::OtherObject { lacks: "settings of the expected size" })
    }

    /// The counters, which are all 64 bits, over all CPUs.
    pub(crate) fn counters<const N: usize>(&self) -> Result<[u64; N], KernelError> {
        let per_cpu =
            self.stats.lookup_percpu(&KEY, MapFlags::ANY).map_err(refused("reading the counters"))?;
        let mut sum = [0; N];
        for value in per_cpu.iter().flatten() {
            let one = <[u64; N]>::read_from_bytes(value)
                .map_err(|_| KernelError::OtherObject { lacks: "counters of the expected size" })?;
            sum.iter_mut().zip(one).for_each(|(sum, one)| *sum += one);
        }
        Ok(sum)
    }
}
