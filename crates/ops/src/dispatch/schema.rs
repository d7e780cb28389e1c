//! The arguments of a schema, as boxed kernels use them: the type of each, and whether it is written.

/// An argument as the schema has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argument<'s> {
    /// Its type up to the alias annotation: `Tensor`, `Tensor?`, `int[2]`.
    pub base: &'s str,
    /// The rest of the type after the annotation: `[]` of `Tensor(a!)[]`.
    pub rest: &'s str,
    /// Its name.
    pub name: &'s str,
    /// Whether the schema says that the operator writes to it, `(a!)`. Some write without it: the storage's version tells.
    pub is_written: bool,
}

/// The arguments of `name(Tensor self, *, int dim=0) -> Tensor`.
pub(super) fn arguments(schema: &str) -> Vec<Argument<'_>> {
    let list = schema.find('(').map_or("", |start| &schema[start + 1..]);
    let mut found = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, character) in list.char_indices() {
        match character {
            '(' | '[' => depth += 1,
            ')' if depth == 0 => {
                found.extend(argument(&list[start..at]));
                break;
            }
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                found.extend(argument(&list[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// `Tensor(a!) self`, `int dim=0`; nothing for the `*` before keyword-only arguments.
fn argument(text: &str) -> Option<Argument<'_>> {
    let (ty, name) = text.trim().split_once(' ')?;
    let name = name.split('=').next().unwrap_or(name);
    let (base, marked) = ty.split_once('(').unwrap_or((ty, ""));
    let (marks, rest) = marked.split_once(')').unwrap_or_default();
    Some(Argument { base, rest, name, is_written: marks.contains('!') })
}
