//! What to ask memory for while elements of a line are met in no order.

use crate::loops::streaming;

/// Elements of a line of four bytes each, and how many are asked for at once at most.
pub(super) const LINE: usize = 16;
const AT_ONCE: usize = 1 << 15;

/// Lines of which nearly all is met, in no order: while one is, the next one comes.
#[derive(Default)]
pub(super) struct Ahead {
    last: Option<i64>,
    expected: Option<i64>,
}

impl Ahead {
    /// What to ask for while `n` elements are met of the line of `named` that begins at `at`, counted from `first`: the line after it, if
    /// they go on as they did. The line itself is asked for if it was not.
    pub(super) fn meet<B>(&mut self, first: *const B, at: i64, named: usize, n: usize) -> Soon {
        if n * LINE < named || named > AT_ONCE {
            return Soon::NOTHING;
        }
        let (line, bytes) =
            (|at: i64| first.wrapping_offset(at as isize).cast::<u8>(), named * size_of::<B>());
        if self.expected != Some(at) {
            streaming::prefetch_bytes(line(at), bytes);
        }
        let next = at + self.last.map_or(named as i64, |last| at - last);
        (self.last, self.expected) = (Some(at), Some(next));
        Soon { from: line(next), left: bytes, share: (bytes * LINE).div_ceil(n).next_multiple_of(64) }
    }
}

/// Bytes to be asked for, a share at a time; they need not be there.
pub(super) struct Soon {
    from: *const u8,
    left: usize,
    share: usize,
}

impl Soon {
    pub(super) const NOTHING: Self = Soon { from: std::ptr::null(), left: 0, share: 0 };

    /// Once for every [`LINE`] elements of the present line.
    pub(super) fn ask(&mut self) {
        let share = self.share.min(self.left);
        streaming::prefetch_bytes(self.from, share);
        (self.from, self.left) = (self.from.wrapping_add(share), self.left - share);
    }
}
