//! Checks the dependencies between the modules of a crate: they are in layers, and a module uses only modules of lower layers.
//!
//! A use of a name is a dependency on the module that defines it, whether the name is reached by a path, through a re-export, or
//! through an import of the parent module. Tests inside the modules count too.

mod paths;

use std::collections::{BTreeMap, HashMap, HashSet};

use super::code::code;
use super::{File, Finding};
use paths::{Mention, mentions};

/// The layers of a crate, lowest first. An entry is the path of a module, and covers its submodules that have no entry of
/// their own. A module uses modules of lower layers, but no other module of its own layer. `lib.rs` is above all. Modules that are joined
/// by a `+` may use each other.
struct Crate {
    name: &'static str,
    folder: &'static str,
    layers: &'static [&'static [&'static str]],
    /// Entries that modules of every layer may use.
    everywhere: &'static [&'static str],
}

const CRATES: &[Crate] = &[CORE, OPS, VMAP, AUTOGRAD, COMPILE];

const CORE: Crate = Crate {
    name: "core",
    folder: "crates/core/src/",
    layers: &[
        &["error", "sync"],
        &["layout", "barrier", "blocking", "complex", "data_ptr", "float8", "fork"],
        &["backend+device"],
        &["scalar+scalar_type", "shape", "dispatch_key"],
        &["sizes_and_strides", "tensor_options", "allocator", "generator", "serde_names"],
        &["fallible", "intrusive_ptr", "profiler"],
        &["autograd_meta", "storage_lock"],
        &["storage+storage_guards+strided_view+tensor_impl"],
        &["shared_memory"],
    ],
    everywhere: &[],
};

const COMPILE: Crate = Crate {
    name: "compile",
    folder: "crates/compile/src/",
    layers: &[
        &["graph", "functions"],
        &["traced_loops", "program"],
        &["formula", "fusion", "lower"],
        &["capture", "kernel"],
        &["plan"],
        &["gradient+planned", "explanation"],
        &["compiled"],
    ],
    everywhere: &[],
};

const VMAP: Crate = Crate {
    name: "vmap",
    folder: "crates/vmap/src/",
    layers: &[
        &["generated+plan"],
        &["batch"],
        &["kinds/loops", "kinds/refused"],
        &["kinds/pointwise"],
        &["kinds/dims", "kinds/fold", "kinds/front", "kinds/random"],
        &["kinds/reduction"],
        &["kinds"],
        &["rules/losses", "rules/convolution"],
        &["rules/nll_loss", "rules/normalization"],
        &["rules"],
        &["fallback", "transform"],
    ],
    everywhere: &[],
};

const AUTOGRAD: Crate = Crate {
    name: "autograd",
    folder: "crates/autograd/src/",
    layers: &[
        &["alias", "anomaly", "batched", "variable/layout_parts", "grad_mode", "spin_lock"],
        &["factory"],
        &["graph/gradients", "graph/live", "graph/saved"],
        &["graph/hooks"],
        &["graph/dual_level"],
        &["graph/node"],
        &["graph/grad_accumulator_cache", "graph/operator"],
        &["graph/release"],
        &["graph"],
        &["variable/meta"],
        &["variable/accumulate_grad", "variable/as_strided", "variable/view"],
        &["variable/exclusive", "variable/history", "variable/tangents"],
        &["variable/saved_variable"],
        &["variable"],
        &["engine", "record"],
        &["tensor"],
        &["formulas"],
        &["forward"],
        &["checkpoint", "defined", "function", "functional", "generated", "gradcheck", "profiler"],
    ],
    everywhere: &[],
};

const OPS: Crate = Crate {
    name: "ops",
    folder: "crates/ops/src/",
    layers: &[
        &["append_list", "dispatch_types", "enums", "int_list", "method_options", "scratch"],
        // The handle.
        &["tensor"],
        &["batched/level"],
        &["batched/wrapper"],
        &["batched/physical"],
        &[
            "tensor/construct",
            "tensor/display/options",
            "tensor/foreign",
            "tensor/offsets",
            "tensor/buffer_reuse",
            "tensor/sparse",
        ],
        &[
            "tensor/accessor",
            "tensor/arithmetic",
            "tensor/convert",
            "tensor/display/number",
            "tensor/elements",
        ],
        &["tensor/compare", "tensor/display/summary", "tensor/index", "tensor/ndarray", "tensor/serde"],
        &["tensor/display"],
        // The dispatcher. An operator keeps kernels that take lists, and each of them is told which operator is called.
        &["dispatch/kernel", "dispatch/schema"],
        &["dispatch/boxed", "dispatch/observed", "dispatch/registration"],
        &["dispatch/boxed_kernel+dispatch/operator"],
        &["dispatch"],
        // Geometry. A plain call and a walk are methods of the iterator, in files of their own.
        &["host_copies", "snapshot"],
        &["structured"],
        &[
            "tensor_iterator/config",
            "tensor_iterator/operand",
            "tensor_iterator/reduction",
            "tensor_iterator/types",
        ],
        &["tensor_iterator+tensor_iterator/for_each+tensor_iterator/trivial"],
        &["tensor_iterator/build"],
        // Loops.
        &[
            "loops/convert",
            "loops/copy_bytes",
            "loops/formulas",
            "loops/generate",
            "loops/machine",
            "loops/packed",
            "loops/reduce/accumulator",
            "loops/reduce/cascade",
            "loops/reduce/dim_counter",
            "loops/reduce/strips",
            "loops/rolled",
            "loops/strided",
        ],
        &["loops/reduce/fold", "loops/rows"],
        &[
            "loops/bit_lanes",
            "loops/device",
            "loops/reduce/any_fold",
            "loops/reduce/folds",
            "loops/reduce/truth",
            "loops/streaming",
            "loops/transposed",
            "loops/update",
        ],
        &["loops/prefetch", "loops/reduce/extremes", "loops/reduce/small", "loops/row_offsets"],
        &["loops/reduce/blocks", "loops/tiles"],
        &["loops/neighbors", "loops/reduce/accumulate"],
        &["loops/reduce/each_row"],
        &[
            "loops/copy",
            "loops/reduce/folding",
            "loops/reduce/row_float",
            "loops/reduce/source",
            "loops/row_ops/map_rows",
            "loops/select",
        ],
        &["loops/reduce/short_columns", "loops/reduce/short_rows"],
        &[
            "loops/reduce/inner",
            "loops/reduce/outer",
            "loops/reduce/outer_arg",
            "loops/row_ops/columns",
            "loops/row_ops/row",
        ],
        &[
            "loops/reduce/outer_arg",
            "loops/reduce/targets",
            "loops/reduce/two_stages",
            "loops/row_ops/scan",
            "loops/row_ops/softmax_columns",
        ],
        &["loops/reduce/short_arg", "loops/row_ops/softmax"],
        &[
            "loops/reduce/arg",
            "loops/reduce/exclusive_or",
            "loops/reduce/log_sum_exp",
            "loops/reduce/moments",
        ],
        &["loops/reduce"],
        &["loops/fused_map_sum", "loops/row_ops/norm_columns"],
        &["loops/row_ops/norm"],
        &["loops/row_ops/channels", "loops/row_ops/norm_backward"],
        &["loops/row_ops/channel_norm_backward"],
        &["loops/row_ops"],
        &["loops"],
        // Kernels. `linalg/linear` and `index/dim_index` cover the file below them that uses them.
        &["native/pointwise/plane", "native/shape/complex_views"],
        &["native/pointwise/complex"],
        &[
            "native/element_bits",
            "native/factory/arange_linspace",
            "native/factory/diag",
            "native/factory/meshgrid",
            "native/factory/to_contiguous",
            "native/factory/tril_triu_indices",
            "native/factory/window_functions",
            "native/fft/arguments",
            "native/formulas",
            "native/guarded_slices",
            "native/index/dim_index/row_prefetch",
            "native/index/index_reduce",
            "native/index/isin",
            "native/index/signed_order",
            "native/index/sort/item",
            "native/linalg/combinations",
            "native/linalg/cov_corrcoef",
            "native/linalg/cross_vecdot",
            "native/linalg/distances",
            "native/linalg/kron_trace_block_diag",
            "native/linalg/matrix_power",
            "native/linalg/multi_dot",
            "native/linalg/vander",
            "native/nn/attention/block_softmax",
            "native/nn/convolution/deinterleave",
            "native/nn/convolution/params",
            "native/nn/convolution/winograd/tile_rows",
            "native/nn/dropout",
            "native/nn/grid_sample/affine_grid",
            "native/nn/im2col",
            "native/nn/loss/reduction",
            "native/nn/normalization/scale_shift",
            "native/nn/pixel_shuffle",
            "native/nn/pooling/max_unpool",
            "native/nn/pooling/one_dim",
            "native/nn/pooling/windows",
            "native/pointwise/accumulate",
            "native/pointwise/bitwise_logical",
            "native/pointwise/gcd_lcm_shift",
            "native/pointwise/special_scalar/bessel_coefficients",
            "native/pointwise/special_scalar/horner",
            "native/pointwise/unary",
            "native/pointwise/where_masked_fill",
            "native/random/distributions",
            "native/random/rand_randn",
            "native/reduce/bin_counts",
            "native/reduce/diff",
            "native/reduce/equal_bins",
            "native/reduce/quantile",
            "native/reduce/reduced_spec",
            "native/shape/view",
            "native/shape/view_copies",
            "native/strided_gather",
            "native/strided_iter",
        ],
        &[
            "native/pointwise/special_scalar/gamma",
            "native/pointwise/special_scalar/modified_bessel",
            "native/pointwise/special_scalar/normal",
            "native/pointwise/special_scalar/polynomial",
            "native/reduce/complex_parts",
        ],
        &[
            "native/factory/empty_full",
            "native/fft/fourier",
            "native/fft/frequencies",
            "native/fft/stft",
            "native/fft/transforms",
            "native/index/dim_index/geometry",
            "native/index/row_major",
            "native/index/true_indices",
            "native/index/sort/first_k",
            "native/linalg/einsum",
            "native/linalg/matmul",
            "native/linalg/tril_triu",
            "native/nn/attention/query_blocks",
            "native/nn/convolution/conv_nd",
            "native/nn/convolution/unfold_strided",
            "native/nn/convolution/weights",
            "native/nn/grid_sample/interpolation",
            "native/nn/loss/formulas",
            "native/nn/loss/margin_loss",
            "native/nn/loss/score",
            "native/nn/padding",
            "native/nn/pooling/channels",
            "native/nn/pooling/mean",
            "native/nn/upsample/dense",
            "native/nn/upsample/sums",
            "native/pointwise/activation",
            "native/pointwise/activation_piecewise",
            "native/pointwise/binary",
            "native/pointwise/comparison",
            "native/pointwise/pow",
            "native/pointwise/special",
            "native/pointwise/special_scalar/bessel",
            "native/pointwise/special_scalar/incomplete_gamma",
            "native/pointwise/special_scalar/zeta",
            "native/random/multinomial",
            "native/random/randperm",
            "native/reduce/gradient",
            "native/reduce/max_min",
            "native/reduce/sum_prod_any",
            "native/reduce/trapezoid",
            "native/reduce/var_mean",
            "native/reduce/vector_norm",
            "native/shape/constant_pad",
            "native/shape/movedim_flatten",
            "native/shape/split",
            "native/shape/view_in_place",
            "native/short_rows",
        ],
        &[
            "native/factory/copy",
            "native/linalg/linear",
            "native/linalg/matrices",
            "native/nn/attention/tiled",
            "native/nn/convolution/padded_tile",
            "native/nn/convolution/unfold",
            "native/nn/loss/multi_margin_loss",
            "native/nn/loss/multilabel_margin_loss",
            "native/nn/loss/nll_samples",
            "native/nn/normalization/batch_norm",
            "native/nn/normalization/group_norm",
            "native/nn/pooling/channel_strips",
            "native/nn/pooling/max_pool_2x2",
            "native/nn/pooling/spec",
            "native/nn/upsample",
            "native/pointwise/division",
            "native/pointwise/special_scalar",
            "native/pointwise/ternary",
            "native/reduce/cumsum_cumprod",
            "native/reduce/softmax",
        ],
        &[
            "native/index/dim_index",
            "native/linalg/pinv",
            "native/nn/attention",
            "native/nn/convolution/depthwise/source",
            "native/nn/convolution/direct/weight_gradient",
            "native/nn/convolution/im2col_gemm",
            "native/nn/convolution/narrow",
            "native/nn/convolution/winograd/transforms",
            "native/nn/grid_sample",
            "native/nn/loss/nll_loss",
            "native/nn/normalization",
            "native/nn/pooling/mean_lanes",
            "native/nn/pooling/running_max",
            "native/pointwise/adam",
            "native/random/poisson_binomial",
            "native/shape/cat_stack",
            "native/shape/flip_roll",
            "native/shape/repeat",
            "native/shape/view_backward",
        ],
        &[
            "native/index/gather_scatter",
            "native/linalg/norms",
            "native/nn/convolution/depthwise/forward",
            "native/nn/convolution/depthwise/weight_gradient",
            "native/nn/convolution/gradient",
            "native/nn/convolution/image_lanes",
            "native/nn/convolution/winograd",
            "native/nn/embedding",
            "native/nn/embedding_bag",
            "native/nn/loss/fused_cross_entropy",
            "native/nn/pooling/max_lanes",
            "native/nn/pooling/mean_window",
            "native/sparse/lanes",
        ],
        &[
            "native/index/index_select",
            "native/index/searchsorted",
            "native/index/sort",
            "native/nn/convolution/depthwise",
            "native/nn/convolution/direct/forward",
            "native/nn/loss/cross_entropy",
            "native/nn/pooling/max_window",
            "native/reduce/median_mode",
            "native/sparse/arguments",
        ],
        &[
            "native/index/masked_select",
            "native/nn/loss",
            "native/nn/pooling/guarded",
            "native/reduce/bincount_histc",
            "native/sparse/radix",
            "native/sparse/terms",
        ],
        &[
            "native/nn/pooling/adaptive_pool",
            "native/nn/pooling/avg_pool",
            "native/nn/pooling/max_pool",
            "native/sparse/segments",
        ],
        &[
            "native/sparse/coo",
            "native/sparse/csr_matmul",
            "native/sparse/csr_mm",
            "native/sparse/csr_solve",
            "native/sparse/pointers",
            "native/sparse/sparse_adam",
        ],
        &[
            "native/index/nonzero",
            "native/index/unique",
            "native/nn/convolution/direct",
            "native/nn/pooling",
            "native/reduce/cummax_cummin",
        ],
        &["native/index/index_put", "native/nn/convolution/by_group"],
        &["native/nn/convolution/algorithm"],
        &["native/nn/convolution"],
        &["native"],
        &["generated"],
        &["batched/print", "cpu_fallback", "layouts", "registry"],
        &["batched"],
    ],
    // Operators as functions, which end in kernels only by way of the dispatcher: arithmetic on handles, composites and copies call
    // them, as ATen's call `at::`.
    everywhere: &["generated"],
};

const TABLE: &str = "crates/xtask/src/tidy/directions.rs";

/// Dependencies that do not lead to a lower layer, modules without a layer, and entries without a module.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    CRATES.iter().flat_map(|layered| layered.check(files)).collect()
}

/// The layers of each crate, as a line of text.
pub(super) fn describe() -> Vec<String> {
    let line = |layered: &Crate| {
        let layers: Vec<String> = layered.layers.iter().map(|layer| layer.join(", ")).collect();
        let everywhere = match layered.everywhere {
            [] => String::new(),
            entries => format!("; everywhere {}", entries.join(", ")),
        };
        format!("{}: {}{everywhere}", layered.name, layers.join(" <- "))
    };
    CRATES.iter().map(line).collect()
}

impl Crate {
    fn check(&self, files: &[File]) -> Vec<Finding> {
        let own = files.iter().filter(|file| file.is_rust());
        let own = own.filter_map(|file| Some((module_of(file.path.strip_prefix(self.folder)?), file)));
        let own: BTreeMap<Vec<String>, &File> = own.collect();
        let modules = Modules::read(&own);
        let mut found = self.unused_entries(&own);
        for (module, file) in own.iter().filter(|(module, _)| !module.is_empty()) {
            match self.layer(module) {
                Some(layer) => found.extend(self.dependencies(&modules, module, layer, file)),
                None => found.push(file.error(1, format!("`{}` has no layer in {TABLE}", module.join("::")))),
            }
        }
        found
    }

    /// The layer of a module, and the entry that covers it; of several, the one with the longest path.
    fn layer(&self, module: &[String]) -> Option<(usize, &'static str)> {
        let covers = |name: &&str| {
            let parts: Vec<&str> = name.split('/').collect();
            parts.len() <= module.len() && parts.iter().zip(module).all(|(part, own)| part == own)
        };
        let entries = self.layers.iter().enumerate();
        let entries = entries.flat_map(|(layer, entries)| entries.iter().map(move |entry| (layer, *entry)));
        let covering = |(layer, entry): (usize, &'static str)| {
            let longest = entry.split('+').filter(covers).map(str::len).max()?;
            Some((longest, (layer, entry)))
        };
        entries.filter_map(covering).max_by_key(|(longest, _)| *longest).map(|(_, layer)| layer)
    }

    fn dependencies(
        &self,
        modules: &Modules,
        module: &[String],
        (layer, entry): (usize, &str),
        file: &File,
    ) -> Vec<Finding> {
        let mut found = vec![];
        for Mention { line, path, .. } in modules.mentions(module).iter().filter(|mention| mention.is_own) {
            let Some(target) = modules.home(path) else { continue };
            let message = match self.layer(&target) {
                _ if target.is_empty() => format!("`{entry}` uses what `lib.rs` defines"),
                Some((_, to)) if to == entry || self.everywhere.contains(&to) => continue,
                Some((other, _)) if other < layer => continue,
                Some((other, to)) => {
                    format!("`{entry}` of layer {layer} uses `{to}` of layer {other}, which is not below it")
                }
                None => continue,
            };
            found.push(file.error(*line, format!("{message} ({TABLE})")));
        }
        found
    }

    fn unused_entries(&self, own: &BTreeMap<Vec<String>, &File>) -> Vec<Finding> {
        let names = |entry: &str| own.keys().any(|module| module.join("/") == entry);
        let entries = self.layers.iter().copied().chain([self.everywhere]).flatten();
        let entries = entries.flat_map(|entry| entry.split('+'));
        let unused = entries.filter(|entry| !names(entry));
        let finding = |entry: &str| Finding {
            path: TABLE.to_string(),
            line: 1,
            message: format!("`{entry}` is no module of {}", self.name),
            warning: false,
        };
        unused.map(finding).collect()
    }
}

/// `graph/node.rs` is the module `graph::node`, `lib.rs` the root.
fn module_of(path: &str) -> Vec<String> {
    let mut parts: Vec<String> = path.trim_end_matches(".rs").split('/').map(str::to_string).collect();
    if parts.last().is_some_and(|last| last == "mod") || parts == ["lib"] {
        parts.pop();
    }
    parts
}

/// The names that the modules of a crate define, import and mention.
struct Modules {
    mentions: BTreeMap<Vec<String>, Vec<Mention>>,
    /// Names that a module imports from another module, by the module and the name.
    imported: HashMap<(Vec<String>, String), Vec<String>>,
    /// Names that a module imports from another crate.
    foreign: HashSet<(Vec<String>, String)>,
    /// Glob imports: modules from which a module imports all names.
    globs: HashMap<Vec<String>, Vec<Vec<String>>>,
    defined: HashMap<Vec<String>, Vec<String>>,
}

/// The maximum number of imports through which a name is followed.
const IMPORTS: usize = 16;

impl Modules {
    fn read(own: &BTreeMap<Vec<String>, &File>) -> Modules {
        let mut modules = Modules {
            mentions: BTreeMap::new(),
            imported: HashMap::new(),
            foreign: HashSet::new(),
            globs: HashMap::new(),
            defined: HashMap::new(),
        };
        for (module, file) in own {
            let code = code(&file.text);
            for (name, folder) in paths::moved(&file.text) {
                modules.imported.insert((module.clone(), name), module_of(&folder));
            }
            for name in paths::exported_macros(&code) {
                let home = module.iter().cloned().chain([name.clone()]).collect();
                modules.imported.insert((vec![], name), home);
            }
            modules.defined.insert(module.clone(), paths::definitions(&code));
            modules.mentions.insert(module.clone(), mentions(&code, module, |child| own.contains_key(child)));
        }
        for (module, found) in &modules.mentions {
            for Mention { path, bound, is_own, .. } in found {
                match bound.as_deref() {
                    Some(name) if !is_own => {
                        modules.foreign.insert((module.clone(), name.to_string()));
                    }
                    Some("*") => modules.globs.entry(module.clone()).or_default().push(path.clone()),
                    Some(name) => {
                        modules.imported.insert((module.clone(), name.to_string()), path.clone());
                    }
                    None => {}
                }
            }
        }
        modules
    }

    fn mentions(&self, module: &[String]) -> &[Mention] {
        self.mentions.get(module).map_or(&[], Vec::as_slice)
    }

    /// The module that defines the last part of a path, or, if that is not found, the last module of the path; `None` for another
    /// crate.
    fn home(&self, path: &[String]) -> Option<Vec<String>> {
        self.follow(path, IMPORTS)
    }

    fn follow(&self, path: &[String], imports: usize) -> Option<Vec<String>> {
        let mut module: Vec<String> = vec![];
        for (at, part) in path.iter().enumerate() {
            module.push(part.clone());
            if self.mentions.contains_key(&module) {
                continue;
            }
            module.pop();
            if self.foreign.contains(&(module.clone(), part.clone())) {
                return None;
            }
            let Some(source) = self.source(&module, part, imports) else { break };
            let onward: Vec<String> = source.into_iter().chain(path[at + 1..].iter().cloned()).collect();
            return if imports == 0 { None } else { self.follow(&onward, imports - 1) };
        }
        Some(module)
    }

    /// The module from which a module imports a name.
    fn source(&self, module: &[String], name: &str, imports: usize) -> Option<Vec<String>> {
        if self.defines(module, name) {
            return None;
        }
        if let Some(path) = self.imported.get(&(module.to_vec(), name.to_string())) {
            return Some(path.clone());
        }
        let globs =
            self.globs.get(module)?.iter().filter_map(|glob| self.follow(glob, imports.checked_sub(1)?));
        let found = globs.filter(|glob| glob != module).find(|glob| self.defines(glob, name))?;
        Some(found.into_iter().chain([name.to_string()]).collect())
    }

    fn defines(&self, module: &[String], name: &str) -> bool {
        self.defined.get(module).is_some_and(|defined| defined.iter().any(|other| other == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYERED: Crate = Crate {
        name: "sample",
        folder: "s/",
        layers: &[&["low", "other"], &["mid/leaf"], &["mid"], &["top"]],
        everywhere: &[],
    };

    /// What is found where `top` and `mid` are as given.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let mut all = vec![
            ("s/lib.rs", "pub mod low; pub mod top; pub use top::Top; pub use low::Low; pub struct Own;"),
            ("s/low.rs", "pub struct Low; pub fn low() {}"),
            ("s/other.rs", ""),
            ("s/mid.rs", "mod leaf; pub use leaf::*; use crate::low::Low as Renamed; pub struct Mid;"),
            ("s/mid/leaf.rs", "pub struct Leaf;"),
            ("s/top.rs", "pub struct Top; pub use crate::low::low;"),
        ];
        all.retain(|(path, _)| files.iter().all(|(other, _)| path != other));
        all.extend(files);
        checked(&LAYERED, &all)
    }

    fn checked(layered: &Crate, files: &[(&str, &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| File { path: path.to_string(), text: text.to_string() };
        let files: Vec<File> = files.iter().map(file).collect();
        layered.check(&files).into_iter().map(|found| format!("{}:{}", found.path, found.line)).collect()
    }

    #[test]
    fn arrows_lead_down() {
        let down = [
            "use crate::low::Low;",
            "use super::Renamed;",
            "fn f() { crate::Low; }",
            "use crate::{low::{self, Low}, other};",
            "use crate::top::low;",
            "// use crate::top::Top;",
            "fn f() { \"crate::top::Top\" }",
            "mod tests { use super::*; use super::super::super::low::Low; }",
            "macro_rules! m { ($name:ident) => { mod $name { use super::*; } } }",
            "pub(in crate::mid) struct A;",
            "use std::top::Top; fn f() -> impl use<'a> Sized {}",
        ];
        for text in down {
            assert_eq!(found(&[("s/mid/leaf.rs", text)]), Vec::<String>::new(), "{text}");
        }
        let up = [
            "use crate::top::Top;",
            "use crate::Top;",
            "use super::Mid;",
            "use super::super::top;",
            "fn f() { crate::top::f() }",
            "use crate::{low, top::{Top as Other}};",
            "use crate::Own;",
            "#[cfg(test)] mod tests { use crate::top::*; }",
            "mod inner { mod deeper { fn f(a: super::super::super::Mid) {} } }",
            "macro_rules! m { () => { $crate::top::Top } }",
            "macro_rules! m { ($name:ident) => { mod $name { use super::super::Mid; } } }",
        ];
        for text in up {
            let text = format!("\n{text}");
            assert_eq!(found(&[("s/mid/leaf.rs", &text)]), ["s/mid/leaf.rs:2"], "{text}");
        }
    }

    #[test]
    fn a_module_uses_those_below_it_by_their_names() {
        let upside_down =
            Crate { layers: &[&["low", "other"], &["mid"], &["mid/leaf"], &["top"]], ..LAYERED };
        let files = [
            ("s/mid.rs", "mod leaf;\nfn f() { leaf::g() }\nfn h() { other::leaf::g(); leaf::<u8>() }"),
            ("s/mid/leaf.rs", "pub fn g() {}"),
            ("s/low.rs", ""),
            ("s/other.rs", ""),
            ("s/top.rs", ""),
        ];
        assert_eq!(checked(&upside_down, &files), ["s/mid.rs:2"]);
    }

    #[test]
    fn joined_entries_leave_out_modules_that_have_their_own() {
        let joined = Crate { layers: &[&["low", "other"], &["mid/leaf"], &["mid+top"]], ..LAYERED };
        let files = |leaf, top| {
            let (low, other, mid) =
                (("s/low.rs", ""), ("s/other.rs", ""), ("s/mid.rs", "use crate::top::T;"));
            checked(&joined, &[low, other, mid, ("s/mid/leaf.rs", leaf), ("s/top.rs", top)])
        };
        assert_eq!(files("", "use crate::mid::M; pub struct T;"), Vec::<String>::new());
        assert_eq!(files("use crate::top::T;", "pub struct T;"), ["s/mid/leaf.rs:1"]);
    }

    #[test]
    fn what_is_used_everywhere_lies_in_its_layer() {
        let lenient = Crate { everywhere: &["top"], ..LAYERED };
        let files = |low, top| {
            let (mid, leaf) = (("s/mid.rs", ""), ("s/mid/leaf.rs", ""));
            checked(&lenient, &[("s/low.rs", low), ("s/other.rs", ""), mid, leaf, ("s/top.rs", top)])
        };
        assert_eq!(files("use crate::top::f;", "use crate::mid; pub fn f() {}"), Vec::<String>::new());
        assert_eq!(files("use crate::mid;", ""), ["s/low.rs:1"]);
        let missing = Crate { everywhere: &["gone"], ..LAYERED };
        assert_eq!(checked(&missing, &[]).len(), 6);
    }

    #[test]
    fn neighbours_do_not_know_each_other() {
        assert_eq!(found(&[("s/other.rs", "use crate::low::Low;")]), ["s/other.rs:1"]);
        assert_eq!(found(&[("s/other.rs", "mod a; use a::b; use crate::other::a;")]), Vec::<String>::new());
    }

    #[test]
    fn a_name_is_followed_to_where_it_is_defined() {
        assert_eq!(found(&[("s/top.rs", "use crate::mid::Leaf;")]), Vec::<String>::new());
        assert_eq!(found(&[("s/low.rs", "use crate::mid::Leaf;")]), ["s/low.rs:1"]);
        let exported = ("s/top.rs", "#[macro_export]\nmacro_rules! shout { () => {} }");
        assert_eq!(found(&[exported, ("s/low.rs", "fn f() { crate::shout!() }")]), ["s/low.rs:1"]);
        // Two modules that import from each other a name that neither defines.
        let circle = [("s/top.rs", "pub use crate::mid::gone;"), ("s/mid.rs", "pub use crate::top::gone;")];
        assert!(found(&circle).len() <= 1);
    }

    #[test]
    fn names_of_other_crates_and_moved_modules_are_known() {
        let root =
            "pub mod low; pub use other_crate as beside; pub use other_crate::{Error, deep::Inner as Named};
            #[path = \"generated/mod.rs\"]
            pub mod ops;";
        let user = "use crate::{beside::x, Error}; fn f() -> crate::Named { crate::Error }";
        assert_eq!(found(&[("s/lib.rs", root), ("s/low.rs", user)]), Vec::<String>::new());
        let files =
            [("s/lib.rs", root), ("s/generated/mod.rs", "pub fn f() {}"), ("s/low.rs", "use crate::ops::f;")];
        assert_eq!(found(&files), ["s/generated/mod.rs:1"]);
    }

    #[test]
    fn every_module_has_a_layer_and_every_entry_a_module() {
        assert_eq!(found(&[("s/new.rs", "")]), ["s/new.rs:1"]);
        let files = [File { path: "s/lib.rs".to_string(), text: String::new() }];
        assert_eq!(LAYERED.check(&files).len(), 5);
    }
}
