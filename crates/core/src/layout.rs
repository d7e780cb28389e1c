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
    SparseCoo,
    /// Compressed rows.
    SparseCsr,
    /// Compressed columns.
    SparseCsc,
    /// Compressed rows of blocks.
    SparseBsr,
    /// Compressed columns of blocks.
    SparseBsc,
}

impl Layout {
    /// Whether indices of rows or columns are compressed to pointers.
    pub const fn is_sparse_compressed(self) -> bool {
        matches!(self, Layout::SparseCsr | Layout::SparseCsc | Layout::SparseBsr | Layout::SparseBsc)
    }

    /// Whether only some elements are stored, with their indices.
    pub const fn is_sparse(self) -> bool {
        matches!(self, Layout::SparseCoo) || self.is_sparse_compressed()
    }

    /// Whether values are blocks.
    pub const fn is_blocked(self) -> bool {
        matches!(self, Layout::SparseBsr | Layout::SparseBsc)
    }

    /// Whether rows are compressed, rather than columns.
    pub const fn has_compressed_rows(self) -> bool {
        matches!(self, Layout::SparseCsr | Layout::SparseBsr)
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layout::Strided => "torch.strided",
            Layout::SparseCoo => "torch.sparse_coo",
            Layout::SparseCsr => "torch.sparse_csr",
            Layout::SparseCsc => "torch.sparse_csc",
            Layout::SparseBsr => "torch.sparse_bsr",
            Layout::SparseBsc => "torch.sparse_bsc",
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
