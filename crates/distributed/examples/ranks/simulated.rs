//! The simulator beside measured runs on 2 and 4 ranks: it gets the profile of one rank that runs alone, and the figures of the network.
//!
//! The computation of a gradient is a time that is waited, and the network is slowed down to stated figures, so that more ranks than there are
//! processors can run beside each other.

use crate::job::{self, Job};
use crate::overlap::{Chain, shortest, shortest_step, single_buckets};
use flambeau_core::{Result, ensure, error};
use flambeau_distributed::data_parallel::profile;
use flambeau_distributed::simulate::{Network, Profile, Strategy, simulate};

const COMPUTE: &str = "FLAMBEAU_RANKS_COMPUTE";
const LATENCY: &str = "FLAMBEAU_RANKS_LATENCY";
const BANDWIDTH: &str = "FLAMBEAU_RANKS_BANDWIDTH";
const COUNTS: &str = "FLAMBEAU_RANKS_COUNTS";

/// Seconds of computation for each gradient, the network, and the elements of the gradients.
struct Case {
    compute: f64,
    network: Network,
    counts: &'static [i64],
}

const CASES: [Case; 4] = [
    // Bytes that the computation hides, and those that it does not.
    Case { compute: 0.1, network: Network { latency: 0.005, bandwidth: 16e6 }, counts: &[100_000; 12] },
    Case { compute: 0.05, network: Network { latency: 0.005, bandwidth: 4e6 }, counts: &[100_000; 12] },
    // Many short messages.
    Case { compute: 0.03, network: Network { latency: 0.04, bandwidth: 1e9 }, counts: &[500; 24] },
    // One large gradient at the end of the backward pass, and small ones.
    Case {
        compute: 0.08,
        network: Network { latency: 0.003, bandwidth: 8e6 },
        counts: &[800_000, 10_000, 10_000, 10_000, 200_000, 200_000, 10_000, 10_000],
    },
];

/// How far the simulator may be from a measured step.
const LIMIT: f64 = 0.15;

pub(crate) fn run(quick: bool) -> Result<String> {
    let (mut worst, mut count): (f64, usize) = (0.0, 0);
    for case in if quick { &CASES[..2] } else { &CASES[..] } {
        let profile = case.profile()?;
        for size in [2, 4] {
            let job = case.job(size);
            let predicted = simulate(&profile, case.network, size, Strategy::DataParallel).total;
            let measured = shortest(&job, predicted / (1.0 - LIMIT))?;
            let error = (predicted / measured - 1.0).abs();
            ensure!(
                error <= LIMIT,
                Internal,
                "{size} ranks, {:?}: simulated {predicted:.3} s but measured {measured:.3} s",
                case.network
            );
            (worst, count) = (worst.max(error), count + 1);
        }
    }
    Ok(format!("{count} measured steps on 2 and 4 ranks, the simulator within {:.1} %", worst * 100.0))
}

impl Case {
    fn job(&self, size: usize) -> Job<'static> {
        let counts: Vec<String> = self.counts.iter().map(i64::to_string).collect();
        let job = Job::new("simulated", size).set(COMPUTE, self.compute).set(COUNTS, counts.join(" "));
        job.set(LATENCY, self.network.latency).set(BANDWIDTH, self.network.bandwidth)
    }

    /// The backward pass of one rank, without the forward pass and the optimizer, as the steps are measured.
    fn profile(&self) -> Result<Profile> {
        let report = self.job(1).run()?.remove(0);
        let mut numbers = report
            .split(' ')
            .map(|number| number.parse().map_err(|_| error!(Internal, "no profile: {report:?}")));
        let mut backward = Vec::new();
        while let (Some(seconds), Some(bytes)) = (numbers.next(), numbers.next()) {
            backward.push((seconds?, bytes?));
        }
        Ok(Profile { forward: 0.0, backward, optimizer: 0.0 })
    }
}

pub(crate) fn rank() -> Result<()> {
    let network = Network { latency: job::number(LATENCY)?, bandwidth: job::number(BANDWIDTH)? };
    let counts = job::setting(COUNTS)?;
    let counts: Vec<i64> = counts.split(' ').filter_map(|count| count.parse().ok()).collect();
    let mut options = job::options(60.0);
    options.network = Some(network);
    let group = job::group(options)?;
    let rank = group.rank();
    if group.size() == 1 {
        let chain = Chain::new(&counts, job::number(COMPUTE)?)?;
        let measured = shortest_profile(&chain)?;
        let pairs: Vec<String> =
            measured.backward.iter().map(|(seconds, bytes)| format!("{seconds} {bytes}")).collect();
        return job::report(rank, &pairs.join(" "));
    }
    let seconds = shortest_step(group, &counts, job::number(COMPUTE)?)?;
    job::report(rank, &seconds.to_string())
}

/// The profile of the shortest of some backward passes.
fn shortest_profile(chain: &Chain) -> Result<Profile> {
    let seconds = |profile: &Profile| profile.backward.iter().map(|(seconds, _)| seconds).sum::<f64>();
    let measure = || profile(&chain.0, &single_buckets(), || chain.loss(), || Ok(()));
    let mut shortest = measure()?;
    for _ in 0..4 {
        let other = measure()?;
        if seconds(&other) < seconds(&shortest) {
            shortest = other;
        }
    }
    Ok(shortest)
}
