//! What boxed kernels need of a schema: the type of each argument, and whether it is written.

/// An argument as the schema has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argument<'s> {
    /// Its type without marks of aliasing: `Tensor`, `Tensor?`, `int[2]`.
    pub ty: &'s str,
    /// Its name.
    pub name: &'s str,
    /// Whether the operator writes to it: `(a!)`.
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

/// `Tensor(a!) self`, `int dim=0`; nothing for the `*` before arguments that go by name only.
fn argument(text: &str) -> Option<Argument<'_>> {
    let (ty, name) = text.trim().split_once(' ')?;
    let name = name.split('=').next().unwrap_or(name);
    let marks = ty.split_once('(').and_then(|(_, marks)| marks.split_once(')'));
    let is_written = marks.is_some_and(|(marks, _)| marks.contains('!'));
    Some(Argument { ty: ty.split('(').next().unwrap_or(ty), name, is_written })
}
