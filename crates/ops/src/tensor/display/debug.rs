//! `{:?}`: sizes, type, device and a few values, for `dbg!` and failed assertions. It calls no operator, waits for nobody, and never fails.

use super::number::Numbers;
use super::options::PrintOptions;
use super::summary::Summary;
use crate::Tensor;
use crate::tensor::elements::Elements;
use flambeau_core::Result;
use std::fmt;

/// Few enough values for a line or two. The process's options are not for this: a program that prints all of its tensors does not
/// need all of them in its messages.
const OPTIONS: PrintOptions =
    PrintOptions { precision: 4, threshold: 24, edgeitems: 2, linewidth: 100, sci_mode: None };

/// A tensor of more dimensions has too many corners to show a few values of each.
const MOST_DIMS: usize = 6;

/// Sizes, type, device and values, in one line, or with `{:#?}` as they are printed. Values that cannot be read at once, since somebody
/// is writing them or they are on another device, are replaced by the reason.
///
/// ```
/// use flambeau_ops::Tensor;
/// let t = Tensor::from([[1.0f32, 2.5], [3.0, 4.0]]);
/// assert_eq!(format!("{t:?}"), "Tensor([2, 2], float32, cpu, [[1.0000, 2.5000], [3.0000, 4.0000]])");
/// assert_eq!(format!("{:?}", Tensor::from([7i64; 100])), "Tensor([100], int64, cpu, [7, 7, ..., 7, 7])");
/// ```
impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = values(self).unwrap_or_else(|e| format!("<{e}>"));
        let values =
            if f.alternate() { format!("\n    {values}") } else { format!(" {}", in_one_line(&values)) };
        write!(f, "Tensor({:?}, {}, {},{values})", self.sizes(), self.dtype(), self.device())
    }
}

fn values(tensor: &Tensor) -> Result<String> {
    if tensor.numel() == 0 {
        return Ok("[]".to_owned());
    }
    if tensor.dim() > MOST_DIMS {
        return Ok("[...]".to_owned());
    }
    crate::dispatch_all_types!(stored, tensor.dtype(), "Debug", T => {
        let summary = Summary::new(&Elements::<T>::try_new(tensor)?, &OPTIONS);
        let numbers = Numbers::new(&summary.values, tensor.dtype(), &OPTIONS);
        Ok(summary.text(&numbers, 4, OPTIONS.linewidth))
    })
}

/// The text of values without line breaks, and without the spaces that align numbers.
fn in_one_line(values: &str) -> String {
    let words: Vec<&str> = values.split_whitespace().collect();
    words.join(" ").replace("[ ", "[")
}
