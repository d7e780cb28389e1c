//! The fields of a struct, and what `#[module(..)]` says of them.

use syn::{Attribute, Data, DeriveInput, Error, Field, Fields, Index, Member, Result, Type};

/// A field that is visited.
pub(crate) struct Part<'a> {
    pub(crate) member: Member,
    /// Its name in state dicts.
    pub(crate) name: String,
    pub(crate) ty: &'a Type,
    pub(crate) role: Role,
}

/// How a field is visited.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Role {
    /// A parameter, a module, a training flag, or several of them: its type says which.
    Part,
    /// A tensor that is saved but not trained.
    Buffer,
}

/// What `#[module(..)]` says of a field.
#[derive(Default)]
struct Marks {
    skip: bool,
    buffer: bool,
}

/// The fields that are visited, in their order.
pub(crate) fn parts(input: &DeriveInput) -> Result<Vec<Part<'_>>> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "`Module` is derived for structs: expected one"));
    };
    let fields: &Fields = &data.fields;
    fields.iter().enumerate().filter_map(|(index, field)| part(index, field).transpose()).collect()
}

fn part(index: usize, field: &Field) -> Result<Option<Part<'_>>> {
    let marks = marks(&field.attrs)?;
    if marks.skip {
        return Ok(None);
    }
    let (member, name) = match &field.ident {
        Some(ident) => (Member::Named(ident.clone()), ident.to_string().trim_start_matches("r#").to_owned()),
        None => (Member::Unnamed(Index::from(index)), index.to_string()),
    };
    let role = if marks.buffer { Role::Buffer } else { Role::Part };
    Ok(Some(Part { member, name, ty: &field.ty, role }))
}

fn marks(attributes: &[Attribute]) -> Result<Marks> {
    let mut marks = Marks::default();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("module")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("skip") {
                marks.skip = true;
            } else if meta.path.is_ident("buffer") {
                marks.buffer = true;
            } else {
                return Err(meta.error("expected `skip` or `buffer`"));
            }
            Ok(())
        })?;
        if marks.skip && marks.buffer {
            return Err(Error::new_spanned(attribute, "a field that is skipped is no buffer"));
        }
    }
    Ok(marks)
}
