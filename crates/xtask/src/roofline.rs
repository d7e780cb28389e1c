//! The roofline model: the minimum time of a workload on this machine, by the bytes it moves, its arithmetic and its calls.

use std::collections::BTreeMap;
use std::error::Error;

use serde::Deserialize;

use crate::bench::median;
use crate::root;

/// The measured speed of the machine: bandwidths in gigabytes per second, and the peak in billions of operations per second.
#[derive(Clone, Copy, Deserialize)]
pub(crate) struct Machine {
    call_ns: f64,
    l2: f64,
    l3: f64,
    memory: f64,
    f32: f64,
    f64: f64,
}

impl Machine {
    /// The median of several measurements.
    pub(crate) fn median(all: &[Self]) -> Option<Self> {
        let of = |get: fn(&Self) -> f64| median(all.iter().map(get));
        (!all.is_empty()).then(|| Self {
            call_ns: of(|m| m.call_ns),
            l2: of(|m| m.l2),
            l3: of(|m| m.l3),
            memory: of(|m| m.memory),
            f32: of(|m| m.f32),
            f64: of(|m| m.f64),
        })
    }

    fn peak(&self, rate: Rate) -> f64 {
        match rate {
            Rate::F32 => self.f32,
            Rate::F64 => self.f64,
            Rate::Bf16 => 2.0 * self.f32,
        }
    }

    fn traffic(&self, bytes: f64) -> f64 {
        let Self { l2, l3, memory, .. } = self;
        if bytes <= IN_L2 { bytes / l2 } else { bytes.min(IN_L3) / l3 + (bytes - IN_L3).max(0.0) / memory }
    }

    /// The measured values, as a line of text.
    pub(crate) fn describe(&self) -> String {
        let Self { call_ns, l2, l3, memory, f32, f64 } = self;
        format!(
            "{l2:.0} GB/s in L2, {l3:.0} in L3, {memory:.1} in memory; {f32:.0} GFLOP/s in f32, {f64:.0} in f64; \
             {call_ns:.1} ns a call"
        )
    }
}

/// The minimum work of a workload.
#[derive(Clone, Copy)]
struct Cost {
    bytes: f64,
    flops: f64,
    calls: f64,
    /// The peak of its arithmetic, relative to that of f32.
    rate: Rate,
}

#[derive(Clone, Copy)]
enum Rate {
    F32,
    F64,
    /// Twice that of f32, if there are instructions for bf16.
    Bf16,
}

/// The minimum times of all workloads. The speed of the machine changes with time, so each workload has its own measurement.
pub(crate) struct Floors {
    machines: BTreeMap<String, Machine>,
    costs: BTreeMap<String, Cost>,
}

const COSTS: &str = "crates/flambeau/benches/workloads/costs.tsv";
/// Up to so many bytes are moved at the bandwidth of L2; further bytes up to `IN_L3` at that of L3, and the rest at that of memory,
/// since the first ones may still be in the caches from the previous call.
const IN_L2: f64 = 1048576.0;
const IN_L3: f64 = 33554432.0;

impl Floors {
    pub(crate) fn new() -> Result<Self, Box<dyn Error>> {
        let text = std::fs::read_to_string(root().join(COSTS))?;
        let rows = text.lines().filter(|line| !line.starts_with('#')).skip(1);
        let costs = rows.map(|line| cost(line).map_err(|error| format!("{COSTS}: `{line}`: {error}").into()));
        Ok(Floors { machines: BTreeMap::new(), costs: costs.collect::<Result<_, Box<dyn Error>>>()? })
    }

    /// Sets the speed of the machine when the workload ran.
    pub(crate) fn set_machine(&mut self, workload: &str, machine: Machine) {
        self.machines.insert(workload.to_owned(), machine);
    }

    fn known(&self, workload: &str) -> Option<(&Machine, &Cost)> {
        Some((self.machines.get(workload)?, self.costs.get(workload)?))
    }

    /// The minimum time in nanoseconds.
    pub(crate) fn of(&self, workload: &str) -> Option<f64> {
        let (machine, cost) = self.known(workload)?;
        let arithmetic = cost.flops / machine.peak(cost.rate);
        Some(machine.traffic(cost.bytes).max(arithmetic) + cost.calls * machine.call_ns)
    }

    /// The gigabytes per second of a workload that took this time, and their share of the memory bandwidth, which is above 1 if the
    /// operands are in cache.
    pub(crate) fn bandwidth(&self, workload: &str, nanoseconds: f64) -> Option<(f64, f64)> {
        let (machine, cost) = self.known(workload)?;
        let rate = cost.bytes / nanoseconds;
        Some((rate, rate / machine.memory))
    }

    /// The billions of operations per second, and their share of the peak.
    pub(crate) fn arithmetic(&self, workload: &str, nanoseconds: f64) -> Option<(f64, f64)> {
        let (machine, cost) = self.known(workload)?;
        let rate = cost.flops / nanoseconds;
        Some((rate, rate / machine.peak(cost.rate)))
    }
}

fn cost(line: &str) -> Result<(String, Cost), Box<dyn Error>> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [name, bytes, flops, calls, rate] = fields[..] else { return Err("expected five fields".into()) };
    let rate = match rate {
        "f32" => Rate::F32,
        "f64" => Rate::F64,
        "bf16" => Rate::Bf16,
        other => return Err(format!("no type {other}").into()),
    };
    Ok((name.to_owned(), Cost { bytes: bytes.parse()?, flops: flops.parse()?, calls: calls.parse()?, rate }))
}
