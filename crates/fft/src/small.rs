//! The arithmetic of short transforms, on vectors: each lane is a transform of its own.
//!
//! The length is a product of 2, 4 and odd primes, one stage for each (Stockham): after a stage, the transforms of the elements at
//! distances of `rest` are done, and element k of that which begins at s is at `k * rest + s`. The next one makes `radix` of them one: the
//! elements k of the q-th, times `exp(-2 pi i q k / (radix * done))`, are transformed as the definition says. So the last one leaves the
//! elements in order.

use crate::cache;
use crate::error::OutOfMemory;
use crate::float::Float;
use crate::plan::Direction;
use flambeau_vectorized::Float as Lanes;
use std::f64::consts::TAU;
use std::sync::Arc;

/// The longest rows that are transformed in lanes. It is a power of two, so that indices need no checks.
pub(crate) const LONGEST: usize = 16;

/// A complex number in each lane, parts apart.
pub(crate) type Number<V> = [V; 2];

/// The elements of a row in each lane.
pub(crate) type Row<V> = [Number<V>; LONGEST];

/// One stage of a transform.
#[derive(Debug, Clone, Copy)]
struct Stage {
    radix: usize,
    /// The length of the transforms before it.
    done: usize,
    /// How many transforms there are after it.
    rest: usize,
}

/// The stages of a transform forwards, and the roots of unity.
#[derive(Debug)]
pub(crate) struct Small<T> {
    length: usize,
    stages: Vec<Stage>,
    /// `exp(-2 pi i k / length)`.
    roots: [[T; 2]; LONGEST],
}

impl<T: Float> Small<T> {
    /// That of a length from 1 to [`LONGEST`], from the cache if it is there.
    pub(crate) fn of(length: usize) -> Result<Arc<Self>, OutOfMemory> {
        cache::find_or_make(length, Direction::Forward, || Ok((Self::new(length), size_of::<Self>())))
    }

    fn new(length: usize) -> Self {
        let mut roots = [[T::ZERO; 2]; LONGEST];
        for (k, to) in roots.iter_mut().enumerate().take(length) {
            let [cos, sin] = root(k, length);
            *to = [T::from_f64(cos), T::from_f64(-sin)];
        }
        let (mut stages, mut done) = (vec![], 1);
        while done < length {
            let rest = length / done;
            let radix = [4, 2].into_iter().chain(3..=rest).find(|radix| rest.is_multiple_of(*radix));
            let radix = radix.unwrap_or(rest);
            stages.push(Stage { radix, done, rest: rest / radix });
            done *= radix;
        }
        Small { length, stages, roots }
    }

    /// How many elements a row has.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Transforms forwards the elements in the first of two buffers, to the one that is returned.
    #[inline(always)]
    pub(crate) fn transform<'a, V: Lanes>(
        &self,
        [mut from, mut to]: [&'a mut Row<V>; 2],
        splat: impl Fn(T) -> V,
    ) -> &'a mut Row<V> {
        for stage in &self.stages {
            self.run(*stage, from, to, &splat);
            (from, to) = (to, from);
        }
        from
    }

    #[inline(always)]
    fn run<V: Lanes>(&self, stage: Stage, from: &Row<V>, to: &mut Row<V>, splat: impl Fn(T) -> V) {
        let root = inlined(
            #[inline(always)]
            |k: usize| {
                let [re, im] = self.roots[k % LONGEST];
                [splat(re), splat(im)]
            },
        );
        match stage.radix {
            2 => stage.run(
                from,
                to,
                root,
                #[inline(always)]
                |elements| two(elements),
            ),
            4 => stage.run(
                from,
                to,
                root,
                #[inline(always)]
                |elements| four(elements),
            ),
            3 => stage.run_odd(3, from, to, root, self.length),
            5 => stage.run_odd(5, from, to, root, self.length),
            radix => stage.run_odd(radix, from, to, root, self.length),
        }
    }
}

/// A closure, of which an attribute is possible as an argument only.
#[inline(always)]
fn inlined<V, F: Fn(usize) -> Number<V>>(f: F) -> F {
    f
}

/// `exp(2 pi i a / b)` for a below b, computed in the nearest octant, so that it is correctly rounded or nearly so.
fn root(a: usize, b: usize) -> [f64; 2] {
    if 2 * a > b {
        let [cos, sin] = root(b - a, b);
        [cos, -sin]
    } else if 4 * a > b {
        let [cos, sin] = root(b - 2 * a, 2 * b);
        [-cos, sin]
    } else if 8 * a > b {
        let [cos, sin] = root(b - 4 * a, 4 * b);
        [sin, cos]
    } else {
        let (sin, cos) = (TAU * a as f64 / b as f64).sin_cos();
        [cos, sin]
    }
}

impl Stage {
    /// The stage with a transform of `R` elements.
    #[inline(always)]
    fn run<V: Lanes, const R: usize>(
        self,
        from: &Row<V>,
        to: &mut Row<V>,
        root: impl Fn(usize) -> Number<V>,
        short: impl Fn([Number<V>; R]) -> [Number<V>; R],
    ) {
        for k in 0..self.done {
            for s in 0..self.rest {
                let mut elements = [[V::zero(); 2]; R];
                for (q, element) in elements.iter_mut().enumerate() {
                    *element = self.element(from, &root, [k, q, s]);
                }
                let results = short(elements);
                for p in 0..R {
                    to[((k + self.done * p) * self.rest + s) % LONGEST] = results[p];
                }
            }
        }
    }

    /// The stage of an odd prime, with transforms of a row of `length` elements.
    #[inline(always)]
    fn run_odd<V: Lanes>(
        self,
        radix: usize,
        from: &Row<V>,
        to: &mut Row<V>,
        root: impl Fn(usize) -> Number<V>,
        length: usize,
    ) {
        for k in 0..self.done {
            for s in 0..self.rest {
                odd(
                    radix,
                    #[inline(always)]
                    |q| self.element(from, &root, [k, q, s]),
                    #[inline(always)]
                    |p, result| to[((k + self.done * p) * self.rest + s) % LONGEST] = result,
                    #[inline(always)]
                    |e| root(e * (length / radix)),
                );
            }
        }
    }

    /// Element k of the q-th of the transforms that become that which begins at s, times its root of unity.
    #[inline(always)]
    fn element<V: Lanes>(
        self,
        from: &Row<V>,
        root: impl Fn(usize) -> Number<V>,
        [k, q, s]: [usize; 3],
    ) -> Number<V> {
        let radix = self.radix;
        let element = from[(k * radix * self.rest + q * self.rest + s) % LONGEST];
        if k == 0 || q == 0 { element } else { mul(element, root(q * k * self.rest)) }
    }
}

#[inline(always)]
fn add<V: Lanes>(a: Number<V>, b: Number<V>) -> Number<V> {
    [a[0] + b[0], a[1] + b[1]]
}

#[inline(always)]
fn sub<V: Lanes>(a: Number<V>, b: Number<V>) -> Number<V> {
    [a[0] - b[0], a[1] - b[1]]
}

#[inline(always)]
fn mul<V: Lanes>(a: Number<V>, w: Number<V>) -> Number<V> {
    [a[1].neg_mul_add(w[1], a[0] * w[0]), a[1].mul_add(w[0], a[0] * w[1])]
}

/// `a - i b`.
#[inline(always)]
fn sub_i<V: Lanes>(a: Number<V>, b: Number<V>) -> Number<V> {
    [a[0] + b[1], a[1] - b[0]]
}

/// `a + i b`.
#[inline(always)]
fn add_i<V: Lanes>(a: Number<V>, b: Number<V>) -> Number<V> {
    [a[0] - b[1], a[1] + b[0]]
}

/// The transform of two elements.
#[inline(always)]
fn two<V: Lanes>([a, b]: [Number<V>; 2]) -> [Number<V>; 2] {
    [add(a, b), sub(a, b)]
}

/// The transform of four elements.
#[inline(always)]
fn four<V: Lanes>([a, b, c, d]: [Number<V>; 4]) -> [Number<V>; 4] {
    let ([even, even_half], [odd, odd_half]) = (two([a, c]), two([b, d]));
    [add(even, odd), sub_i(even_half, odd_half), sub(even, odd), add_i(even_half, odd_half)]
}

/// The transform of an odd prime number of elements: sums of elements from both ends have the cosines, and differences the sines. `root`
/// gives `exp(-2 pi i e / radix)`.
#[inline(always)]
fn odd<V: Lanes>(
    radix: usize,
    element: impl Fn(usize) -> Number<V>,
    mut put: impl FnMut(usize, Number<V>),
    root: impl Fn(usize) -> Number<V>,
) {
    let zeros = [[V::zero(); 2]; LONGEST / 2];
    let (first, pairs, mut sums, mut differences) = (element(0), radix / 2, zeros, zeros);
    let mut total = first;
    for j in 1..=pairs {
        let (a, b) = (element(j), element(radix - j));
        (sums[j - 1], differences[j - 1]) = (add(a, b), sub(a, b));
        total = add(total, sums[j - 1]);
    }
    put(0, total);
    for p in 1..=pairs {
        let (mut even, mut odd) = (first, [V::zero(); 2]);
        for j in 1..=pairs {
            let [cos, minus_sin] = root(j * p % radix);
            for part in 0..2 {
                even[part] = sums[j - 1][part].mul_add(cos, even[part]);
                odd[part] = differences[j - 1][part].neg_mul_add(minus_sin, odd[part]);
            }
        }
        put(p, sub_i(even, odd));
        put(radix - p, add_i(even, odd));
    }
}

/// Exchanges real and imaginary parts.
#[inline(always)]
pub(crate) fn exchange<V: Copy>(row: &mut Row<V>, n: usize) {
    for number in row.iter_mut().take(n) {
        *number = [number[1], number[0]];
    }
}

/// Makes the second half of a row the conjugates of the first in reverse, and the elements real that are their own conjugates.
#[inline(always)]
pub(crate) fn mirror<V: Lanes>(row: &mut Row<V>, n: usize) {
    row[0][1] = V::zero();
    if n.is_multiple_of(2) {
        row[n / 2 % LONGEST][1] = V::zero();
    }
    for k in n / 2 + 1..n {
        let [re, im] = row[(n - k) % LONGEST];
        row[k % LONGEST] = [re, -im];
    }
}
