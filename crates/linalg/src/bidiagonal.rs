//! Singular values of bidiagonal matrices by implicit QR, with a shift of zero where a small value would lose its digits: Demmel and
//! Kahan, "Accurate singular values of bidiagonal matrices" (1990).

use crate::field::Field;
use crate::rotations::{Rotations, rotation_of};
use crate::scaling::Failure;

/// Sweeps for each singular value after which the iteration is given up.
const SWEEPS: usize = 60;
/// The relative error of a singular value: about a hundred rounding errors, as in LAPACK.
const TOLERANCE: f64 = 98.0 * f64::EPSILON / 2.0;

/// A part `low..=high` of the matrix without zeros right of the diagonal. Where `mirrored`, both orders are reversed, which gives an
/// upper bidiagonal matrix again, of the transpose.
#[derive(Clone, Copy)]
struct Part {
    low: usize,
    high: usize,
    mirrored: bool,
}

impl Part {
    /// The number of a row of the part.
    fn row(self, i: usize) -> usize {
        if self.mirrored { self.high - i } else { self.low + i }
    }

    /// The number of the element right of the diagonal in row `i` of the part.
    fn off(self, i: usize) -> usize {
        if self.mirrored { self.high - i - 1 } else { self.low + i }
    }

    /// The last row of the part.
    fn last(self) -> usize {
        self.high - self.low
    }
}

/// The rotations of left and right vectors.
struct Vectors<'a, 'b, T> {
    left: &'a mut Rotations<'b, T>,
    right: &'a mut Rotations<'b, T>,
}

impl<T: Field<Real = f64>> Vectors<'_, '_, T> {
    /// Rotates the vectors of rows `i` and `i + 1` of a part, from the left or from the right of the matrix.
    fn rotate(&mut self, part: Part, from_left: bool, i: usize, c: f64, s: f64) {
        let columns = [part.row(i), part.row(i + 1)];
        let side = if from_left == part.mirrored { &mut *self.right } else { &mut *self.left };
        side.rotate(columns, c, s);
    }
}

/// Makes the elements `e` right of the diagonal `d` negligible. The values on the diagonal are in no order, and may be negative.
pub(crate) fn iterate<'a, T: Field<Real = f64>>(
    d: &mut [f64],
    e: &mut [f64],
    left: &mut Rotations<'a, T>,
    right: &mut Rotations<'a, T>,
) -> Result<(), Failure> {
    if d.len() < 2 {
        return Ok(());
    }
    let mut vectors = Vectors { left, right };
    let threshold = absolute_threshold(d, e);
    let (mut high, mut before) = (d.len() - 1, None::<Part>);
    let mut sweeps = SWEEPS.saturating_mul(d.len());
    loop {
        let zero = |d: &mut [f64], e: &mut [f64], i: usize| {
            if d[i].abs() <= threshold {
                d[i] = 0.0;
            }
            let negligible = e[i].abs() <= threshold;
            if negligible {
                e[i] = 0.0;
            }
            negligible
        };
        while high > 0 && zero(d, e, high - 1) {
            high -= 1;
        }
        if high == 0 {
            return Ok(());
        }
        let mut low = high - 1;
        while low > 0 && !zero(d, e, low - 1) {
            low -= 1;
        }
        let known = before.filter(|old| old.low <= low && high <= old.high).map(|old| old.mirrored);
        let part = Part { low, high, mirrored: known.unwrap_or(d[low].abs() < d[high].abs()) };
        before = Some(part);
        let Some(smallest) = smallest_value(d, e, part) else { continue };
        if sweeps == 0 {
            return Err(Failure::NotConverged(e.iter().filter(|e| **e != 0.0).count()));
        }
        sweeps -= 1;
        match shift(d, e, part, smallest) {
            0.0 => sweep_without_shift(d, e, part, &mut vectors),
            shift => sweep(d, e, part, shift, &mut vectors),
        }
    }
}

/// What is negligible beside every singular value.
fn absolute_threshold(d: &[f64], e: &[f64]) -> f64 {
    let (mut bound, mut smallest) = (d[0].abs(), d[0].abs());
    for (d, e) in d[1..].iter().zip(e) {
        if smallest == 0.0 {
            break;
        }
        bound = d.abs() * (bound / (bound + e.abs()));
        smallest = smallest.min(bound);
    }
    let n = d.len() as f64;
    (TOLERANCE * smallest / n.sqrt()).max(6.0 * n * n * f64::MIN_POSITIVE)
}

/// A lower bound of the singular values of a part. `None` if an element was found negligible in the meantime, and is now 0.
fn smallest_value(d: &[f64], e: &mut [f64], part: Part) -> Option<f64> {
    let last = part.last();
    let end = part.off(last - 1);
    if e[end].abs() <= TOLERANCE * d[part.row(last)].abs() {
        e[end] = 0.0;
        return None;
    }
    let mut bound = d[part.row(0)].abs();
    let mut smallest = bound;
    for i in 0..last {
        let off = part.off(i);
        if e[off].abs() <= TOLERANCE * bound {
            e[off] = 0.0;
            return None;
        }
        bound = d[part.row(i + 1)].abs() * (bound / (bound + e[off].abs()));
        smallest = smallest.min(bound);
    }
    Some(smallest)
}

/// The shift, or 0 where it would cost the smallest value its digits.
fn shift(d: &[f64], e: &[f64], part: Part, smallest: f64) -> f64 {
    let last = part.last();
    let diagonal = (0..=last).map(|i| d[part.row(i)].abs());
    let largest = diagonal.chain((0..last).map(|i| e[part.off(i)].abs())).fold(0.0, f64::max);
    let count = d.len() as f64;
    if count * TOLERANCE * (smallest / largest) <= (f64::EPSILON / 2.0).max(0.01 * TOLERANCE) {
        return 0.0;
    }
    let shift = smaller_of_two(d[part.row(last - 1)], e[part.off(last - 1)], d[part.row(last)]);
    let start = d[part.row(0)].abs();
    let ratio = shift / start;
    if start > 0.0 && ratio * ratio < f64::EPSILON / 2.0 { 0.0 } else { shift }
}

/// The smaller singular value of `[[f, g], [0, h]]`: LAPACK's `las2`.
fn smaller_of_two(f: f64, g: f64, h: f64) -> f64 {
    let (small, large, g) = (f.abs().min(h.abs()), f.abs().max(h.abs()), g.abs());
    if small == 0.0 {
        return 0.0;
    }
    let (plus, minus) = (1.0 + small / large, (large - small) / large);
    if g < large {
        let square = (g / large).powi(2);
        return small * (2.0 / ((plus * plus + square).sqrt() + (minus * minus + square).sqrt()));
    }
    let ratio = large / g;
    if ratio == 0.0 {
        return small * large / g;
    }
    let root = |x: f64| (1.0 + (x * ratio).powi(2)).sqrt();
    2.0 * (small * (1.0 / (root(plus) + root(minus)))) * ratio
}

fn sweep_without_shift<T: Field<Real = f64>>(
    d: &mut [f64],
    e: &mut [f64],
    part: Part,
    vectors: &mut Vectors<'_, '_, T>,
) {
    let last = part.last();
    let (mut c, mut old_c, mut old_s) = (1.0, 1.0, 0.0);
    for i in 0..last {
        let (row, next) = (part.row(i), part.row(i + 1));
        let [cosine, sine, r] = rotation_of(d[row] * c, e[part.off(i)]);
        c = cosine;
        if i > 0 {
            e[part.off(i - 1)] = old_s * r;
        }
        [old_c, old_s, d[row]] = rotation_of(old_c * r, d[next] * sine);
        vectors.rotate(part, false, i, cosine, sine);
        vectors.rotate(part, true, i, old_c, old_s);
    }
    let h = d[part.row(last)] * c;
    d[part.row(last)] = h * old_c;
    e[part.off(last - 1)] = h * old_s;
}

fn sweep<T: Field<Real = f64>>(
    d: &mut [f64],
    e: &mut [f64],
    part: Part,
    shift: f64,
    vectors: &mut Vectors<'_, '_, T>,
) {
    let last = part.last();
    let start = d[part.row(0)];
    let mut f = (start.abs() - shift) * (1f64.copysign(start) + shift / start);
    let mut g = e[part.off(0)];
    for i in 0..last {
        let (row, next, off) = (part.row(i), part.row(i + 1), part.off(i));
        let [c, s, r] = rotation_of(f, g);
        if i > 0 {
            e[part.off(i - 1)] = r;
        }
        f = c * d[row] + s * e[off];
        e[off] = c * e[off] - s * d[row];
        g = s * d[next];
        d[next] *= c;
        vectors.rotate(part, false, i, c, s);
        let [c, s, r] = rotation_of(f, g);
        d[row] = r;
        f = c * e[off] + s * d[next];
        d[next] = c * d[next] - s * e[off];
        if i + 1 < last {
            let after = part.off(i + 1);
            g = s * e[after];
            e[after] *= c;
        }
        vectors.rotate(part, true, i, c, s);
    }
    e[part.off(last - 1)] = f;
}
