//! The `dispatch` table of an entry: the kernel for each dispatch key.

use std::fmt;

use crate::schema::is_identifier;
use crate::source::{Fault, Source};
use crate::yaml::{Node, Scalar, Value};

/// A kernel and the dispatch key for which it is registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The dispatch key, as the file names it.
    pub key: String,
    /// The function.
    pub path: KernelPath,
    /// Byte offset of the path.
    pub at: usize,
}

/// The path of a kernel, `binary::add`, as its segments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KernelPath(pub Vec<String>);

/// The backends a kernel can be written for, and the kinds of tensor on them.
const BACKENDS: &[&str] = &[
    "CPU",
    "CUDA",
    "HIP",
    "XLA",
    "MTIA",
    "MPS",
    "IPU",
    "XPU",
    "HPU",
    "VE",
    "Lazy",
    "Meta",
    "PrivateUse1",
    "PrivateUse2",
    "PrivateUse3",
];
const FUNCTIONALITIES: &[&str] = &["", "Quantized", "Sparse", "SparseCsr", "NestedTensor"];
const OTHER_KEYS: &[&str] = &["MkldnnCPU", "ZeroTensor"];
pub(super) const COMPOSITES: &[&str] = &[
    "CompositeImplicitAutograd",
    "CompositeImplicitAutogradNestedTensor",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
];

/// The keys under which a derivative may be registered.
pub(crate) fn is_autograd_key(key: &str) -> bool {
    let backend = key.strip_prefix("Autograd");
    backend.is_some_and(|backend| backend == "NestedTensor" || BACKENDS.contains(&backend))
}

fn is_kernel_key(key: &str) -> bool {
    let on_backend =
        |prefix: &&str| key.strip_prefix(prefix).is_some_and(|backend| BACKENDS.contains(&backend));
    COMPOSITES.contains(&key) || OTHER_KEYS.contains(&key) || FUNCTIONALITIES.iter().any(on_backend)
}

pub(super) fn read(source: Source<'_>, node: Node) -> Result<Vec<Kernel>, Fault> {
    let at = node.at;
    let Value::Map(fields) = node.value else {
        return Err(node.expected(source, "dispatch", "a map from keys to kernels"));
    };
    let mut kernels: Vec<Kernel> = vec![];
    for (keys, kernel) in fields {
        let path = path(source, &kernel.into_text(source, "dispatch")?)?;
        for key in keys.text.split(',').map(str::trim) {
            if !is_kernel_key(key) {
                return Err(source.fault(keys.at, format!("unknown dispatch key `{key}`")));
            }
            if kernels.iter().any(|known| known.key == key) {
                return Err(source.fault(keys.at, format!("dispatch key `{key}` is given twice")));
            }
            kernels.push(Kernel { key: key.to_owned(), path: path.clone(), at: keys.at });
        }
    }
    one_composite(source, at, &kernels)?;
    Ok(kernels)
}

fn path(source: Source<'_>, text: &Scalar) -> Result<KernelPath, Fault> {
    let parts: Vec<String> = text.text.split("::").map(str::to_owned).collect();
    if parts.len() > 4 || !parts.iter().all(|part| !part.is_empty() && is_identifier(part)) {
        return Err(text.fault(source, 0, format!("`{}` is not the path of a kernel", text.text)));
    }
    Ok(KernelPath(parts))
}

/// Each composite key subsumes the others, except that nested tensors may have one of their own.
fn one_composite(source: Source<'_>, at: usize, kernels: &[Kernel]) -> Result<(), Fault> {
    let nested = COMPOSITES[1];
    let composites: Vec<&str> =
        kernels.iter().map(|kernel| kernel.key.as_str()).filter(|key| COMPOSITES.contains(key)).collect();
    let beside_nested =
        composites.len() == 2 && composites.contains(&nested) && !composites.contains(&COMPOSITES[3]);
    if composites.len() <= 1 || beside_nested {
        return Ok(());
    }
    Err(source.fault(at, format!("expected one composite kernel but got {}", composites.join(", "))))
}

impl KernelPath {
    /// The function's own name.
    pub fn name(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }

    /// The module of the function, if the path names one.
    pub fn module(&self) -> Option<&str> {
        self.0.len().checked_sub(2).map(|index| self.0[index].as_str())
    }
}

impl fmt::Display for KernelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("::"))
    }
}
