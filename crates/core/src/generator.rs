//! Random numbers by counter: the n-th number depends on the seed and on n alone, so it is the same for every thread count.

use crate::fork::{ForkSafeMutex, Forking, Hooks};
use crate::{Device, Result, backend, ensure};
use std::sync::{Arc, LazyLock};

/// Seed and position of a [`Generator`], which a checkpoint stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GeneratorState {
    /// The key of the stream.
    pub seed: u64,
    /// Blocks of four 32-bit numbers that were already used.
    pub offset: u64,
}

/// A source of random numbers, shared by its clones. Philox 4x32-10: Salmon et al., "Parallel random numbers: as easy as
/// 1, 2, 3", SC 2011.
///
/// ```
/// use flambeau_core::Generator;
/// let (a, b) = (Generator::new(7), Generator::new(7));
/// assert_eq!(a.reserve(4).block(0), b.reserve(4).block(0));
/// ```
#[derive(Debug, Clone)]
pub struct Generator {
    state: Arc<ForkSafeMutex<GeneratorState>>,
    device: Device,
}

impl Generator {
    /// A stream that begins at `seed`, for operators on the host.
    pub fn new(seed: u64) -> Self {
        Self::on(Device::CPU, seed)
    }

    /// The same for operators on `device`. One seed gives one sequence on every device.
    pub fn on(device: Device, seed: u64) -> Self {
        Generator { state: Arc::new(ForkSafeMutex::new(GeneratorState { seed, offset: 0 })), device }
    }

    /// The device that it is for.
    pub fn device(&self) -> Device {
        self.device
    }

    /// The generator that operators on `device` use when none is given.
    ///
    /// # Errors
    /// `Device` where there is no device of that number.
    ///
    /// ```
    /// use flambeau_core::{Device, Generator};
    /// assert_eq!(Generator::default_of(Device::CPU)?.state(), Generator::default_cpu().state());
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    pub fn default_of(device: Device) -> Result<&'static Generator> {
        let host = Self::default_cpu();
        if device.is_cpu() {
            return Ok(host);
        }
        let device = backend::resolve(device)?;
        let mut others = OTHERS.lock();
        if let Some(found) = others.iter().find(|generator| generator.device == device) {
            return Ok(found);
        }
        // One for each device there is, for as long as the process lives.
        let made: &Generator = Box::leak(Box::new(Self::on(device, host.state().seed)));
        others.push(made);
        Ok(made)
    }

    /// The generator that operators on the host use when none is given.
    pub fn default_cpu() -> &'static Generator {
        static DEFAULT: LazyLock<Generator> = LazyLock::new(|| {
            DEFAULTS_AT_FORK.register();
            Generator::new(DEFAULT_SEED)
        });
        &DEFAULT
    }

    /// Starts the stream of `seed` from its beginning.
    pub fn manual_seed(&self, seed: u64) {
        *self.state.lock() = GeneratorState { seed, offset: 0 };
    }

    /// The current position of the stream.
    pub fn state(&self) -> GeneratorState {
        *self.state.lock()
    }

    /// Continues the stream from `state`.
    pub fn set_state(&self, state: GeneratorState) {
        *self.state.lock() = state;
    }

    /// Takes the next `blocks` blocks of the stream for the caller alone.
    pub fn reserve(&self, blocks: u64) -> Philox {
        let mut state = self.state.lock();
        let start = state.offset;
        state.offset = start.wrapping_add(blocks);
        Philox { seed: state.seed, start }
    }

    /// Reserves enough blocks for `count` numbers of `words` 32-bit words each.
    ///
    /// # Errors
    /// `Overflow` where `count` is negative.
    pub fn reserve_words(&self, count: i64, words: u64) -> Result<Philox> {
        ensure!(count >= 0, Overflow, "expected a count of at least 0 but got {count}");
        Ok(self.reserve((count as u64).saturating_mul(words).div_ceil(4)))
    }
}

/// PyTorch's default seed.
const DEFAULT_SEED: u64 = 67_280_421_310_721;

/// The default generators of other devices than the host, each made at its first use.
static OTHERS: ForkSafeMutex<Vec<&'static Generator>> = ForkSafeMutex::new(Vec::new());

/// Another thread may be drawing from a default generator when this one forks.
static DEFAULTS_AT_FORK: Hooks = Hooks::new(
    |forking| {
        OTHERS.hold(forking, |others| others.iter().for_each(|other| other.state.hold(forking, |_| ())));
        Generator::default_cpu().state.hold(forking, |_| ());
    },
    release_defaults,
    release_defaults,
);

fn release_defaults(forking: &Forking) {
    Generator::default_cpu().state.release(forking, |_| ());
    OTHERS.release(forking, |others| others.iter().for_each(|other| other.state.release(forking, |_| ())));
}

/// Seeds the generators that operators use when none is given, those of all devices. PyTorch's `torch.manual_seed`.
pub fn manual_seed(seed: u64) {
    Generator::default_cpu().manual_seed(seed);
    OTHERS.lock().iter().for_each(|generator| generator.manual_seed(seed));
}

/// A reserved range of a stream: any of its numbers can be computed alone, in any order, on any thread.
#[derive(Debug, Clone, Copy)]
pub struct Philox {
    seed: u64,
    start: u64,
}

impl Philox {
    /// The key of the stream.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The block of the stream at which the range starts.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The four 32-bit numbers of block `index` of this range.
    #[inline(always)]
    pub fn block(&self, index: u64) -> [u32; 4] {
        let position = self.start.wrapping_add(index);
        let counter = [position as u32, (position >> 32) as u32, 0, 0];
        philox_4x32(counter, [self.seed as u32, (self.seed >> 32) as u32])
    }

    /// The `i`-th 32-bit number.
    #[inline(always)]
    pub fn word(&self, i: u64) -> u32 {
        self.block(i / 4)[(i % 4) as usize]
    }

    /// The `i`-th 64-bit number: two of a block.
    #[inline(always)]
    pub fn word64(&self, i: u64) -> u64 {
        let block = self.block(i / 2);
        let half = ((i % 2) * 2) as usize;
        block[half] as u64 | (block[half + 1] as u64) << 32
    }
}

/// Ten rounds of the Philox bijection.
#[inline(always)]
fn philox_4x32(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for round in 0..10 {
        if round > 0 {
            key[0] = key[0].wrapping_add(0x9E37_79B9);
            key[1] = key[1].wrapping_add(0xBB67_AE85);
        }
        let a = 0xD251_1F53u64 * counter[0] as u64;
        let b = 0xCD9E_8D57u64 * counter[2] as u64;
        counter = [
            (b >> 32) as u32 ^ counter[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ counter[3] ^ key[1],
            a as u32,
        ];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers published with the authors' Random123 library.
    #[test]
    fn philox_gives_the_published_answers() {
        assert_eq!(philox_4x32([0; 4], [0; 2]), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
        assert_eq!(philox_4x32([!0; 4], [!0; 2]), [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]);
        assert_eq!(
            philox_4x32([0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344], [0xa4093822, 0x299f31d0]),
            [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]
        );
    }

    #[test]
    fn a_stream_resumes_from_its_state() {
        let g = Generator::new(1);
        g.reserve(3);
        let state = g.state();
        let next = g.reserve(1).block(0);
        g.set_state(state);
        assert_eq!(g.reserve(1).block(0), next);
    }
}
