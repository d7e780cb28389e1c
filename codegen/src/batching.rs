//! The kind of rule by which `vmap` computes an operator: what the field `batch` says, or else what the rest of the entry does.

use crate::model::Operator;
use crate::native_functions::NativeFunction;
use crate::schema::BaseType;
use crate::variants::{Variant, variant_of};

/// The values of the field `batch`, and the variants of `Kind` in crates/vmap/src/plan.rs.
pub(crate) const KINDS: &[(&str, &str)] = &[
    ("pointwise", "Pointwise"),
    ("reduction", "Reduction"),
    ("dims", "Dims"),
    ("views", "Views"),
    ("front", "Front"),
    ("matrices", "Matrices"),
    ("fold", "Fold"),
    ("random", "Random"),
    ("factory", "Factory"),
    ("special", "Special"),
    ("refused", "Refused"),
    ("out", "Out"),
    ("loop", "Loop"),
];

/// The arguments that name dimensions.
const DIMS: &[&str] = &["dim", "dims", "dim0", "dim1", "dim2", "dimension"];

/// The kind of an operator; `None` for composites without the field, of which only the operators that they call have rules.
pub(crate) fn kind(operator: &Operator<'_>) -> Option<&'static str> {
    let entry = operator.entry;
    if is_implicit_composite(entry) && entry.batch.is_none() {
        return None;
    }
    let is_out = operator.schema.is_out() || variant_of(&operator.schema.name) == Variant::Out;
    let name = if is_out { "out" } else { entry.batch.as_deref().unwrap_or_else(|| derived(entry)) };
    KINDS.iter().find(|(known, _)| *known == name).map(|(_, variant)| *variant)
}

/// Whether it is an implicit composite that is not taken apart under `vmap`, since the field names a rule for it.
pub(crate) fn is_composite_with_rule(operator: &Operator<'_>) -> bool {
    is_implicit_composite(operator.entry) && operator.entry.batch.is_some()
}

fn is_implicit_composite(entry: &NativeFunction) -> bool {
    entry.kernels().iter().any(|kernel| kernel.key == "CompositeImplicitAutograd")
}

fn derived(entry: &NativeFunction) -> &'static str {
    let has_tag = |tag: &str| entry.tags.iter().any(|own| own == tag);
    let schema = &entry.schema;
    let names_dim = |ty: &crate::schema::Type| {
        matches!(ty.innermost(), crate::schema::Type::Base(BaseType::Int | BaseType::SymInt))
    };
    let base = schema.name.base.as_str();
    match () {
        () if has_tag("nondeterministic_seeded") => "random",
        () if !schema.arguments().any(|argument| argument.ty.holds_tensors()) => "factory",
        () if has_tag("pointwise") || entry.structured_inherits.is_some() => "pointwise",
        () if has_tag("reduction") => "reduction",
        () if has_tag("inplace_view") => "refused",
        () if schema.is_view() => "views",
        () if schema
            .arguments()
            .any(|argument| DIMS.contains(&argument.name.as_str()) && names_dim(&argument.ty)) =>
        {
            "dims"
        }
        () if base.starts_with("linalg_") || base.starts_with("_linalg_") => "matrices",
        () => "loop",
    }
}
