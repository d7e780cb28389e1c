//! Cascade summation: partial results are combined like the carries of a binary counter, as a balanced tree for any number of them.

use smallvec::SmallVec;

/// Partial results of `1, 2, 4, ..` parts, the earliest and largest first.
pub(crate) struct Cascade<S> {
    partials: SmallVec<[S; 8]>,
    count: usize,
}

impl<S: Copy> Cascade<S> {
    /// Without parts.
    pub(crate) fn new() -> Self {
        Cascade { partials: SmallVec::new(), count: 0 }
    }

    /// All `parts` combined; `None` where there are none.
    #[inline]
    pub(crate) fn of(parts: impl Iterator<Item = S>, combine: impl Fn(S, S) -> S) -> Option<S> {
        let mut cascade = Cascade::new();
        parts.for_each(|part| cascade.push(part, &combine));
        cascade.finish(combine)
    }

    /// Adds a part, which is combined with those before it that are as large.
    #[inline]
    pub(crate) fn push(&mut self, part: S, combine: impl Fn(S, S) -> S) {
        let (mut part, mut carries) = (part, self.count);
        while carries & 1 == 1 {
            if let Some(before) = self.partials.pop() {
                part = combine(before, part);
            }
            carries >>= 1;
        }
        self.partials.push(part);
        self.count += 1;
    }

    /// All parts combined; `None` where there were none.
    #[inline]
    pub(crate) fn finish(mut self, combine: impl Fn(S, S) -> S) -> Option<S> {
        let mut all = self.partials.pop()?;
        while let Some(before) = self.partials.pop() {
            all = combine(before, all);
        }
        Some(all)
    }
}
