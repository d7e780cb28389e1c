//! Which elements of a tensor are shown, and the brackets, commas and lines around them.

use super::number::Numbers;
use super::options::PrintOptions;
use crate::tensor::elements::Elements;
use flambeau_core::{Element, Scalar};

/// The elements to show, in logical order.
pub(super) struct Summary {
    pub(super) values: Vec<Scalar>,
    dims: Vec<Shown>,
}

/// How much of one dimension is shown.
#[derive(Clone, Copy)]
struct Shown {
    /// How many indices.
    count: usize,
    /// Where the gap is, if some are left out.
    gap: Option<usize>,
}

impl Shown {
    fn new(size: usize, summarize: bool, edge: usize) -> Self {
        if summarize && size > edge.saturating_mul(2) {
            Shown { count: 2 * edge, gap: Some(edge) }
        } else {
            Shown { count: size, gap: None }
        }
    }

    /// The tensor's indices that are shown.
    fn indices(self, size: usize) -> impl Iterator<Item = usize> + Clone {
        let start = self.gap.unwrap_or(size);
        (0..start).chain(size - (self.count - start)..size)
    }
}

impl Summary {
    pub(super) fn new<T: Element>(elements: &Elements<T>, options: &PrintOptions) -> Self {
        let sizes = elements.sizes();
        let summarize = sizes.iter().fold(1, |n: usize, size| n.saturating_mul(*size)) > options.threshold;
        let dims: Vec<Shown> =
            sizes.iter().map(|&size| Shown::new(size, summarize, options.edgeitems)).collect();
        let mut values = Vec::new();
        collect(elements, &dims, &mut Vec::new(), &mut values);
        Summary { values, dims }
    }

    /// Everything between the parentheses, the first line of which starts at column `indent`.
    pub(super) fn text(&self, numbers: &Numbers, indent: usize, linewidth: usize) -> String {
        let mut values = self.values.iter().map(|&value| numbers.aligned(value));
        Layout { numbers, linewidth }.block(&self.dims, &mut values, indent)
    }
}

/// Appends the shown elements below the index `at`.
fn collect<T: Element>(
    elements: &Elements<T>,
    dims: &[Shown],
    at: &mut Vec<usize>,
    values: &mut Vec<Scalar>,
) {
    let depth = at.len();
    let Some(shown) = dims.get(depth) else {
        values.extend(elements.get(at).map(Element::to_scalar));
        return;
    };
    for index in shown.indices(elements.sizes()[depth]) {
        at.push(index);
        collect(elements, dims, at, values);
        at.pop();
    }
}

struct Layout<'a> {
    numbers: &'a Numbers,
    linewidth: usize,
}

impl Layout<'_> {
    fn block(&self, dims: &[Shown], values: &mut impl Iterator<Item = String>, indent: usize) -> String {
        match dims {
            [] => values.next().unwrap_or_default(),
            [row] => self.row(*row, values, indent),
            [outer, inner @ ..] => {
                let blocks = (0..outer.count).map(|_| self.block(inner, values, indent + 1)).collect();
                let between = format!(",{}{:2$}", "\n".repeat(inner.len()), "", indent + 1);
                format!("[{}]", with_gap(blocks, outer.gap, "...").join(&between))
            }
        }
    }

    fn row(&self, row: Shown, values: &mut impl Iterator<Item = String>, indent: usize) -> String {
        let items = with_gap(values.take(row.count).collect(), row.gap, " ...");
        let per_line = (self.linewidth.saturating_sub(indent) / (self.numbers.width() + 2)).max(1);
        let lines: Vec<String> = items.chunks(per_line).map(|line| line.join(", ")).collect();
        format!("[{}]", lines.join(&format!(",\n{:1$}", "", indent + 1)))
    }
}

fn with_gap(mut items: Vec<String>, gap: Option<usize>, dots: &str) -> Vec<String> {
    if let Some(at) = gap {
        items.insert(at, dots.to_string());
    }
    items
}
