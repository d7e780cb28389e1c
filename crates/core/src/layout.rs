//! How elements are laid out in memory: strided or not, and which dimension is densest.

use crate::{Result, bail, ensure};
use std::fmt;
use std::panic::Location;
use std::sync::{PoisonError, RwLock};

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
    /// A layout of another crate, by the number that [`register_layout`](Layout::register) gave it.
    Extension(u8),
}

/// A layout of another crate: its name, and where it was registered.
type Registered = (String, &'static Location<'static>);

/// The layouts of other crates; each has its index as its number.
static EXTENSIONS: RwLock<Vec<Registered>> = RwLock::new(Vec::new());

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

    /// A new layout, which prints as `name`. It exists until the process ends. Its rules are registered in `flambeau_ops::layouts`.
    ///
    /// # Errors
    /// `InvalidArgument` where there is one of that name, naming both locations, and where there are 256 already.
    ///
    /// ```
    /// use flambeau_core::Layout;
    /// let tiled = Layout::register("tiled")?;
    /// assert_eq!(tiled.to_string(), "tiled");
    /// assert!(Layout::register("tiled").unwrap_err().message().matches(".rs:").count() == 2);
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    #[track_caller]
    pub fn register(name: &str) -> Result<Layout> {
        let here = Location::caller();
        ensure!(!name.is_empty(), InvalidArgument("register_layout", "name"), "expected a name but got none");
        let mut known = EXTENSIONS.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, first)) = known.iter().find(|(other, _)| other == name) {
            bail!(
                InvalidArgument("register_layout", "name"),
                "expected one layout called {name} but there is one from {first} and one from {here}"
            );
        }
        let Ok(number) = u8::try_from(known.len()) else {
            bail!(
                InvalidArgument("register_layout"),
                "expected at most 256 layouts but got {name} from {here} too"
            )
        };
        known.push((name.to_owned(), here));
        Ok(Layout::Extension(number))
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
            Layout::Extension(number) => {
                let known = EXTENSIONS.read().unwrap_or_else(PoisonError::into_inner);
                return f.write_str(known.get(usize::from(*number)).map_or("extension", |(name, _)| name));
            }
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
