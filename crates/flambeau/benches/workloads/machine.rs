//! Measures the machine: bandwidth of caches and memory, multiplications, the cost of a call. `cargo xtask bench` computes lower
//! bounds of times from these. It takes about a second, and prints one JSON object.
#![expect(unsafe_code, reason = "functions for instruction sets that were found at run time")]

use flambeau_ops::vectorized::{
    CodegenAnchor, EveryIsa, Float, FloatLanes, Isa, Kernel, Lanes, Number, Vector, dispatch,
};
use std::hint::black_box;
use std::ops::Range;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Working sets of one thread in the L2 and L3 cache, and of all threads in memory; in bytes.
const LEVELS: [(&str, usize); 3] = [("l2", 512 << 10), ("l3", 8 << 20), ("memory", 256 << 20)];
const EACH: Duration = Duration::from_millis(160);
const RUNS: usize = 16;

/// Measures with `threads` threads at once.
pub(super) fn measure(threads: usize) -> String {
    let mut fields = vec![format!("\"call_ns\": {:.2}", call_ns())];
    for (name, bytes) in LEVELS {
        let share = if name == "l2" { bytes } else { bytes / threads };
        let read = together(threads, || Read(Lines::new(share)));
        let copy = together(threads, || Copy(Lines::new(share / 2), Lines::new(share / 2)));
        fields.push(format!("\"{name}\": {:.3}", read.max(copy)));
    }
    fields.push(format!("\"f32\": {:.3}", together(threads, || Fma(0.999f32))));
    fields.push(format!("\"f64\": {:.3}", together(threads, || Fma(0.999f64))));
    format!("{{{}}}", fields.join(", "))
}

/// Something done again and again: `run` returns how many bytes it moved, or operations it did.
trait Work: Send {
    fn run(&mut self) -> f64;
}

/// Billions a second of all threads together: they begin a run at the same time, and the median run counts, as of the workloads.
fn together<W: Work>(threads: usize, make: impl Fn() -> W) -> f64 {
    let works: Vec<W> = (0..threads).map(|_| make()).collect();
    let begin = Barrier::new(threads);
    let rates: Vec<[f64; RUNS]> = std::thread::scope(|scope| {
        let running: Vec<_> = works.into_iter().map(|work| scope.spawn(|| runs(work, &begin))).collect();
        running.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let mut all: Vec<f64> = (0..RUNS).map(|run| rates.iter().map(|rates| rates[run]).sum()).collect();
    all.sort_by(f64::total_cmp);
    all[RUNS / 2]
}

/// What one thread does in each run, of all together [`EACH`].
fn runs(mut work: impl Work, begin: &Barrier) -> [f64; RUNS] {
    std::array::from_fn(|_| {
        begin.wait();
        let (start, mut amount) = (Instant::now(), 0.0);
        while start.elapsed() < EACH / RUNS as u32 {
            amount += work.run();
        }
        amount / start.elapsed().as_nanos() as f64
    })
}

/// Numbers in a cache line.
const LINE: usize = 16;

/// Numbers whose first begins a line: a vector that lay in two would be read at half the pace.
struct Lines {
    room: Vec<f32>,
    start: usize,
}

impl Lines {
    fn new(bytes: usize) -> Self {
        let room = vec![1.0; bytes / 4 + LINE];
        let start = room.as_ptr().align_offset(4 * LINE).min(LINE);
        Self { room, start }
    }

    fn range(&self) -> Range<usize> {
        self.start..self.start + self.room.len() - LINE
    }

    fn get(&self) -> &[f32] {
        &self.room[self.range()]
    }

    fn get_mut(&mut self) -> &mut [f32] {
        let range = self.range();
        &mut self.room[range]
    }
}

struct Read(Lines);

impl Work for Read {
    fn run(&mut self) -> f64 {
        let numbers = self.0.get();
        // SAFETY: the processor has the set that was found.
        unsafe { dispatch(Sum(black_box(numbers))) };
        size_of_val(numbers) as f64
    }
}

/// Adds up numbers in eight vectors.
struct Sum<'a>(&'a [f32]);

impl CodegenAnchor for Sum<'_> {
    type Anchor = Self;
}

impl<I: Isa> Kernel<I> for Sum<'_>
where
    f32: FloatLanes<I>,
{
    #[inline(always)]
    unsafe fn run(self) {
        let lanes = <f32 as Lanes<I>>::Vector::LANES;
        let mut sums = [<f32 as Lanes<I>>::Vector::zero(); 8];
        for part in self.0.chunks_exact(8 * lanes) {
            for (sum, numbers) in sums.iter_mut().zip(part.chunks_exact(lanes)) {
                // SAFETY: as many numbers as a vector has.
                *sum = *sum + unsafe { <f32 as Lanes<I>>::load(numbers.as_ptr()) };
            }
        }
        black_box(sums);
    }
}

struct Copy(Lines, Lines);

impl Work for Copy {
    fn run(&mut self) -> f64 {
        self.1.get_mut().copy_from_slice(black_box(self.0.get()));
        2.0 * size_of_val(black_box(self.1.get())) as f64
    }
}

/// So many independent chains of vectors hide the latency of a multiplication.
const CHAINS: usize = 12;
const STEPS: usize = 4096;

/// Multiplications and additions of numbers that stay in registers.
#[derive(Clone)]
struct Fma<T>(T);

impl<T: Send + Clone> Work for Fma<T>
where
    Fma<T>: EveryIsa<f64>,
{
    fn run(&mut self) -> f64 {
        // SAFETY: the processor has the set that was found.
        unsafe { dispatch(black_box(self.clone())) }
    }
}

impl<T> CodegenAnchor for Fma<T> {
    type Anchor = Self;
}

/// Returns how many operations these were.
impl<I: Isa, T: FloatLanes<I>> Kernel<I, f64> for Fma<T> {
    #[inline(always)]
    unsafe fn run(self) -> f64 {
        let by = T::Vector::splat(self.0.widen());
        let mut chains = [by; CHAINS];
        for _ in 0..STEPS {
            for chain in &mut chains {
                *chain = chain.mul_add(by, by);
            }
        }
        black_box(chains);
        (2 * CHAINS * T::Vector::LANES * STEPS) as f64
    }
}

/// One small allocation and one call through a pointer: what a tensor operation takes at least.
fn call_ns() -> f64 {
    let call: &dyn Fn(u64) -> Box<[u64; 16]> = black_box(&|x| Box::new([x; 16]));
    let mut best = f64::INFINITY;
    for _ in 0..20 {
        let start = Instant::now();
        for i in 0..10_000 {
            black_box(call(i));
        }
        best = best.min(start.elapsed().as_nanos() as f64 / 1e4);
    }
    best
}
