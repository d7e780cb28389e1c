//! The results of a step, written by the kernel.

use super::cell_rows::{Cell, Input, run};
use super::gates::{dense, rows_of};
use crate::native::guarded_slices::with_slices;
use crate::{Tensor, dispatch_all_types};
use flambeau_core::Result;
use smallvec::{SmallVec, smallvec};

/// Writes the results of a step from the products of input and state, the state and the biases.
pub(super) fn fill<C: Cell<5, M>, const M: usize>(
    name: &'static str,
    cell: C,
    [input, hidden]: [&Tensor; 2],
    state: &Tensor,
    biases: [Option<&Tensor>; 2],
    made: [&Tensor; M],
) -> Result<()> {
    let mut operands: SmallVec<[Tensor; 5]> = smallvec![dense(input)?, dense(hidden)?, dense(state)?];
    // The cell does not read a bias that is absent, for which any operand may stand.
    let mut at = [0, 1, 2, 0, 0];
    for (k, bias) in biases.into_iter().enumerate() {
        if let Some(bias) = bias {
            at[3 + k] = operands.len();
            operands.push(dense(bias)?);
        }
    }
    let reads: SmallVec<[&Tensor; 5]> = operands.iter().collect();
    let sizes = rows_of(state);
    with_slices(name, &reads, &made, |s| {
        dispatch_all_types!(floats, state.dtype(), name, T => {
            let mut from = [Input { elements: &[][..], is_repeated: false }; 5];
            for (k, input) in from.iter_mut().enumerate() {
                *input = Input { elements: s.read::<T>(at[k])?, is_repeated: k > 2 };
            }
            let mut to: [&mut [T]; M] = std::array::from_fn(|_| &mut [][..]);
            for (k, to) in to.iter_mut().enumerate() {
                *to = s.write::<T>(k)?;
            }
            run(name, cell, sizes, from, to)
        })
    })
}
