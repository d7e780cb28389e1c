//! How elements are laid out in memory: strided or not, and which dimension is densest.

use std::fmt;

/// How a tensor stores its elements. PyTorch's `Layout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
#[non_exhaustive]
pub enum Layout {
    /// Elements at an offset and strides of one storage.
    #[default]
    Strided,
    /// Coordinates and values.
    Sparse,
    /// Compressed rows.
    SparseCsr,
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layout::Strided => "torch.strided",
            Layout::Sparse => "torch.sparse_coo",
            Layout::SparseCsr => "torch.sparse_csr",
        })
    }
}

/// Which order of dimensions a dense result should have. PyTorch's `MemoryFormat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum MemoryFormat {
    /// The last dimension is densest.
    #[default]
    Contiguous,
    /// As the input, where the input is dense; else contiguous.
    Preserve,
    /// N, H, W, C in memory for sizes given as N, C, H, W.
    ChannelsLast,
    /// N, D, H, W, C in memory for sizes given as N, C, D, H, W.
    ChannelsLast3d,
}
