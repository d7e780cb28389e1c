//! The options by which the process prints tensors.

use parking_lot::RwLock;

/// How tensors are printed. PyTorch's `torch.set_printoptions`.
///
/// ```
/// use flambeau_ops::Tensor;
/// use flambeau_ops::tensor::display::PrintOptions;
/// let t = Tensor::from([0.5f32, 0.25, 0.125]);
/// let options = PrintOptions { precision: 2, ..PrintOptions::default() };
/// assert_eq!(t.to_string_with(&options), "tensor([0.50, 0.25, 0.12])");
/// assert_eq!(format!("{t:.2}"), "tensor([0.50, 0.25, 0.12])");
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrintOptions {
    /// Digits after the decimal point.
    pub precision: usize,
    /// Tensors of more elements are summarised.
    pub threshold: usize,
    /// Items shown at either end of a summarised dimension.
    pub edgeitems: usize,
    /// Characters in a line.
    pub linewidth: usize,
    /// Scientific notation: always, never, or where the values need it.
    pub sci_mode: Option<bool>,
}

impl PrintOptions {
    const DEFAULT: PrintOptions =
        PrintOptions { precision: 4, threshold: 1000, edgeitems: 3, linewidth: 80, sci_mode: None };
}

impl Default for PrintOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

static OPTIONS: RwLock<PrintOptions> = RwLock::new(PrintOptions::DEFAULT);

/// Changes how the whole process prints tensors.
pub fn set_print_options(options: PrintOptions) {
    *OPTIONS.write() = options;
}

/// How the process prints tensors.
pub fn print_options() -> PrintOptions {
    *OPTIONS.read()
}
