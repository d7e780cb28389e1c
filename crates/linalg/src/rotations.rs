//! Plane rotations, collected by the iterations on bidiagonal and tridiagonal matrices and applied to vectors later, many at once.
//!
//! The rows of a matrix of vectors are independent. So threads take panels of rows, each small enough for the cache while hundreds of
//! rotations pass over it: Van Zee, van de Geijn and Quintana-Orti, "Restructuring the tridiagonal and bidiagonal QR algorithms for
//! performance" (2014).

use crate::field::{Field, Real};
use crate::matrix::MatrixMut;
use crate::reflector::smallest_square;
use flambeau_gemm::scratch;
use flambeau_parallel::for_each_task;
use flambeau_vectorized::with_processor_vectors;

/// Rows of a panel.
const PANEL: usize = 32;
/// Rotations for each column that are collected before they are applied.
const COLLECTED: usize = 64;

/// Columns `x` and `y` become `c x + s y` and `c y - s x`.
#[derive(Clone, Copy, Debug)]
struct Rotation {
    x: usize,
    y: usize,
    c: f64,
    s: f64,
}

/// Rotations of the columns of a matrix, if there is one.
pub(crate) struct Rotations<'a, T> {
    matrix: Option<MatrixMut<'a, T>>,
    waiting: Vec<Rotation>,
}

impl<'a, T: Field> Rotations<'a, T> {
    /// Of the columns of `matrix`.
    pub(crate) fn new(matrix: Option<MatrixMut<'a, T>>) -> Self {
        Self { matrix, waiting: Vec::new() }
    }

    /// Rotates two columns, now or later.
    pub(crate) fn rotate(&mut self, [x, y]: [usize; 2], c: f64, s: f64) {
        let Some(matrix) = &self.matrix else { return };
        scratch::push(&mut self.waiting, Rotation { x, y, c, s });
        if self.waiting.len() >= COLLECTED * matrix.columns() {
            self.apply();
        }
    }

    /// Applies what is waiting.
    fn apply(&mut self) {
        let (Some(matrix), waiting) = (&mut self.matrix, &self.waiting) else { return };
        for_each_task(matrix.reborrow().panels(PANEL), |mut panel| {
            with_processor_vectors(
                #[inline(always)]
                || {
                    if panel.rows() == PANEL {
                        rotate_panel(&mut panel, waiting);
                    } else {
                        rotate_rows(&mut panel, waiting);
                    }
                },
            );
        });
        self.waiting.clear();
    }

    /// Orders columns so that column `i` is the former column `order[i]`, and negates those of `negated`, by their new numbers.
    pub(crate) fn finish(mut self, order: &[usize], negated: &[bool]) {
        self.apply();
        let Some(matrix) = &mut self.matrix else { return };
        let mut where_is = scratch::collect(0..order.len());
        let mut what_is_at = where_is.clone();
        for (to, from) in order.iter().enumerate() {
            let at = where_is[*from];
            if at != to {
                let (x, y) = matrix.two_columns(to, at);
                x.swap_with_slice(y);
                let displaced = what_is_at[to];
                (what_is_at[at], where_is[displaced]) = (displaced, at);
                (what_is_at[to], where_is[*from]) = (*from, to);
            }
            if negated[to] {
                matrix.column(to).iter_mut().for_each(|x| *x = -*x);
            }
        }
    }
}

/// Rotates panels of any number of rows.
#[inline(always)]
fn rotate_rows<T: Field>(panel: &mut MatrixMut<'_, T>, rotations: &[Rotation]) {
    for Rotation { x, y, c, s } in rotations {
        rotate_columns(panel, [*x, *y], *c, *s);
    }
}

/// Rotates two columns of a matrix.
#[inline(always)]
pub(crate) fn rotate_columns<T: Field>(a: &mut MatrixMut<'_, T>, [x, y]: [usize; 2], c: f64, s: f64) {
    let ((x, y), [c, s]) = (a.two_columns(x, y), [c, s].map(T::Real::from_f64));
    for (x, y) in x.iter_mut().zip(y) {
        (*x, *y) = (x.scaled(c) + y.scaled(s), y.scaled(c) - x.scaled(s));
    }
}

/// The same for [`PANEL`] rows. A rotation's second column is mostly the first one of the next rotation, and remains in registers until
/// then.
#[inline(always)]
fn rotate_panel<T: Field>(panel: &mut MatrixMut<'_, T>, rotations: &[Rotation]) {
    let (mut carried, mut column) = ([T::ZERO; PANEL], None);
    for Rotation { x, y, c, s } in rotations {
        if column != Some(*x) {
            if let Some(column) = column {
                store(&carried, panel.column(column));
            }
            load(panel.column(*x), &mut carried);
        }
        let (first, second) = panel.two_columns(*x, *y);
        let (Some(first), Some(second)) = (first.first_chunk_mut::<PANEL>(), second.first_chunk::<PANEL>())
        else {
            return;
        };
        let [c, s] = [*c, *s].map(T::Real::from_f64);
        for row in 0..PANEL {
            let (a, b) = (carried[row], second[row]);
            first[row] = a.scaled(c) + b.scaled(s);
            carried[row] = b.scaled(c) - a.scaled(s);
        }
        column = Some(*y);
    }
    if let Some(column) = column {
        store(&carried, panel.column(column));
    }
}

#[inline(always)]
fn load<T: Copy>(from: &[T], to: &mut [T; PANEL]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}

#[inline(always)]
fn store<T: Copy>(from: &[T; PANEL], to: &mut [T]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}

/// The rotation that maps `(f, g)` to `(r, 0)`: its cosine, its sine, and `r`.
pub(crate) fn rotation_of(f: f64, g: f64) -> [f64; 3] {
    if g == 0.0 {
        return [1.0, 0.0, f];
    }
    if f == 0.0 {
        return [0.0, 1f64.copysign(g), g.abs()];
    }
    let r = length(f, g).copysign(f);
    [f / r, g / r, r]
}

/// The root of the sum of squares. `hypot` takes several times as long, and is needed only near the ends of the range.
#[inline(always)]
pub(crate) fn length<R: Real>(f: R, g: R) -> R {
    let square = f * f + g * g;
    if square >= smallest_square::<R>() && square.is_finite() {
        square.sqrt()
    } else {
        R::Complex::from_parts(f, g).magnitude()
    }
}

/// The numbers of `0..values.len()` in the order of the values, equal ones as they were.
pub(crate) fn order_of(values: &[f64], descending: bool) -> Vec<usize> {
    let mut order = scratch::collect(0..values.len());
    let compare = |a: &usize, b: &usize| values[*a].total_cmp(&values[*b]);
    // Stable by the number, without the buffer of a stable sort.
    order.sort_unstable_by(|a, b| {
        let first = if descending { compare(b, a) } else { compare(a, b) };
        first.then(a.cmp(b))
    });
    order
}

/// Value `i` becomes the former value `order[i]`.
pub(crate) fn permute(values: &mut [f64], order: &[usize]) {
    let permuted = scratch::collect(order.iter().map(|from| values[*from]));
    values.copy_from_slice(&permuted);
}
