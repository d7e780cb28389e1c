//! Runs a launch: blocks one after the other, the warps of a block until all wait or have ended, the lanes of a warp in lock step.
//!
//! A warp is a list of splits: lanes that are at the same instruction. The split that is at the lowest instruction runs, and splits
//! that meet become one, so that lanes converge again behind a branch.

mod access;
mod control;
mod floats;
mod integers;
mod lanes;
mod warp_ops;

use crate::fault::{Fault, Status};
use crate::instruction::{Kernel, Program, Special};
use crate::memory::Memory;
use crate::settings::Order;
use access::Spaces;
use control::{State, Warp, WarpSplit};
use lanes::LANES;

pub(crate) use lanes::RegisterFile;

/// What a launch names.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) dynamic_shared: u32,
    /// The parameters, as the kernel reads them.
    pub(crate) parameters: Vec<u8>,
}

/// The limits of a device.
pub(crate) const MAX_THREADS: u32 = 1024;
pub(crate) const MAX_SHARED: u32 = 227 << 10;

impl Launch {
    pub(crate) fn threads(&self) -> u32 {
        self.block.iter().product()
    }

    /// Whether a device can run it.
    pub(crate) fn check(&self, program: &Program, kernel: &Kernel) -> Result<(), Fault> {
        let sizes = self.grid.iter().chain(&self.block);
        let threads = self.block.iter().fold(1u64, |all, size| all.saturating_mul(u64::from(*size)));
        let max_threads = u64::from(kernel.max_threads.unwrap_or(MAX_THREADS).min(MAX_THREADS));
        let fail = |status, text: String| Err(Fault::new(status, format!("{}: {text}", kernel.name)));
        if sizes.into_iter().any(|size| *size == 0) {
            return fail(
                Status::ERROR_INVALID_VALUE,
                format!("a launch of {:?} blocks of {:?}", self.grid, self.block),
            );
        }
        if threads > max_threads || self.block[2] > 64 {
            return fail(
                Status::ERROR_INVALID_VALUE,
                format!("expected at most {max_threads} threads in a block but got {:?}", self.block),
            );
        }
        if self.grid[0] > i32::MAX as u32 || self.grid[1] > 65535 || self.grid[2] > 65535 {
            return fail(Status::ERROR_INVALID_VALUE, format!("a grid of {:?} blocks", self.grid));
        }
        if program.shared_bytes.saturating_add(self.dynamic_shared) > MAX_SHARED {
            return fail(
                Status::ERROR_INVALID_VALUE,
                format!("{} and {} bytes of shared memory", program.shared_bytes, self.dynamic_shared),
            );
        }
        Ok(())
    }
}

/// What a launch runs on, beside its arguments.
pub(crate) struct Environment<'a> {
    pub(crate) memory: &'a mut Memory,
    pub(crate) order: &'a mut Order,
    /// Whether unordered accesses to shared memory are faults.
    pub(crate) races: bool,
    /// Instructions of a warp after which a launch is taken to run forever.
    pub(crate) steps: u64,
    /// Registers of warps of the same program, which are used again.
    pub(crate) files: &'a mut Vec<RegisterFile>,
}

/// Runs a launch to its end.
///
/// # Errors
/// What a thread does wrong first, with the line of PTX and the thread.
pub(crate) fn run(
    program: &Program,
    kernel: &Kernel,
    launch: &Launch,
    on: Environment<'_>,
) -> Result<(), Fault> {
    launch.check(program, kernel)?;
    let total: u64 = launch.grid.iter().map(|size| u64::from(*size)).product();
    let blocks = on.order.permutation(total);
    let spaces =
        Spaces { memory: on.memory, parameters: &launch.parameters, shared: access::Shared::default() };
    let mut runner = Runner {
        program,
        kernel,
        launch,
        spaces,
        order: on.order,
        races: on.races,
        steps: on.steps,
        files: on.files,
    };
    for i in 0..total {
        let index = blocks.at(i);
        let (x, y) = (u64::from(launch.grid[0]), u64::from(launch.grid[1]));
        runner.run_block([index % x, index / x % y, index / (x * y)].map(|i| i as u32))?;
    }
    Ok(())
}

/// A launch that runs.
struct Runner<'a> {
    program: &'a Program,
    kernel: &'a Kernel,
    launch: &'a Launch,
    spaces: Spaces<'a>,
    order: &'a mut Order,
    races: bool,
    steps: u64,
    files: &'a mut Vec<RegisterFile>,
}

impl Runner<'_> {
    fn run_block(&mut self, block: [u32; 3]) -> Result<(), Fault> {
        let shared = self.program.shared_bytes + self.launch.dynamic_shared;
        self.spaces.shared.reset(shared as usize, self.races);
        let count = u64::from(self.launch.threads().div_ceil(LANES as u32));
        let warps = self.order.permutation(count);
        if !self.program.has_barriers {
            for i in 0..count {
                let mut warp = self.warp(block, warps.at(i) as u32);
                self.run_warp(&mut warp, block)?;
                self.check_end(&warp, block)?;
                self.files.push(warp.file);
            }
            return Ok(());
        }
        let mut all: Vec<Warp> = (0..count).map(|i| self.warp(block, warps.at(i) as u32)).collect();
        while all.iter().any(|warp| !warp.splits.is_empty()) {
            for warp in &mut all {
                self.run_warp(warp, block)?;
            }
            let mut waiting = all.iter_mut().flat_map(|warp| &mut warp.splits);
            if waiting.all(|split| split.state == State::Barrier) {
                self.spaces.shared.pass_barrier();
                all.iter_mut().flat_map(|warp| &mut warp.splits).for_each(WarpSplit::resume);
            } else {
                all.iter().try_for_each(|warp| self.check_end(warp, block))?;
            }
        }
        self.files.extend(all.into_iter().map(|warp| warp.file));
        Ok(())
    }

    /// A fault if lanes wait for others that do not come. They have run as far as they can.
    fn check_end(&self, warp: &Warp, block: [u32; 3]) -> Result<(), Fault> {
        let Some(stuck) = warp.splits.iter().find(|split| split.state != State::Barrier) else {
            return Ok(());
        };
        let text = "waits for lanes that end, or that wait elsewhere".to_owned();
        let fault = Fault::new(Status::ERROR_LAUNCH_TIMEOUT, text);
        Err(self.located(fault, stuck.pc, (block, warp.index, stuck.mask.trailing_zeros() as usize)))
    }

    /// A fault with the position in the program, and the thread.
    #[cold]
    fn located(&self, fault: Fault, pc: u32, (block, warp, lane): ([u32; 3], u32, usize)) -> Fault {
        let line = self.program.code.get(pc as usize).map_or(0, |instruction| instruction.line);
        let thread = self.thread(warp * LANES as u32 + lane as u32);
        let text = self.program.source.lines().nth((line as usize).saturating_sub(1)).unwrap_or_default();
        let kernel = &self.kernel.name;
        let text = format!(
            "{kernel}, line {line} of its PTX (`{}`), thread {thread:?} of block {block:?}: {}",
            text.trim().replace('\t', " "),
            fault.text
        );
        Fault::new(fault.status, text)
    }

    /// The index of a thread in its block, by dimension.
    fn thread(&self, number: u32) -> [u32; 3] {
        let [x, y, _] = self.launch.block;
        [number % x, number / x % y, number / (x * y)]
    }

    /// A warp at the start of the kernel.
    fn warp(&mut self, block: [u32; 3], index: u32) -> Warp {
        let registers = &self.program.registers;
        let mut file = self.files.pop().unwrap_or_else(|| RegisterFile::new(registers));
        file.carry = 0;
        for (special, register) in &registers.specials {
            let row = std::array::from_fn(|lane| self.special(*special, block, index, lane as u32));
            file.put(*register, u32::MAX, row);
        }
        let first = index * LANES as u32;
        let count = (self.launch.threads() - first).min(LANES as u32);
        let mask = u32::MAX >> (LANES as u32 - count);
        let local = vec![0xff; self.program.local_bytes as usize * LANES];
        Warp {
            index,
            file,
            local,
            splits: vec![WarpSplit::new(self.kernel.start, mask)],
            live: mask,
            steps: 0,
        }
    }

    fn special(&self, special: Special, block: [u32; 3], warp: u32, lane: u32) -> u32 {
        let at = |of: [u32; 3], dimension: u8| of.get(usize::from(dimension)).copied().unwrap_or(0);
        match special {
            Special::ThreadIndex(d) => at(self.thread(warp * LANES as u32 + lane), d),
            Special::BlockSize(d) => at(self.launch.block, d),
            Special::BlockIndex(d) => at(block, d),
            Special::GridSize(d) => at(self.launch.grid, d),
            Special::Lane => lane,
            Special::Warp => warp,
            Special::Warps => self.launch.threads().div_ceil(LANES as u32),
            Special::LanesEqual => 1 << lane,
            Special::LanesBelow => (1 << lane) - 1,
            Special::LanesUpTo => u32::MAX >> (31 - lane),
            Special::LanesAbove => u32::MAX << lane << 1,
            Special::LanesFrom => u32::MAX << lane,
            Special::DynamicSharedBytes => self.launch.dynamic_shared,
            Special::TotalSharedBytes => self.program.shared_bytes + self.launch.dynamic_shared,
            Special::Zero => 0,
        }
    }
}
