//! The sizes of tiles, and the rows of tiles that one image has in a block.

/// Elements of a transformed tile, four by four.
pub(super) const TILE_ELEMENTS: usize = 16;
/// Rows and columns of a tile of the input, and of a tile of the output gradient.
pub(in super::super) const INPUT_TILE: usize = 4;
pub(in super::super) const GRADIENT_TILE: usize = 2;

/// Rows of tiles of one image.
#[derive(Clone, Copy)]
pub(in super::super) struct TileRows {
    pub(super) image: usize,
    /// First row of tiles, and one past the last.
    pub(super) rows: [usize; 2],
    pub(super) across: usize,
    /// The index of the first tile in the block.
    pub(super) tile: usize,
}
