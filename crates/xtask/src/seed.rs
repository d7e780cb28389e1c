//! Seeds of checks with random cases, and numbers drawn from a seed. The seed follows from the commit, so that a run can be repeated, and other commits have other cases.

use std::fmt;
use std::process::Command;

use crate::root;

/// The seed of a check.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seed(u64);

/// The given seed, or the one of the commit that is checked out.
pub(crate) fn given_or_of_the_commit(given: Option<u64>) -> Seed {
    Seed(given.or_else(of_the_commit).unwrap_or(1))
}

fn of_the_commit() -> Option<u64> {
    let output =
        Command::new("git").args(["rev-parse", "--short=8", "HEAD"]).current_dir(root()).output().ok()?;
    u64::from_str_radix(String::from_utf8_lossy(&output.stdout).trim(), 16).ok()
}

impl Seed {
    /// Whether the half of all names that this seed selects has `name`.
    pub(crate) fn draws(self, name: &str) -> bool {
        // FNV-1a, then a mix: the lowest bit of the hash alone would be the parity of the bytes.
        let hash = name.bytes().fold(self.0 ^ 0xCBF2_9CE4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        });
        (hash ^ (hash >> 29)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 63 == 0
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Random numbers: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
pub(crate) struct SplitMix(u64);

impl SplitMix {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `n`, or 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((u128::from(z ^ (z >> 31)) * n as u128) >> 64) as usize
    }
}
