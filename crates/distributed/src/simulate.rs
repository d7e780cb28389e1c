//! What a step of training costs on more ranks than there are: a schedule in virtual time, from the profile of one rank and figures of a
//! network. The results are simulated, and are as good as these figures.

use std::time::Duration;

/// Up to so many bytes an all-reduce is one round, in which every rank sends all to all.
pub(crate) const ONE_ROUND: usize = 16 << 10;

/// A network between ranks, each pair of which has its own link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Network {
    /// Seconds that a message takes besides its bytes.
    pub latency: f64,
    /// Bytes a second of one rank.
    pub bandwidth: f64,
}

impl Network {
    /// Ethernet of 10 Gb/s.
    pub const ETHERNET: Network = Network { latency: 40e-6, bandwidth: 1.1e9 };
    /// InfiniBand of 200 Gb/s.
    pub const INFINIBAND: Network = Network { latency: 3e-6, bandwidth: 22e9 };
    /// NVLink.
    pub const NVLINK: Network = Network { latency: 5e-6, bandwidth: 200e9 };

    /// How long a message of so many bytes takes, in seconds.
    pub fn seconds(self, bytes: f64) -> f64 {
        self.latency + bytes / self.bandwidth
    }

    /// The same as a time to wait; a network without finite figures does not delay.
    pub(crate) fn message(self, bytes: usize) -> Duration {
        Duration::try_from_secs_f64(self.seconds(bytes as f64)).unwrap_or_default()
    }

    /// An all-reduce by rounds along a ring.
    pub fn ring(self, bytes: f64, ranks: usize) -> f64 {
        let n = ranks as f64;
        2.0 * (n - 1.0) * (self.latency + bytes / (n * self.bandwidth))
    }

    /// An all-reduce along a binary tree and back, as other libraries have it.
    pub fn tree(self, bytes: f64, ranks: usize) -> f64 {
        2.0 * (ranks as f64).log2().ceil() * self.seconds(bytes)
    }

    /// The all-reduce of this crate: each rank sends its chunks one after another, and then its result; these are the messages along a
    /// ring, but those of a round are independent of each other. Short tensors are sent as they are to all.
    pub fn all_reduce(self, bytes: f64, ranks: usize) -> f64 {
        match bytes <= ONE_ROUND as f64 {
            true => (ranks as f64 - 1.0) * self.seconds(bytes),
            false => self.ring(bytes, ranks),
        }
    }
}

/// What one rank computes in a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Seconds of the forward pass.
    pub forward: f64,
    /// The buckets in the order in which the backward pass fills them: seconds until a bucket is full since the one before, and its bytes.
    pub backward: Vec<(f64, f64)>,
    /// Seconds of the optimizer.
    pub optimizer: f64,
}

/// How training is distributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Gradients are summed over ranks while the backward pass runs.
    DataParallel,
    /// The same, and the optimizer's work and state are sharded; the parameters are gathered after the step.
    Zero,
    /// Parameters are sharded too: gathered in the forward and the backward pass, and gradients reduced to their owner.
    FullySharded,
}

/// A simulated step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Seconds of computation.
    pub compute: f64,
    /// Seconds in which the network is busy.
    pub communication: f64,
    /// Seconds of the step.
    pub total: f64,
}

impl Step {
    /// Seconds of one rank alone, divided by those of this step.
    pub fn efficiency(&self, profile: &Profile) -> f64 {
        simulate(profile, Network { latency: 0.0, bandwidth: f64::INFINITY }, 1, Strategy::DataParallel).total
            / self.total
    }
}

/// Plays the schedule of one step. Communication runs beside computation, one bucket after another.
///
/// ```
/// use flambeau_distributed::simulate::{Network, Profile, Strategy, simulate};
/// let profile = Profile { forward: 0.05, backward: vec![(0.05, 25e6), (0.05, 25e6)], optimizer: 0.01 };
/// let step = simulate(&profile, Network::INFINIBAND, 8, Strategy::DataParallel);
/// assert!(step.total < 0.17 && step.efficiency(&profile) > 0.95);
/// let slow = simulate(&profile, Network { latency: 1e-3, bandwidth: 1e8 }, 8, Strategy::DataParallel);
/// assert!(slow.efficiency(&profile) < 0.3);
/// ```
pub fn simulate(profile: &Profile, network: Network, ranks: usize, strategy: Strategy) -> Step {
    let ranks = ranks.max(1);
    let all: f64 = profile.backward.iter().map(|(_, bytes)| bytes).sum();
    let backward: f64 = profile.backward.iter().map(|(seconds, _)| seconds).sum();
    let reduce = |bytes| if ranks == 1 { 0.0 } else { network.all_reduce(bytes, ranks) };
    // A gather or a reduction to shards is half of an all-reduce.
    let gather = |bytes| reduce(bytes) / 2.0;
    let optimizer = match strategy {
        Strategy::DataParallel => profile.optimizer,
        Strategy::Zero | Strategy::FullySharded => profile.optimizer / ranks as f64,
    };
    let sharded = strategy == Strategy::FullySharded;
    // The forward pass of a sharded model ends when the last parameters have been gathered.
    let forward = if sharded { profile.forward.max(gather(all)) } else { profile.forward };
    let (mut now, mut free, mut busy) = (forward, forward, if sharded { gather(all) } else { 0.0 });
    for (seconds, bytes) in &profile.backward {
        now += seconds;
        // A sharded bucket is gathered for the backward pass, and its gradient reduced to its owner: the bytes of an all-reduce.
        let cost = reduce(*bytes);
        free = now.max(free) + cost;
        busy += cost;
    }
    let gathered = if strategy == Strategy::Zero { gather(all) } else { 0.0 };
    let total = now.max(free) + optimizer + gathered;
    Step { compute: profile.forward + backward + optimizer, communication: busy + gathered, total }
}

/// The efficiency for each power of two up to `ranks`, of one strategy.
pub fn scaling(profile: &Profile, network: Network, ranks: usize, strategy: Strategy) -> Vec<(usize, f64)> {
    let counts = (0..usize::BITS).map(|bit| 1usize << bit).take_while(|count| *count <= ranks);
    counts.map(|count| (count, simulate(profile, network, count, strategy).efficiency(profile))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_takes_the_longer_of_computation_and_communication() {
        let network = Network { latency: 0.0, bandwidth: 1e9 };
        let buckets = vec![(0.1, 50e6); 4];
        let profile = Profile { forward: 0.0, backward: buckets, optimizer: 0.0 };
        // 50 ms a bucket on two ranks: only the last one is not hidden.
        let step = simulate(&profile, network, 2, Strategy::DataParallel);
        assert!((step.total - 0.45).abs() < 1e-12 && (step.communication - 0.2).abs() < 1e-12, "{step:?}");
        let slow = simulate(&profile, Network { latency: 0.0, bandwidth: 1e8 }, 2, Strategy::DataParallel);
        assert!((slow.total - 2.1).abs() < 1e-12, "{slow:?}");
    }

    #[test]
    fn one_rank_alone_is_efficient() {
        let profile = Profile { forward: 0.1, backward: vec![(0.2, 1e6)], optimizer: 0.1 };
        let scaling = scaling(&profile, Network::ETHERNET, 1024, Strategy::DataParallel);
        assert_eq!((scaling.len(), scaling[0]), (11, (1, 1.0)));
        assert!(scaling.windows(2).all(|pair| pair[1].1 <= pair[0].1));
    }
}
