//! The table of the kinds of rules by which `vmap` computes operators.

use std::fmt::Write;

use super::{GeneratedFile, HEADER};
use crate::batching::{KINDS, is_composite_with_rule, kind};
use crate::model::Operator;
use crate::naming;

/// The folder of the table.
pub const VMAP_FOLDER: &str = "crates/vmap/src/generated";

/// The operators of each kind, in the order of the file.
pub(crate) fn file(operators: &[Operator<'_>]) -> GeneratedFile {
    let mut body = String::from(
        "//! The kind of rule of each operator.\n\nuse crate::plan::Kind;\nuse flambeau_ops::dispatch::OperatorInfo;\nuse \
         flambeau_ops::ops;\n\n/// The operators of each kind. Implicit composites are of none.\npub(crate) static KINDS: &[(Kind, \
         &[&dyn OperatorInfo])] = &[\n",
    );
    for (_, variant) in KINDS {
        let of_kind = operators.iter().filter(|operator| kind(operator) == Some(*variant));
        let statics: String = of_kind
            .map(|operator| format!("&ops::{},\n", naming::operator_static(&operator.schema.name)))
            .collect();
        // Writing to a string does not fail.
        let _ = writeln!(body, "(Kind::{variant}, &[\n{statics}]),");
    }
    body.push_str("];\n");
    for operator in operators.iter().filter(|operator| is_composite_with_rule(operator)) {
        let name = naming::operator_static(&operator.schema.name);
        let _ = write!(body, "\ncrate::fallback::composite!(ops::{name});\n");
    }
    GeneratedFile { path: format!("{VMAP_FOLDER}/mod.rs"), text: format!("{HEADER}\n\n{body}") }
}
