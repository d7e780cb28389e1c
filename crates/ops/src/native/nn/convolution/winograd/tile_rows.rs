//! Tiles: how many pixels and places they have, and the rows of them that an image has in a block.

/// Places in a transformed tile.
pub(super) const PLACES: usize = 16;
/// Pixels each way that make a tile: of the input, and of the output's gradient.
pub(in super::super) const INPUT: usize = 4;
pub(in super::super) const GRADIENT: usize = 2;

/// Rows of tiles of one image.
#[derive(Clone, Copy)]
pub(in super::super) struct Piece {
    pub(super) image: usize,
    /// From and to.
    pub(super) rows: [usize; 2],
    pub(super) across: usize,
    /// The first tile's place in its block.
    pub(super) tile: usize,
}
