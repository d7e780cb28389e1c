//! The table of types that operators take, which a test of the operator table writes: a name, a tab, the types.

use std::collections::HashMap;

use crate::source::{Fault, Source};

/// The types by the operator's name. What is not there was not tried yet; what is there and no operator any more is of no use
/// here, and refused by that test.
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
