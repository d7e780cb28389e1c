//! Reads the table of dtypes that operators support, which a test of the operator table writes: a name, a tab, the dtypes.

use std::collections::HashMap;

use crate::source::{Fault, Source};

/// The dtypes by the operator's name. Operators that are missing were not tested yet. Names of operators that no longer exist are
/// ignored here, and refused by that test.
pub(super) type Types<'a> = HashMap<&'a str, &'a str>;

pub(super) fn read(source: Source<'_>) -> Result<Types<'_>, Fault> {
    let mut types = HashMap::new();
    let mut at = 0;
    for line in source.text.split_inclusive('\n') {
        let text = line.trim_end();
        if !text.is_empty() && !text.starts_with('#') {
            let (name, taken) = text
                .split_once('\t')
                .ok_or_else(|| source.fault(at, "expected an operator, a tab and its types"))?;
            types.insert(name, taken);
        }
        at += line.len();
    }
    Ok(types)
}
