//! The rules for a signature as a whole, beyond its syntax. They are those that PyTorch's own file satisfies.

use super::parse::Positioned;
use super::{Alias, AliasSet, Argument, BaseType, FunctionSchema, SchemaError, Type};

pub(super) fn check(parsed: &Positioned) -> Result<(), SchemaError> {
    let schema = &parsed.schema;
    check_written_once(parsed)?;
    check_return_names(parsed)?;
    check_return_aliases(parsed)?;
    check_out(parsed)?;
    if schema.is_in_place() {
        check_in_place(schema)?;
    }
    if schema.tensor_options().is_some() && !schema.is_functional() {
        return head("`dtype, layout, device, pin_memory` belong to functional operators only");
    }
    if schema.name.overload.contains("functional") && !schema.is_functional() {
        return head("an overload called `functional` writes no argument");
    }
    Ok(())
}

/// What holds for operators from outside too: names are unique, and a result aliases an argument that exists.
pub(super) fn check_defined(parsed: &Positioned) -> Result<(), SchemaError> {
    check_written_once(parsed)?;
    check_return_names(parsed)?;
    for (result, &at) in parsed.schema.returns.iter().zip(&parsed.returns) {
        let letters = result.alias.iter().flat_map(|alias| &alias.before);
        if let Some(letter) = letters.into_iter().find(|letter| !is_carried(&parsed.schema, &letter.name)) {
            return fail(at, format!("no argument carries the alias set `{}`", letter.name));
        }
    }
    Ok(())
}

fn head(message: impl Into<String>) -> Result<(), SchemaError> {
    fail(0, message)
}

fn fail(at: usize, message: impl Into<String>) -> Result<(), SchemaError> {
    Err(SchemaError { at, message: message.into() })
}

/// Checks that an alias set that is written has only one argument.
fn check_written_once(parsed: &Positioned) -> Result<(), SchemaError> {
    let sets = |argument: &Argument| argument.alias.as_ref().map_or(vec![], |alias| alias.before.clone());
    let all: Vec<Vec<AliasSet>> = parsed.schema.arguments().map(sets).collect();
    for (index, own) in all.iter().enumerate() {
        let written = own.iter().find(|set| {
            let shared = |other: &AliasSet| other.name == set.name && (other.write || set.write);
            all[..index].iter().flatten().any(shared)
        });
        if let Some(set) = written {
            let message =
                format!("the alias set `{}` is written and belongs to another argument too", set.name);
            return fail(parsed.arguments[index], message);
        }
    }
    Ok(())
}

fn check_return_names(parsed: &Positioned) -> Result<(), SchemaError> {
    for (index, result) in parsed.schema.returns.iter().enumerate() {
        let Some(name) = &result.name else { continue };
        if parsed.schema.returns[..index].iter().any(|known| known.name.as_ref() == Some(name)) {
            return fail(parsed.returns[index], format!("return `{name}` is given twice"));
        }
    }
    Ok(())
}

fn check_return_aliases(parsed: &Positioned) -> Result<(), SchemaError> {
    let schema = &parsed.schema;
    let written =
        schema.returns.iter().filter(|result| result.alias.as_ref().is_some_and(Alias::writes)).count();
    if written > 0 && written < schema.returns.len() {
        let message = "the returns must be all written arguments, or all not";
        return fail(parsed.returns[0], message);
    }
    for (result, &at) in schema.returns.iter().zip(&parsed.returns) {
        let Some(alias) = &result.alias else { continue };
        if alias.writes() && !returnable(schema).any(|argument| argument.alias.as_ref() == Some(alias)) {
            let message = format!("`({alias})` must be `self` or an `out=` argument to be returned");
            return fail(at, message);
        }
        if let Some(stray) = alias.before.iter().find(|set| !is_carried(schema, &set.name)) {
            return fail(at, format!("no argument carries the alias set `{}`", stray.name));
        }
    }
    Ok(())
}

/// The written arguments that an operator may return, so that calls can be chained.
fn returnable(schema: &FunctionSchema) -> impl Iterator<Item = &Argument> {
    schema.self_argument().into_iter().chain(&schema.out)
}

fn is_carried(schema: &FunctionSchema, letter: &str) -> bool {
    let aliases = || schema.arguments().filter_map(|argument| argument.alias.as_ref());
    aliases().any(|alias| alias.before.iter().any(|set| set.name == letter))
}

fn check_out(parsed: &Positioned) -> Result<(), SchemaError> {
    let schema = &parsed.schema;
    if schema.out.is_empty() {
        return Ok(());
    }
    if schema.is_in_place() {
        return head("an operator is either in-place or has `out=` arguments");
    }
    let is_tensor = |argument: &&Argument| argument.ty == Type::Base(BaseType::Tensor);
    let lists = schema.out.iter().any(|argument| !is_tensor(&argument));
    if lists && !schema.returns.is_empty() {
        return fail(parsed.returns[0], "an `out=` operator that writes a list returns nothing");
    }
    let returned: Vec<&Argument> =
        schema.out.iter().filter(|out| !out.name.starts_with("_scratch_")).collect();
    if !lists && returned.len() != schema.returns.len() {
        let (expected, got) = (returned.len(), schema.returns.len());
        return head(format!("expected one return for each `out=` argument, {expected}, but got {got}"));
    }
    let differs = returned.iter().zip(&schema.returns).position(|(out, result)| out.alias != result.alias);
    match differs {
        Some(index) if !lists => fail(
            parsed.returns[index],
            format!("expected the return to be the argument `{}`", returned[index].name),
        ),
        _ => Ok(()),
    }
}

fn check_in_place(schema: &FunctionSchema) -> Result<(), SchemaError> {
    let Some(target) = schema.self_argument().filter(|argument| argument.is_written()) else {
        return head("an in-place operator writes an argument called `self`: `Tensor(a!) self`");
    };
    match schema.returns.as_slice() {
        [result] if target.ty == Type::Base(BaseType::Tensor) && result.alias == target.alias => Ok(()),
        [] if target.ty != Type::Base(BaseType::Tensor) => Ok(()),
        _ if target.ty == Type::Base(BaseType::Tensor) => {
            head("an in-place operator returns its `self` and nothing else")
        }
        _ => head("an in-place operator on a list returns nothing"),
    }
}
