//! The simulator beside measured runs on 2 and 4 ranks, whose computation is a time that is waited and whose network is slowed down to
//! stated figures, so that more ranks than processors can run beside each other.

use crate::job::{self, Job};
use crate::overlap::{shortest, shortest_step};
use flambeau_core::{Result, ensure};
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
    Case { compute: 0.04, network: Network { latency: 0.002, bandwidth: 40e6 }, counts: &[100_000; 12] },
    Case { compute: 0.02, network: Network { latency: 0.002, bandwidth: 10e6 }, counts: &[100_000; 12] },
    // Many short messages.
    Case { compute: 0.01, network: Network { latency: 0.015, bandwidth: 1e9 }, counts: &[500; 24] },
    // One large gradient at the end of the backward pass, and small ones.
    Case {
        compute: 0.03,
        network: Network { latency: 0.001, bandwidth: 20e6 },
        counts: &[800_000, 10_000, 10_000, 10_000, 200_000, 200_000, 10_000, 10_000],
    },
];

/// How far the simulator may be from a measured step.
const LIMIT: f64 = 0.15;

pub(crate) fn run(quick: bool) -> Result<String> {
    let (mut worst, mut count): (f64, usize) = (0.0, 0);
    for case in if quick { &CASES[..2] } else { &CASES[..] } {
        for size in [2, 4] {
            let counts: Vec<String> = case.counts.iter().map(i64::to_string).collect();
            let job = Job::new("simulated", size).set(COMPUTE, case.compute).set(COUNTS, counts.join(" "));
            let job = job.set(LATENCY, case.network.latency).set(BANDWIDTH, case.network.bandwidth);
            let predicted = case.predicted(size);
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
    fn predicted(&self, size: usize) -> f64 {
        // The last parameter has its gradient first.
        let backward = self.counts.iter().rev().map(|count| (self.compute, *count as f64 * 4.0)).collect();
        let profile = Profile { forward: 0.0, backward, optimizer: 0.0 };
        simulate(&profile, self.network, size, Strategy::DataParallel).total
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
    let seconds = shortest_step(group, &counts, job::number(COMPUTE)?)?;
    job::report(rank, &seconds.to_string())
}
