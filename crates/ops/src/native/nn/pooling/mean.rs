//! What a pooling by means reads, for the loops over rows and those over lanes.

use super::windows::Window;

/// Windows along all dimensions, and the divisor of every sum if it is given.
pub(super) struct Mean {
    pub(super) windows: [Vec<Window>; 3],
    pub(super) divisor: Option<i64>,
    pub(super) input: [usize; 3],
}

/// The plane and row of an output row, and its windows along these dimensions.
pub(super) type Row<'a> = ([usize; 2], [&'a Window; 2]);

impl Mean {
    pub(super) fn count(&self, [plane, row]: [&Window; 2], column: &Window) -> i64 {
        let counted = || plane.counted.saturating_mul(row.counted).saturating_mul(column.counted);
        self.divisor.unwrap_or_else(counted)
    }

    pub(super) fn work(&self) -> usize {
        let inside = |d: usize| self.windows[d].iter().map(|w| w.inside.len()).sum::<usize>();
        inside(0) * inside(1) * self.input[2]
    }

    pub(super) fn output(&self) -> [usize; 3] {
        [0, 1, 2].map(|d| self.windows[d].len())
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let planes = self.windows[0].iter().enumerate();
        planes.flat_map(|(z, plane)| {
            self.windows[1].iter().enumerate().map(move |(y, row)| ([z, y], [plane, row]))
        })
    }
}

/// The rows of the input in a window of planes and a window of rows.
pub(super) fn inside([plane, row]: [&Window; 2]) -> impl Iterator<Item = [usize; 2]> {
    let rows = row.inside.clone();
    plane.inside.clone().flat_map(move |z| rows.clone().map(move |y| [z, y]))
}
