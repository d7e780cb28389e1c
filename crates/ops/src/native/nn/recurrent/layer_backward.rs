//! The derivative of `_recurrent_layer`: one kernel from the last step to the first, and one product for the weight.

use super::cell_rows::{Cell, Columns, Input, Step, run};
use super::factor::Factor;
use super::gates::{check_type, dense, suit_kernel, sum_of};
use super::layer::{Sequences, nothing, rows_at, with_first_rows};
use super::slopes::by_tanh;
use super::steps::{Sum, part, part_mut};
use super::{Kind, gru, lstm};
use crate::gemm::GemmElement;
use crate::native::guarded_slices::with_slices;
use crate::native::shape::view::alias;
use crate::structured::TensorSpec;
use crate::vectorized::{EveryIsa, Float};
use crate::{Tensor, dispatch_all_types, ops, scratch};
use bytemuck::Pod;
use flambeau_core::{MemoryFormat, Result, Scalar, ensure};
use smallvec::SmallVec;

const NAME: &str = "_recurrent_layer_backward";
const ONE: Scalar = Scalar::Int(1);

/// The gradients of `input_gates`, the weight, its bias, `hx` and `cx`.
type Gradients = (Tensor, Tensor, Tensor, Tensor, Tensor);

/// The gradients of [`super::recurrent_layer`]'s arguments. One that `output_mask` does not request has no elements.
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn recurrent_layer_backward(
    grad_output: Option<&Tensor>,
    grad_hy: Option<&Tensor>,
    grad_cy: Option<&Tensor>,
    grad_cells: Option<&Tensor>,
    grad_workspace: Option<&Tensor>,
    weight: &Tensor,
    hx: &Tensor,
    cx: Option<&Tensor>,
    output: &Tensor,
    cells: &Tensor,
    workspace: &Tensor,
    batch_sizes: &[i64],
    mode: i64,
    reverse: bool,
    output_mask: [bool; 5],
) -> Result<Gradients> {
    let [grad_cy, grad_cells, grad_workspace] =
        [grad_cy, grad_cells, grad_workspace].map(|grad| grad.filter(|grad| grad.numel() > 0));
    let grads = [grad_output, grad_hy, grad_cy, grad_cells, grad_workspace];
    let saved = [Some(hx), cx, Some(output), Some(cells), Some(workspace)];
    let operands = [&grads[..], &saved].concat();
    check_type(NAME, weight, &operands)?;
    let sequences = Sequences::new(NAME, hx, batch_sizes, mode, reverse)?;
    let steps = Steps { weight, output, cells, workspace, before: None, sequences };
    steps.check(grads, cx)?;
    let steps = Steps {
        before: match cx {
            Some(cx) => Some(steps.sequences.before(cx, cells)?),
            None => None,
        },
        ..steps
    };
    let has_kernel = suit_kernel(weight, &operands) && grad_cells.is_none() && grad_workspace.is_none();
    let shown = start(grad_hy, hx, has_kernel)?;
    // The other networks do not read a memory.
    let memory = if cx.is_some() { start(grad_cy, hx, has_kernel)? } else { shown.clone() };
    let states = [shown, memory];
    let made = if has_kernel {
        steps.in_kernel(grad_output, states)?
    } else {
        steps.composed(grad_output, states, [grad_cells, grad_workspace])?
    };
    let [of_input, of_state, of_hx, of_cx] = made;
    let [needs_input, needs_weight, needs_bias, needs_hx, needs_cx] = output_mask;
    let requested = |is_needed: bool, grad: Tensor| if is_needed { Ok(grad) } else { nothing(NAME, hx) };
    let of_weight = if needs_weight {
        ops::_linear_weight_backward(&of_state, &steps.sequences.before(hx, output)?)?
    } else {
        nothing(NAME, hx)?
    };
    let of_bias = if needs_bias {
        ops::sum_dim_intlist(&of_state, Some(&[0]), false, None)?
    } else {
        nothing(NAME, hx)?
    };
    Ok((
        requested(needs_input, of_input)?,
        of_weight,
        of_bias,
        requested(needs_hx, of_hx)?,
        requested(needs_cx && cx.is_some(), of_cx)?,
    ))
}

/// The gradient of a state at the end, or zeros: `is_written` says that it becomes that at the beginning.
fn start(grad: Option<&Tensor>, hx: &Tensor, is_written: bool) -> Result<Tensor> {
    match grad {
        Some(grad) if is_written => ops::clone(grad, Some(MemoryFormat::Contiguous)),
        Some(grad) => Ok(grad.clone()),
        None => ops::zeros_like(hx, None, None, None, None, Some(MemoryFormat::Contiguous)),
    }
}

/// What the steps are differentiated by.
struct Steps<'a> {
    weight: &'a Tensor,
    output: &'a Tensor,
    cells: &'a Tensor,
    workspace: &'a Tensor,
    /// For `lstm`, what is remembered before each step.
    before: Option<Tensor>,
    sequences: Sequences,
}

impl Steps<'_> {
    fn check(&self, grads: [Option<&Tensor>; 5], cx: Option<&Tensor>) -> Result<()> {
        let s = &self.sequences;
        let [grad_output, grad_hy, grad_cy, grad_cells, grad_workspace] = grads;
        s.check_weight(NAME, self.weight)?;
        s.check_memory(NAME, cx)?;
        s.check(NAME, "output", self.output, s.total, 1)?;
        for (which, grad) in [("grad_hy", grad_hy), ("grad_cy", grad_cy)] {
            grad.map_or(Ok(()), |grad| s.check(NAME, which, grad, s.batch, 1))?;
        }
        grad_output.map_or(Ok(()), |grad| s.check(NAME, "grad_output", grad, s.total, 1))?;
        let [cells, gates] = s.saved_parts();
        let of_saved = [
            ("cells", Some(self.cells), cells),
            ("grad_cells", grad_cells, cells),
            ("workspace", Some(self.workspace), gates),
            ("grad_workspace", grad_workspace, gates),
        ];
        for (which, tensor, parts) in of_saved {
            if let Some(tensor) = tensor.filter(|_| parts > 0) {
                s.check(NAME, which, tensor, s.total, parts)?;
            }
        }
        Ok(())
    }

    /// The gradients of the products of inputs and states, which are the same but for `gru`, and of the states before the first steps, by
    /// operators that have derivatives.
    fn composed(
        &self,
        grad_output: Option<&Tensor>,
        [mut shown, mut memory]: [Tensor; 2],
        [grad_cells, grad_workspace]: [Option<&Tensor>; 2],
    ) -> Result<[Tensor; 4]> {
        let kind = self.sequences.kind;
        let of_saved = match (grad_workspace, kind) {
            (Some(grad), Kind::Lstm) => vec![lstm::lstm_workspace_backward(grad, self.workspace)?],
            (Some(grad), Kind::Gru) => gru::gru_workspace_backward(grad, self.workspace)?.into(),
            _ => vec![],
        };
        let (mut of_input, mut of_state) = (Vec::new(), Vec::new());
        for rows in self.sequences.steps.iter().rev() {
            let at = |tensor: &Tensor| rows_at(tensor, rows);
            let ends = 0..rows.len();
            let mut grad = rows_at(&shown, &ends)?;
            if let Some(all) = grad_output {
                grad = (at(all)? + grad)?;
            }
            let plus_saved = |sum: Tensor, nr: usize| match of_saved.get(nr) {
                Some(all) => sum + at(all)?,
                None => Ok(sum),
            };
            let (by_sum, kept) = match (kind, &self.before) {
                (Kind::Lstm, Some(before)) => {
                    let of_memory = sum_of(Some(rows_at(&memory, &ends)?), grad_cells.map(at).transpose()?)?;
                    let (gates, of_before, _) = ops::_thnn_fused_lstm_cell_backward_impl(
                        Some(&grad),
                        of_memory.as_ref(),
                        &at(before)?,
                        &at(self.cells)?,
                        &at(self.workspace)?,
                        false,
                    )?;
                    memory = with_first_rows(&memory, &of_before)?;
                    (plus_saved(gates, 0)?, None)
                }
                (Kind::Gru, _) => {
                    let (by_input, by_sum, kept, _, _) =
                        ops::_thnn_fused_gru_cell_backward(&grad, &at(self.workspace)?, false)?;
                    of_input.push(plus_saved(by_input, 0)?);
                    (plus_saved(by_sum, 1)?, Some(plus_saved(kept, 2)?))
                }
                (Kind::Relu, _) => (ops::threshold_backward(&grad, &at(self.output)?, Scalar::Int(0))?, None),
                _ => (ops::tanh_backward(&grad, &at(self.output)?)?, None),
            };
            let of_before = match &kept {
                Some(kept) => ops::addmm(kept, &by_sum, self.weight, ONE, ONE)?,
                None => ops::mm(&by_sum, self.weight)?,
            };
            shown = with_first_rows(&shown, &of_before)?;
            of_state.push(by_sum);
        }
        let joined = |mut of: Vec<Tensor>| {
            of.reverse();
            self.sequences.joined(of)
        };
        let of_state = joined(of_state)?;
        let of_input = if kind == Kind::Gru { joined(of_input)? } else { of_state.clone() };
        Ok([of_input, of_state, shown, memory])
    }

    /// The same by the kernel; `states` are new and contiguous.
    fn in_kernel(&self, grad_output: Option<&Tensor>, states: [Tensor; 2]) -> Result<[Tensor; 4]> {
        let kind = self.sequences.kind;
        let [total, columns] = [self.sequences.total as i64, self.weight.size(0)?];
        let made = || TensorSpec::like(self.weight, &[total, columns]).allocate(NAME);
        let of_input = made()?;
        let [shown, memory] = states;
        let of_state = if kind == Kind::Gru { made()? } else { of_input.clone() };
        let mut reads: SmallVec<[Tensor; 5]> = SmallVec::new();
        match (kind, &self.before) {
            (Kind::Lstm, Some(before)) => {
                reads.extend([dense(before)?, dense(self.cells)?, dense(self.workspace)?]);
            }
            (Kind::Gru, _) => reads.push(dense(self.workspace)?),
            _ => reads.push(dense(self.output)?),
        }
        let saved = reads.len();
        reads.push(alias(self.weight)?);
        if let Some(grad) = grad_output {
            reads.push(dense(grad)?);
        }
        let read: SmallVec<[&Tensor; 5]> = reads.iter().collect();
        let mut written: SmallVec<[&Tensor; 3]> = SmallVec::from_slice(&[&of_input, &shown]);
        match kind {
            Kind::Lstm => written.push(&memory),
            Kind::Gru => written.push(&of_state),
            _ => (),
        }
        with_slices(NAME, &read, &written, |slices| {
            dispatch_all_types!(floats, of_input.dtype(), NAME, T => {
                let weight = Factor::new(NAME, slices.read::<T>(saved)?, read[saved])?;
                let grad_output = match grad_output {
                    Some(_) => Some(slices.read::<T>(saved + 1)?),
                    None => None,
                };
                let saved = (0..saved).map(|nr| slices.read::<T>(nr)).collect::<Result<_>>()?;
                let also = if written.len() > 2 { slices.write::<T>(2)? } else { &mut [] };
                let (gates, shown) = (slices.write::<T>(0)?, slices.write::<T>(1)?);
                self.all_steps(Operands { weight, grad_output, saved, gates, shown, also })
            })
        })?;
        drop(written);
        Ok([of_input, of_state, shown, memory])
    }

    /// Whether all rows of all steps are there.
    fn fits<T: GemmElement>(&self, operands: &Operands<'_, T>) -> bool {
        let Sequences { kind, total, batch, hidden: n, .. } = self.sequences;
        let gates = kind.gates() as usize * n;
        let lengths = |parts: &[usize]| {
            operands.saved.iter().map(|of| of.len()).eq(parts.iter().map(|parts| parts * total * n))
        };
        let (saved, also) = match kind {
            Kind::Lstm => (lengths(&[1, 1, 4]), batch * n),
            Kind::Gru => (lengths(&[5]), total * gates),
            Kind::Tanh | Kind::Relu => (lengths(&[1]), 0),
        };
        saved
            && operands.weight.sizes() == [gates, n]
            && operands.grad_output.is_none_or(|grad| grad.len() == total * n)
            && operands.gates.len() == total * gates
            && operands.shown.len() == batch * n
            && operands.also.len() == also
    }

    fn all_steps<T: GemmElement + Pod + Send + Sync>(&self, operands: Operands<'_, T>) -> Result<()>
    where
        Step<T, Sum, 2, 1>: EveryIsa,
        Step<T, lstm::Backward, 5, 2>: EveryIsa,
        Step<T, gru::Backward, 2, 3>: EveryIsa,
        Step<T, TanhBackward, 2, 1>: EveryIsa,
        Step<T, ReluBackward, 2, 1>: EveryIsa,
    {
        ensure!(self.fits(&operands), Internal(NAME), "expected the rows of all steps");
        let Sequences { kind, batch, hidden: n, .. } = self.sequences;
        let Operands { weight, grad_output, saved, gates: of_input, shown, also } = operands;
        let gates = weight.sizes()[0];
        let mut grads = scratch::filled(T::zeroed(), batch * n);
        let mut next = scratch::filled(T::zeroed(), batch * n);
        for rows in self.sequences.steps.iter().rev() {
            let (sizes, count) = ([rows.len(), n], rows.len() * n);
            let (shown, grad, next) = (&mut shown[..count], &mut grads[..count], &mut next[..count]);
            match grad_output {
                Some(all) => {
                    let from = [Input::of_rows(part(all, rows, n)), Input::of_rows(shown)];
                    run(NAME, Sum, sizes, from, [&mut *grad])?;
                }
                None => grad.copy_from_slice(shown),
            }
            let grad = Input::of_rows(grad);
            let saved = |nr: usize, parts: usize| Input::of_rows(part(saved[nr], rows, parts * n));
            let of_input = part_mut(of_input, rows, gates);
            match kind {
                Kind::Lstm => {
                    let memory = &mut also[..count];
                    let from = [grad, Input::of_rows(memory), saved(0, 1), saved(1, 1), saved(2, 4)];
                    run(NAME, lstm::Backward::OF_BOTH, sizes, from, [&mut *of_input, &mut *next])?;
                    memory.copy_from_slice(next);
                }
                Kind::Gru => {
                    let of_state = part_mut(also, rows, gates);
                    let to = [of_input, &mut *of_state, &mut *next];
                    run(NAME, gru::Backward, sizes, [grad, saved(0, 5)], to)?;
                    weight.multiply(of_state, shown, Some((next, [n, 1])))?;
                    continue;
                }
                Kind::Tanh => run(NAME, TanhBackward, sizes, [grad, saved(0, 1)], [&mut *of_input])?,
                Kind::Relu => run(NAME, ReluBackward, sizes, [grad, saved(0, 1)], [&mut *of_input])?,
            }
            weight.multiply(of_input, shown, None)?;
        }
        Ok(())
    }
}

/// The elements of the operands of the kernel.
struct Operands<'g, T> {
    weight: Factor<'g, T>,
    grad_output: Option<&'g [T]>,
    saved: SmallVec<[&'g [T]; 3]>,
    /// The gradient of the products of inputs.
    gates: &'g mut [T],
    /// The gradient of what is shown.
    shown: &'g mut [T],
    /// For `lstm` the gradient of what is remembered, and for `gru` that of the products of states.
    also: &'g mut [T],
}

/// The gradient of the sum, from those of the state of `rnn_tanh` and the state.
#[derive(Clone, Copy)]
struct TanhBackward;

impl Cell<2, 1> for TanhBackward {
    const READS: [usize; 2] = [1, 1];
    const WRITES: [usize; 1] = [1];

    #[inline(always)]
    fn step<V: Float>(self, at: &mut impl Columns<V>) {
        let grad = by_tanh(at.read(0, 0), at.read(1, 0));
        at.write(0, 0, grad);
    }
}

/// The same for `rnn_relu`.
#[derive(Clone, Copy)]
struct ReluBackward;

impl Cell<2, 1> for ReluBackward {
    const READS: [usize; 2] = [1, 1];
    const WRITES: [usize; 1] = [1];

    #[inline(always)]
    fn step<V: Float>(self, at: &mut impl Columns<V>) {
        let (grad, state) = (at.read(0, 0), at.read(1, 0));
        at.write(0, 0, V::select(state.le(V::zero()), V::zero(), grad));
    }
}
