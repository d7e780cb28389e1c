//! All steps of a layer in one direction by one kernel, which multiplies states and computes cells.

use super::cell_rows::{Cell, Columns, Input, Step, run};
use super::factor::Factor;
use super::gates::dense;
use super::{Kind, gru, lstm};
use crate::gemm::GemmElement;
use crate::native::guarded_slices::{Slices, with_slices};
use crate::native::shape::view::alias;
use crate::structured::TensorSpec;
use crate::vectorized::{EveryIsa, Float};
use crate::{Tensor, dispatch_all_types, ops, scratch};
use bytemuck::Pod;
use flambeau_core::{DimVec, MemoryFormat, Result, ensure, fallible};
use smallvec::SmallVec;
use std::ops::Range;

/// Elements of the weight, times steps, from which on a copy costs less than to pack them in each step.
const WORTH_A_COPY: usize = 1 << 14;

/// What the steps of a layer in one direction have in common.
pub(super) struct Layer<'a> {
    pub(super) kind: Kind,
    /// Of the state: `[gates * hidden, hidden]`.
    pub(super) weight: &'a Tensor,
    /// What is added to the product of the state.
    pub(super) bias: Option<&'a Tensor>,
    /// The number of sequences.
    pub(super) batch: usize,
    pub(super) hidden: usize,
    /// The rows of each step, in the order of computation: as many as sequences are that long, of which the longest are first.
    pub(super) steps: Vec<Range<usize>>,
}

impl Layer<'_> {
    /// What all steps show, from the products of all inputs, one row for each sequence of a step.
    ///
    /// Part `index` of each of `states`, `[.., batch, hidden]`, which are new and contiguous, is the state before the first step, and becomes
    /// that after the last one of each sequence. `saved` are new and contiguous too: for `lstm` what is remembered after each step and the
    /// gates, and for `gru` what [`super::fused_gru_cell`] saves, after a tensor that is not used.
    pub(super) fn run(
        &self,
        products: &Tensor,
        states: &[Tensor],
        index: usize,
        saved: Option<[&Tensor; 2]>,
    ) -> Result<Tensor> {
        let mut sizes = DimVec::from_slice(products.sizes());
        if let Some(last) = sizes.last_mut() {
            *last = self.hidden as i64;
        }
        let made = TensorSpec::like(products, &sizes).allocate(self.kind.name())?;
        self.fill(&made, products, states, index, saved)?;
        Ok(made)
    }

    fn fill(
        &self,
        made: &Tensor,
        products: &Tensor,
        states: &[Tensor],
        index: usize,
        saved: Option<[&Tensor; 2]>,
    ) -> Result<()> {
        let (name, count) = (self.kind.name(), states.len());
        let (products, weight) = (dense(products)?, alias(self.weight)?);
        let by_columns = self.by_columns()?;
        let bias = self.bias.map(alias).transpose()?;
        let weights = [&weight, by_columns.as_ref().unwrap_or(&weight)];
        let mut reads: SmallVec<[&Tensor; 4]> = SmallVec::from_slice(&[&products, weights[0], weights[1]]);
        reads.extend(&bias);
        let mut writes: SmallVec<[&Tensor; 5]> = std::iter::once(made).chain(states).collect();
        writes.extend(saved.into_iter().flatten());
        with_slices(name, &reads, &writes, |slices| {
            dispatch_all_types!(floats, made.dtype(), name, T => {
                let factors = [
                    Factor::new(name, slices.read::<T>(1)?, weights[0])?.transposed(),
                    Factor::new(name, slices.read::<T>(2)?, weights[1])?.transposed(),
                ];
                let bias = match &bias {
                    Some(bias) => Some((slices.read::<T>(3)?, [0, bias.strides().first().map_or(1, |s| *s as usize)])),
                    None => None,
                };
                let saved = match saved {
                    Some(_) => Some([slices.write(1 + count)?, slices.write(2 + count)?]),
                    None => None,
                };
                let states = self.states(slices, count, index)?;
                let operands = Operands { products: slices.read(0)?, outputs: slices.write(0)?, states, saved };
                self.all_steps(factors, bias, operands)
            })
        })
    }

    /// The weight with adjacent columns, if products of several rows would pack it in each step; the sums are the same.
    fn by_columns(&self) -> Result<Option<Tensor>> {
        let work = (self.weight.numel() as usize).saturating_mul(self.steps.len().saturating_sub(1));
        let is_packed = self.batch > 1
            && self.weight.strides().first() != Some(&1)
            && !self.weight.dtype().is_reduced_floating_point();
        let transposed = || ops::clone(&ops::t(self.weight)?, Some(MemoryFormat::Contiguous))?.t();
        if is_packed && work >= WORTH_A_COPY { transposed().map(Some) } else { Ok(None) }
    }

    /// Part `index` of the outputs after the first.
    fn states<'g, T: Pod>(&self, slices: &Slices<'g>, count: usize, index: usize) -> Result<States<'g, T>> {
        let part = |nr: usize| {
            let all = slices.write::<T>(1 + nr)?;
            Ok(all.chunks_exact_mut((self.batch * self.hidden).max(1)).nth(index).unwrap_or_default())
        };
        (0..count).map(part).collect()
    }

    /// Whether all rows of all steps are there.
    fn fits<T>(&self, operands: &Operands<'_, T>, sizes: [usize; 2]) -> bool {
        let (n, total) = (self.hidden, self.steps.iter().map(|rows| rows.end).max().unwrap_or(0));
        let saved = match (&operands.saved, self.kind) {
            (Some([cells, gates]), Kind::Lstm) => cells.len() == total * n && gates.len() == total * 4 * n,
            (Some([_, workspace]), Kind::Gru) => workspace.len() == total * 5 * n,
            _ => true,
        };
        saved
            && sizes == [n, self.kind.gates() as usize * n]
            && operands.products.len() == total * sizes[1]
            && operands.outputs.len() == total * n
            && self.steps.iter().all(|rows| rows.len() <= self.batch)
            && operands.states.len() == self.kind.states()
            && operands.states.iter().all(|state| state.len() == self.batch * n)
    }

    /// `factors` are for products of one row, and of several.
    fn all_steps<T: GemmElement + Pod + Send + Sync>(
        &self,
        factors: [Factor<'_, T>; 2],
        bias: Option<(&[T], [usize; 2])>,
        mut operands: Operands<'_, T>,
    ) -> Result<()>
    where
        Step<T, lstm::Forward, 5, 3>: EveryIsa,
        Step<T, lstm::WithoutGates, 5, 2>: EveryIsa,
        Step<T, gru::Forward, 5, 2>: EveryIsa,
        Step<T, gru::WithoutGates, 5, 1>: EveryIsa,
        Step<T, Sum, 2, 1>: EveryIsa,
        Step<T, Tanh, 1, 1>: EveryIsa,
        Step<T, ReluOfSum, 2, 1>: EveryIsa,
    {
        let (name, n, gates) = (self.kind.name(), self.hidden, factors[0].sizes()[1]);
        ensure!(
            self.fits(&operands, factors[0].sizes()),
            Internal(name),
            "expected the rows of steps of at most {} sequences",
            self.batch
        );
        let mut of_state = scratch::filled(T::zeroed(), self.batch * gates);
        let mut memory =
            scratch::filled(T::zeroed(), if self.kind == Kind::Lstm { self.batch * n } else { 0 });
        for rows in &self.steps {
            let (sizes, count) = ([rows.len(), n], rows.len() * n);
            let of_state = &mut of_state[..rows.len() * gates];
            let factor = if rows.len() == 1 { factors[0] } else { factors[1] };
            factor.multiply(&operands.states[0][..count], of_state, bias)?;
            let shown = part_mut(operands.outputs, rows, n);
            let (of_input, of_state) =
                (Input::of_rows(part(operands.products, rows, gates)), Input::of_rows(of_state));
            let from = |state| [of_input, of_state, Input::of_rows(state), of_input, of_input];
            match (self.kind, &mut operands.saved) {
                (Kind::Lstm, Some([cells, workspace])) => {
                    let (cells, workspace) = (part_mut(cells, rows, n), part_mut(workspace, rows, 4 * n));
                    let from = from(&operands.states[1][..count]);
                    run(name, lstm::Forward::UNBIASED, sizes, from, [&mut *shown, &mut *cells, workspace])?;
                    operands.states[1][..count].copy_from_slice(cells);
                }
                (Kind::Lstm, None) => {
                    let (memory, from) = (&mut memory[..count], from(&operands.states[1][..count]));
                    run(name, lstm::WithoutGates::UNBIASED, sizes, from, [&mut *shown, &mut *memory])?;
                    operands.states[1][..count].copy_from_slice(memory);
                }
                (Kind::Gru, saved) => {
                    let from = from(&operands.states[0][..count]);
                    match saved {
                        Some([_, workspace]) => {
                            let to = [&mut *shown, part_mut(workspace, rows, 5 * n)];
                            run(name, gru::Forward::UNBIASED, sizes, from, to)?;
                        }
                        None => run(name, gru::WithoutGates::UNBIASED, sizes, from, [&mut *shown])?,
                    }
                }
                (Kind::Tanh, _) => {
                    // The sum is rounded before, as that of the operators is.
                    let state = &mut operands.states[0][..count];
                    run(name, Sum, sizes, [of_input, of_state], [&mut *state])?;
                    run(name, Tanh, sizes, [Input::of_rows(state)], [&mut *shown])?;
                }
                (Kind::Relu, _) => run(name, ReluOfSum, sizes, [of_input, of_state], [&mut *shown])?,
            }
            operands.states[0][..count].copy_from_slice(shown);
        }
        Ok(())
    }
}

/// What is shown, and for `lstm` what is remembered: a row for each sequence.
type States<'g, T> = SmallVec<[&'g mut [T]; 2]>;

/// The elements of the arguments of [`Layer::run`].
struct Operands<'g, T> {
    products: &'g [T],
    outputs: &'g mut [T],
    states: States<'g, T>,
    saved: Option<[&'g mut [T]; 2]>,
}

/// The rows of steps of so many each, in the order of computation.
pub(super) fn steps_of(counts: impl Iterator<Item = usize>, backwards: bool) -> Result<Vec<Range<usize>>> {
    let mut steps = fallible::with_capacity(counts.size_hint().0)?;
    let mut start = 0;
    for count in counts {
        steps.push(start..start + count);
        start += count;
    }
    if backwards {
        steps.reverse();
    }
    Ok(steps)
}

/// Rows of `n` elements.
pub(super) fn part<'a, T>(all: &'a [T], rows: &Range<usize>, n: usize) -> &'a [T] {
    &all[rows.start * n..rows.end * n]
}

/// [`part`] of what is written.
pub(super) fn part_mut<'a, T>(all: &'a mut [T], rows: &Range<usize>, n: usize) -> &'a mut [T] {
    &mut all[rows.start * n..rows.end * n]
}

/// `a + b`.
#[derive(Clone, Copy)]
pub(super) struct Sum;

impl Cell<2, 1> for Sum {
    const READS: [usize; 2] = [1, 1];
    const WRITES: [usize; 1] = [1];

    #[inline(always)]
    fn step<V: Float>(self, at: &mut impl Columns<V>) {
        let sum = at.read(0, 0) + at.read(1, 0);
        at.write(0, 0, sum);
    }
}

/// The state of `rnn_tanh` from the sum.
#[derive(Clone, Copy)]
struct Tanh;

impl Cell<1, 1> for Tanh {
    const READS: [usize; 1] = [1];
    const WRITES: [usize; 1] = [1];

    #[inline(always)]
    fn step<V: Float>(self, at: &mut impl Columns<V>) {
        let state = at.read(0, 0).tanh();
        at.write(0, 0, state);
    }
}

/// The state of `rnn_relu`, which has the same bits whether the sum is rounded before or after.
#[derive(Clone, Copy)]
struct ReluOfSum;

impl Cell<2, 1> for ReluOfSum {
    const READS: [usize; 2] = [1, 1];
    const WRITES: [usize; 1] = [1];

    #[inline(always)]
    fn step<V: Float>(self, at: &mut impl Columns<V>) {
        let state = (at.read(0, 0) + at.read(1, 0)).maximum(V::zero());
        at.write(0, 0, state);
    }
}
