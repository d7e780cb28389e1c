//! The parser of schemas, which keeps the position of every token for errors.

use super::{
    Alias, AliasSet, Argument, BaseType, Default, FunctionSchema, OperatorName, Return, SchemaError, Type,
    literal, rules,
};

const CLASS_PREFIX: &str = "__torch__.torch.classes.";

/// The maximum number of `?` and `[]` in a type, so that no type overflows the stack; PyTorch uses two.
const MAX_SUFFIXES: usize = 4;

/// The maximum length of a list of a given length: a single default stands for so many items. PyTorch uses six.
const MAX_LIST_SIZE: u32 = 64;

/// A schema, with the positions of its arguments and results.
pub(super) struct Positioned {
    pub(super) schema: FunctionSchema,
    pub(super) arguments: Vec<usize>,
    pub(super) returns: Vec<usize>,
}

/// A schema of the library, which satisfies its rules.
pub(super) fn schema(text: &str) -> Result<FunctionSchema, SchemaError> {
    let parsed = positioned(text, operator_name, push_argument)?;
    rules::check(&parsed)?;
    Ok(parsed.schema)
}

/// A schema of an operator from outside.
pub(super) fn defined(text: &str) -> Result<FunctionSchema, SchemaError> {
    let parsed = positioned(text, any_operator_name, push_defined_argument)?;
    rules::check_defined(&parsed)?;
    Ok(parsed.schema)
}

/// Adds an argument, which begins at a position, before or after the `*`.
type Push = fn(Argument, bool, usize, &mut FunctionSchema) -> Result<(), SchemaError>;

fn positioned(
    text: &str,
    read_name: fn(&str, usize) -> Result<OperatorName, SchemaError>,
    push: Push,
) -> Result<Positioned, SchemaError> {
    let mut cursor = Cursor { text, at: 0 };
    let head = cursor.take_while(|c| c != '(');
    let name = read_name(head, 0)?;
    let mut parsed = Positioned {
        schema: FunctionSchema { name, positional: vec![], keyword: vec![], out: vec![], returns: vec![] },
        arguments: vec![],
        returns: vec![],
    };
    cursor.expect("(", "`(` and the arguments after the operator's name")?;
    cursor.arguments(&mut parsed, push)?;
    cursor.expect(" -> ", "` -> ` and the returns after the arguments")?;
    cursor.returns(&mut parsed)?;
    if !cursor.rest().is_empty() {
        return Err(cursor.error(format!("expected the end of the schema but got `{}`", cursor.rest())));
    }
    Ok(parsed)
}

/// The name of an operator of the library.
pub(super) fn operator_name(text: &str, at: usize) -> Result<OperatorName, SchemaError> {
    let name = any_operator_name(text, at)?;
    if name.base.ends_with("_out") {
        let base = name.base;
        let message = format!("`{base}`: the ending `_out` is reserved; name the overload `out` instead");
        return Err(SchemaError { at, message });
    }
    Ok(name)
}

fn any_operator_name(text: &str, at: usize) -> Result<OperatorName, SchemaError> {
    let (namespace, name) = match text.split_once("::") {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, text),
    };
    let (base, overload) = match name.split_once('.') {
        Some((base, overload)) => (base, Some(overload)),
        None => (name, None),
    };
    let error = |message: String| Err(SchemaError { at, message });
    if base.is_empty() {
        return error("the operator has no name".to_owned());
    }
    if overload == Some("") {
        return error(format!("`{base}.` has a dot but no overload name"));
    }
    if !is_identifier(base)
        || base.trim_matches('_').is_empty()
        || namespace.is_some_and(|n| !is_identifier(n))
    {
        return error(format!("`{text}` is not an operator's name"));
    }
    if !overload.unwrap_or("x").chars().all(is_word) {
        return error(format!("`{}` is not an overload name", overload.unwrap_or_default()));
    }
    let (namespace, overload) = (namespace.map(str::to_owned), overload.unwrap_or_default().to_owned());
    Ok(OperatorName { namespace, base: base.to_owned(), overload })
}

/// Parses a single argument, as in `Tensor(a!) self`.
///
/// # Errors
/// What is wrong and at which byte.
pub fn argument(text: &str) -> Result<Argument, SchemaError> {
    let mut cursor = Cursor { text, at: 0 };
    let argument = cursor.argument()?;
    if cursor.rest().is_empty() {
        Ok(argument)
    } else {
        Err(cursor.error("expected the end of the argument"))
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Whether the text is a name: letters, digits and underscores, without a digit in front.
pub fn is_identifier(text: &str) -> bool {
    text.chars().all(is_word) && text.starts_with(|c: char| !c.is_ascii_digit())
}

pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn error(&self, message: impl Into<String>) -> SchemaError {
        SchemaError { at: self.at, message: message.into() }
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn expect(&mut self, token: &str, what: &str) -> Result<(), SchemaError> {
        if self.eat(token) { Ok(()) } else { Err(self.error(format!("expected {what}{}", self.got()))) }
    }

    fn got(&self) -> String {
        match self.rest().chars().next() {
            Some(c) => format!(" but got `{c}`"),
            None => " but the schema ends".to_owned(),
        }
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn identifier(&mut self, what: &str) -> Result<String, SchemaError> {
        let start = self.at;
        let word = self.take_while(is_word);
        if is_identifier(word) && !word.is_empty() {
            return Ok(word.to_owned());
        }
        self.at = start;
        Err(self.error(format!("expected {what}{}", self.got())))
    }

    fn arguments(&mut self, parsed: &mut Positioned, push: Push) -> Result<(), SchemaError> {
        if self.eat(")") {
            return Ok(());
        }
        let mut star = None;
        loop {
            let start = self.at;
            if self.eat("*") {
                if star.replace(start).is_some() {
                    return Err(SchemaError { at: start, message: "`*` is given twice".to_owned() });
                }
            } else {
                let argument = self.argument()?;
                parsed.arguments.push(start);
                push(argument, star.is_some(), start, &mut parsed.schema)?;
            }
            if !self.eat(", ") {
                break;
            }
        }
        self.expect(")", "`, ` or `)` after an argument")?;
        match star {
            Some(at) if parsed.schema.keyword.is_empty() && parsed.schema.out.is_empty() => {
                Err(SchemaError { at, message: "no argument follows the `*`".to_owned() })
            }
            _ => Ok(()),
        }
    }

    fn argument(&mut self) -> Result<Argument, SchemaError> {
        let (ty, alias) = self.annotated_type()?;
        self.expect(" ", "a space and the argument's name")?;
        let name = self.identifier("the argument's name")?;
        let default = if self.eat("=") { Some(self.default(&ty)?) } else { None };
        Ok(Argument { name, ty, alias, default })
    }

    fn default(&mut self, ty: &Type) -> Result<Default, SchemaError> {
        let start = self.at;
        let value = literal::scan(self.rest()).map_err(|message| self.error(message))?;
        self.at += value.1;
        let text = self.text[start..self.at].to_owned();
        if let Some(expected) = literal::mismatch(&value.0, ty) {
            let message = match expected.as_str() {
                "no default" => format!("a `{ty}` takes no default"),
                _ => format!("expected {expected} as the default of a `{ty}` but got `{text}`"),
            };
            return Err(SchemaError { at: start, message });
        }
        Ok(Default { text, value: value.0 })
    }

    fn returns(&mut self, parsed: &mut Positioned) -> Result<(), SchemaError> {
        let start = self.at;
        let parenthesised = self.eat("(");
        if parenthesised && self.eat(")") {
            return Ok(());
        }
        loop {
            parsed.returns.push(self.at);
            let result = self.result()?;
            parsed.schema.returns.push(result);
            if !parenthesised || !self.eat(", ") {
                break;
            }
        }
        if !parenthesised {
            return Ok(());
        }
        self.expect(")", "`, ` or `)` after a return")?;
        if parsed.returns.len() == 1 {
            let message = "a single return stands without parentheses".to_owned();
            return Err(SchemaError { at: start, message });
        }
        Ok(())
    }

    fn result(&mut self) -> Result<Return, SchemaError> {
        let (ty, alias) = self.annotated_type()?;
        let name = if self.eat(" ") { Some(self.identifier("the return's name")?) } else { None };
        Ok(Return { name, ty, alias })
    }

    fn annotated_type(&mut self) -> Result<(Type, Option<Alias>), SchemaError> {
        let base = self.base_type()?;
        let start = self.at;
        let alias = if self.eat("(") { Some(self.alias()?) } else { None };
        let ty = self.suffixes(base.clone())?;
        let plain = match &ty {
            Type::Base(BaseType::Tensor) => true,
            Type::Optional(inner) | Type::List(inner, None) => **inner == Type::Base(BaseType::Tensor),
            _ => false,
        };
        if alias.is_some() && !plain {
            let message =
                format!("an alias annotation needs `Tensor`, `Tensor?` or `Tensor[]` but got `{ty}`");
            return Err(SchemaError { at: start, message });
        }
        Ok((ty, alias))
    }

    fn base_type(&mut self) -> Result<Type, SchemaError> {
        let start = self.at;
        if self.eat(CLASS_PREFIX) {
            let name = self.take_while(|c| is_word(c) || c == '.');
            if name.split('.').all(|part| !part.is_empty() && is_identifier(part)) {
                return Ok(Type::Class(name.to_owned()));
            }
            return Err(self.error("expected the name of a class"));
        }
        let word = self.take_while(is_word);
        let base = BaseType::from_name(word).map(Type::Base);
        base.ok_or_else(|| {
            self.at = start;
            if word.is_empty() {
                self.error(format!("expected a type{}", self.got()))
            } else {
                self.error(format!("unknown type `{word}`"))
            }
        })
    }

    fn suffixes(&mut self, mut ty: Type) -> Result<Type, SchemaError> {
        for _ in 0..=MAX_SUFFIXES {
            if self.eat("?") {
                if ty.is_optional() {
                    let message = "`??`: an optional of an optional".to_owned();
                    return Err(SchemaError { at: self.at - 1, message });
                }
                ty = Type::Optional(Box::new(ty));
            } else if self.eat("[") {
                let size = self.list_size()?;
                self.expect("]", "`]`")?;
                ty = Type::List(Box::new(ty), size);
            } else {
                return Ok(ty);
            }
        }
        Err(self.error("the type nests too deep"))
    }

    fn list_size(&mut self) -> Result<Option<u32>, SchemaError> {
        let start = self.at;
        let digits = self.take_while(|c| c.is_ascii_digit());
        if digits.is_empty() {
            return Ok(None);
        }
        let is_allowed = |size: &u32| *size <= MAX_LIST_SIZE && !digits.starts_with('0');
        let size = digits.parse().ok().filter(is_allowed);
        let message =
            || format!("expected the size of a list, from 1 to {MAX_LIST_SIZE}, but got `{digits}`");
        size.map(Some).ok_or_else(|| SchemaError { at: start, message: message() })
    }

    fn alias(&mut self) -> Result<Alias, SchemaError> {
        let mut before = vec![self.alias_set()?];
        while self.eat("|") {
            before.push(self.alias_set()?);
        }
        let mut after = vec![];
        if self.eat(" -> ") {
            if self.eat("*") {
                after.push("*".to_owned());
            } else {
                after.push(self.alias_letter()?);
                while self.eat("|") {
                    after.push(self.alias_letter()?);
                }
            }
        }
        self.expect(")", "`!`, `|`, ` -> ` or `)` in an alias annotation")?;
        Ok(Alias { before, after })
    }

    fn alias_set(&mut self) -> Result<AliasSet, SchemaError> {
        Ok(AliasSet { name: self.alias_letter()?, write: self.eat("!") })
    }

    fn alias_letter(&mut self) -> Result<String, SchemaError> {
        if !self.rest().starts_with(|c: char| c.is_ascii_lowercase()) {
            return Err(self.error(format!("expected the letter of an alias set{}", self.got())));
        }
        let start = self.at;
        self.at += 1;
        // `a0`, as schemas have it that follow from a function.
        self.take_while(|c| c.is_ascii_digit());
        Ok(self.text[start..self.at].to_owned())
    }
}

fn push_argument(
    argument: Argument,
    after_star: bool,
    at: usize,
    schema: &mut FunctionSchema,
) -> Result<(), SchemaError> {
    if !after_star || !argument.is_written() && schema.out.is_empty() {
        return push_defined_argument(argument, after_star, at, schema);
    }
    ensure_new(&argument, at, schema)?;
    if !argument.is_written() {
        let message = format!("`{}` is only read but follows an `out=` argument", argument.name);
        return Err(SchemaError { at, message });
    }
    schema.out.push(argument);
    Ok(())
}

fn push_defined_argument(
    argument: Argument,
    after_star: bool,
    at: usize,
    schema: &mut FunctionSchema,
) -> Result<(), SchemaError> {
    ensure_new(&argument, at, schema)?;
    if after_star {
        schema.keyword.push(argument);
        return Ok(());
    }
    let after_default = schema.positional.last().is_some_and(|last| last.default.is_some());
    if argument.default.is_none() && after_default {
        let message = format!("`{}` has no default but follows one that has", argument.name);
        return Err(SchemaError { at, message });
    }
    schema.positional.push(argument);
    Ok(())
}

fn ensure_new(argument: &Argument, at: usize, schema: &FunctionSchema) -> Result<(), SchemaError> {
    if schema.arguments().any(|known| known.name == argument.name) {
        return Err(SchemaError { at, message: format!("argument `{}` is given twice", argument.name) });
    }
    Ok(())
}
