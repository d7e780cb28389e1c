//! The lexer: splits a formula into tokens.

use super::FormulaError;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Int(i64),
    Float(f64),
    Str(String),
    Word(String),
    Symbol(&'static str),
    End,
}

/// Longer symbols first, so that `<=` is not `<` and `=`.
const SYMBOLS: &[&str] = &[
    "==", "!=", "<=", ">=", "&&", "||", "(", ")", "[", "]", "{", "}", ",", ".", "+", "-", "*", "/", "%", "<",
    ">", "!",
];

/// The tokens, each with its position; the last is `End`.
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token)>, FormulaError> {
    let mut tokens: Vec<(usize, Token)> = vec![];
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        }
        let after_dot = tokens.last().is_some_and(|(_, token)| *token == Token::Symbol("."));
        let (token, length) =
            token(&text[at..], c, after_dot).map_err(|message| FormulaError::new(at, message))?;
        tokens.push((at, token));
        at += length;
    }
    tokens.push((text.len(), Token::End));
    Ok(tokens)
}

fn token(rest: &str, first: char, after_dot: bool) -> Result<(Token, usize), String> {
    if first.is_ascii_digit() {
        return number(rest, after_dot);
    }
    if first.is_ascii_alphabetic() || first == '_' {
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        return Ok((Token::Word(rest[..length].to_owned()), length));
    }
    if first == '"' {
        let length = rest[1..].find('"').ok_or("the text has no closing \"")?;
        let value = &rest[1..=length];
        if value.contains('\\') {
            return Err("a text in a formula has no escapes".to_owned());
        }
        return Ok((Token::Str(value.to_owned()), length + 2));
    }
    let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
    symbol.map(|symbol| (Token::Symbol(symbol), symbol.len())).ok_or_else(|| match first {
        '&' => "a formula has no borrows".to_owned(),
        '?' => "a formula has no `?`: errors are passed on by themselves".to_owned(),
        other => format!("`{other}` is not part of a formula"),
    })
}

/// `1`, `1.5`, `1e-5`; after a dot, only digits: `pair.0.1`.
fn number(rest: &str, after_dot: bool) -> Result<(Token, usize), String> {
    let bytes = rest.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut end = digits(0);
    let mut float = false;
    if !after_dot && bytes.get(end) == Some(&b'.') && digits(end + 1) > 0 {
        end += 1 + digits(end + 1);
        float = true;
    }
    if !after_dot && matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let power = digits((end + 1 + sign).min(bytes.len()));
        if power > 0 {
            end += 1 + sign + power;
            float = true;
        }
    }
    let word = &rest[..end];
    let next = rest[end..].chars().next().unwrap_or(' ');
    if next.is_ascii_alphanumeric() || next == '_' {
        return Err(format!("`{word}{next}..` is not a number"));
    }
    let value = if float { word.parse().ok().map(Token::Float) } else { word.parse().ok().map(Token::Int) };
    value.map(|token| (token, end)).ok_or_else(|| format!("`{word}` does not fit in 64 bits"))
}
