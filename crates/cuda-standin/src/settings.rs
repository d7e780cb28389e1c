//! What environment variables say: the order of work, calls that fail, checks that cost time, the size of memory.

use std::collections::HashMap;
use std::sync::Mutex;

/// The settings of a process.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// 0 runs streams, blocks and warps in their order, and work as late as possible; other numbers draw another order.
    pub(crate) seed: u64,
    /// Whether accesses to shared memory that are not ordered by a barrier are faults.
    pub(crate) races: bool,
    /// Bytes of a device.
    pub(crate) memory: u64,
    /// How many devices there are.
    pub(crate) devices: i32,
    /// Instructions of a warp after which a launch is taken to run forever.
    pub(crate) steps: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { seed: 0, races: false, memory: 8 << 30, devices: 2, steps: 1 << 32 }
    }
}

/// The value of an environment variable, where it is a number.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.trim().parse().ok()
}

impl Settings {
    /// The settings of the environment.
    pub(crate) fn of_environment() -> Self {
        let default = Settings::default();
        Settings {
            seed: number("FLAMBEAU_STANDIN_SEED").unwrap_or(default.seed),
            races: number("FLAMBEAU_STANDIN_RACES").map_or(default.races, |value| value != 0),
            memory: number("FLAMBEAU_STANDIN_MEMORY").unwrap_or(default.memory),
            steps: number("FLAMBEAU_STANDIN_STEPS").unwrap_or(default.steps),
            devices: number("FLAMBEAU_STANDIN_DEVICES")
                .and_then(|count| i32::try_from(count).ok())
                .unwrap_or(default.devices),
        }
    }
}

/// Calls of the driver by function, and the one that fails.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    counts: HashMap<&'static str, u64>,
    failing: Option<(String, u64)>,
}

static CALLS: Mutex<Option<Calls>> = Mutex::new(None);

impl Calls {
    fn of_environment() -> Self {
        let text = std::env::var("FLAMBEAU_STANDIN_FAIL").unwrap_or_default();
        let failing = text.split_once(':').and_then(|(name, number)| Some((name, number.parse().ok()?)));
        Calls {
            counts: HashMap::new(),
            failing: failing.map(|(name, number): (&str, u64)| (name.to_owned(), number)),
        }
    }

    /// Counts a call, and says whether it is the one that fails.
    fn note(&mut self, name: &'static str) -> bool {
        let count = self.counts.entry(name).or_insert(0);
        *count += 1;
        self.failing.as_ref().is_some_and(|(failing, number)| failing == name && number == count)
    }
}

fn with_calls<T>(body: impl FnOnce(&mut Calls) -> T) -> T {
    let mut calls = CALLS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    body(calls.get_or_insert_with(Calls::of_environment))
}

/// Counts a call of the driver, and says whether it is the one that fails.
pub(crate) fn fails(name: &'static str) -> bool {
    with_calls(|calls| calls.note(name))
}

/// Has the n-th call of a function from now on fail, once; 0 for none. Counts begin anew.
pub(crate) fn fail_at(name: &str, number: u64) {
    with_calls(|calls| {
        calls.counts.clear();
        calls.failing = (number > 0).then(|| (name.to_owned(), number));
    });
}

/// How often functions were called since counts began, in the order of their names.
pub(crate) fn counts() -> Vec<(&'static str, u64)> {
    let mut counts: Vec<_> = with_calls(|calls| calls.counts.iter().map(|(name, n)| (*name, *n)).collect());
    counts.sort_unstable();
    counts
}

/// Draws of an order: a generator of 64-bit numbers (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Order {
    state: u64,
    /// Whether the order is drawn at all.
    pub(crate) is_drawn: bool,
}

impl Order {
    pub(crate) fn new(seed: u64) -> Self {
        Order { state: seed, is_drawn: seed != 0 }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `count`, which is not 0; always 0 if no order is drawn.
    pub(crate) fn below(&mut self, count: u64) -> u64 {
        if self.is_drawn { self.next() % count.max(1) } else { 0 }
    }

    /// A permutation of the numbers below `count`, as `i -> (i * factor + start) % count`.
    pub(crate) fn permutation(&mut self, count: u64) -> Permutation {
        if !self.is_drawn || count < 2 {
            return Permutation { count, factor: 1, start: 0 };
        }
        let mut factor = 1 + self.below(count - 1);
        while greatest_common_divisor(factor, count) != 1 {
            factor = 1 + factor % (count - 1);
        }
        Permutation { count, factor, start: self.below(count) }
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// The numbers below a count in some order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permutation {
    count: u64,
    factor: u64,
    start: u64,
}

impl Permutation {
    pub(crate) fn at(self, i: u64) -> u64 {
        ((u128::from(i) * u128::from(self.factor) + u128::from(self.start)) % u128::from(self.count.max(1)))
            as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutations_are_of_all_numbers() {
        for seed in 0..20 {
            for count in [1, 2, 3, 4, 7, 12, 97, 256] {
                let order = Order::new(seed).permutation(count);
                let mut all: Vec<u64> = (0..count).map(|i| order.at(i)).collect();
                all.sort_unstable();
                assert_eq!(all, (0..count).collect::<Vec<_>>());
            }
        }
    }
}
