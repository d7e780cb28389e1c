//! Eigenvalues of symmetric tridiagonal matrices by implicit QL or QR with Wilkinson's shift.

use crate::field::Field;
use crate::rotations::{Rotations, length};
use crate::scaling::Failure;

/// Sweeps for each eigenvalue after which the iteration is given up.
const SWEEPS: usize = 30;

/// A part `low..=high` of a tridiagonal matrix without zeros off the diagonal, and the end that is worked on.
#[derive(Clone, Copy)]
struct Part {
    low: usize,
    high: usize,
    /// From the upper end: QL in terms of rows from `high` up to `low`; else mirrored, which is QR.
    from_top: bool,
}

impl Part {
    /// Row `i`, counted from the end at which eigenvalues are found.
    fn row(self, i: usize) -> usize {
        if self.from_top { self.low + i } else { self.high - i }
    }

    /// The number of the element off the diagonal between rows `i` and `i + 1`, counted from the same end.
    fn between(self, i: usize) -> usize {
        if self.from_top { self.low + i } else { self.high - i - 1 }
    }
}

/// Makes the elements `e` off the diagonal `d` negligible. The eigenvalues on the diagonal are in no order.
pub(crate) fn iterate<T: Field>(
    d: &mut [f64],
    e: &mut [f64],
    rotations: &mut Rotations<'_, T>,
) -> Result<(), Failure> {
    let (mut high, mut before) = (d.len() - 1, None::<Part>);
    let mut left = SWEEPS.saturating_mul(d.len());
    loop {
        while high > 0 && is_negligible(d, e, high - 1) {
            high -= 1;
        }
        if high == 0 {
            return Ok(());
        }
        let mut low = high - 1;
        while low > 0 && !is_negligible(d, e, low - 1) {
            low -= 1;
        }
        // An end is chosen for each part anew, but not within it: the smaller end first keeps small eigenvalues accurate.
        let known = before.filter(|old| old.low <= low && high <= old.high).map(|old| old.from_top);
        let part = Part { low, high, from_top: known.unwrap_or(d[low].abs() <= d[high].abs()) };
        before = Some(part);
        if left == 0 {
            return Err(Failure::NotConverged(e.iter().filter(|e| **e != 0.0).count()));
        }
        left -= 1;
        sweep(d, e, part, rotations);
    }
}

/// Whether an element off the diagonal is below the rounding errors of its neighbours; then it becomes 0.
fn is_negligible(d: &[f64], e: &mut [f64], i: usize) -> bool {
    let bound = f64::EPSILON / 2.0 * d[i].abs().sqrt() * d[i + 1].abs().sqrt() + 1e-154;
    let negligible = e[i].abs() <= bound;
    if negligible {
        e[i] = 0.0;
    }
    negligible
}

/// One implicit step with Wilkinson's shift: Parlett, "The symmetric eigenvalue problem" (1980), 8.12.
fn sweep<T: Field>(d: &mut [f64], e: &mut [f64], part: Part, rotations: &mut Rotations<'_, T>) {
    let last = part.high - part.low;
    let (first, second) = (part.row(0), part.row(1));
    let half = (d[second] - d[first]) / (2.0 * e[part.between(0)]);
    let root = length(half, 1.0).copysign(half);
    let mut g = d[part.row(last)] - d[first] + e[part.between(0)] / (half + root);
    let (mut s, mut c, mut p) = (1.0, 1.0, 0.0);
    for i in (0..last).rev() {
        let (row, next) = (part.row(i), part.row(i + 1));
        let (f, b) = (s * e[part.between(i)], c * e[part.between(i)]);
        let r = length(f, g);
        if i + 1 < last {
            e[part.between(i + 1)] = r;
        }
        if r == 0.0 {
            // The matrix has split here.
            d[next] -= p;
            return;
        }
        (s, c) = (f / r, g / r);
        g = d[next] - p;
        let t = (d[row] - g) * s + 2.0 * c * b;
        p = s * t;
        d[next] = g + p;
        g = c * t - b;
        rotations.rotate([next, row], c, s);
    }
    d[first] -= p;
    e[part.between(0)] = g;
}
