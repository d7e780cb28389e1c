//! The schemas of operators, each parsed once by the crate `schema`.

use flambeau_core::{Result, error};
use flambeau_schema::FunctionSchema;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Parsed schemas by the address and the length of their text. Operators live as long as the process, and so do their schemas.
static PARSED: LazyLock<Mutex<HashMap<(usize, usize), &'static FunctionSchema>>> =
    LazyLock::new(Mutex::default);

/// The schema of this text, parsed at the first call.
///
/// # Errors
/// `InvalidArgument` for a malformed schema.
pub(super) fn parsed(text: &'static str) -> Result<&'static FunctionSchema> {
    let key = (text.as_ptr().addr(), text.len());
    let mut known = PARSED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(schema) = known.get(&key) {
        return Ok(schema);
    }
    let schema = FunctionSchema::parse_defined(text).map_err(|cause| {
        error!(InvalidArgument("operator", "schema"), "expected the schema of an operator: {cause}")
    })?;
    let schema: &'static FunctionSchema = Box::leak(Box::new(schema));
    known.insert(key, schema);
    Ok(schema)
}
