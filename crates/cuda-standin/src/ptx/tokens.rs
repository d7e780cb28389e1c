//! The tokens of PTX.

/// A token: words include dots and the signs of registers, so `add.rn.f32`, `.reg` and `%tid.x` are one each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Word(&'a str),
    Number(Literal),
    Text,
    Sign(char),
}

/// A number in the source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Literal {
    Int(u64),
    /// The bits of a number of 32 bits, `0f3F800000`.
    Single(u32),
    Double(u64),
}

/// The tokens of a program with their lines, and the position of the next one.
#[derive(Debug)]
pub(super) struct Tokens<'a> {
    all: Vec<(Token<'a>, u32)>,
    next: usize,
}

/// An error, with the line.
pub(super) type Parsed<T> = Result<T, String>;

impl<'a> Tokens<'a> {
    pub(super) fn new(source: &'a str) -> Parsed<Self> {
        let mut scanner = Scanner { source, position: 0, line: 1 };
        let mut all = Vec::new();
        while let Some(token) = scanner.token()? {
            all.push(token);
        }
        Ok(Tokens { all, next: 0 })
    }

    pub(super) fn line(&self) -> u32 {
        let at = self.next.min(self.all.len().saturating_sub(1));
        self.all.get(at).map_or(0, |(_, line)| *line)
    }

    pub(super) fn peek(&self) -> Option<Token<'a>> {
        self.all.get(self.next).map(|(token, _)| *token)
    }

    pub(super) fn peek_second(&self) -> Option<Token<'a>> {
        self.all.get(self.next + 1).map(|(token, _)| *token)
    }

    pub(super) fn advance(&mut self) -> Option<Token<'a>> {
        let token = self.peek();
        self.next += 1;
        token
    }

    /// Takes a sign if it comes next.
    pub(super) fn takes(&mut self, sign: char) -> bool {
        let is_next = self.peek() == Some(Token::Sign(sign));
        self.next += usize::from(is_next);
        is_next
    }

    /// Takes a word if it comes next.
    pub(super) fn takes_word(&mut self, word: &str) -> bool {
        let is_next = self.peek() == Some(Token::Word(word));
        self.next += usize::from(is_next);
        is_next
    }

    pub(super) fn expect(&mut self, sign: char) -> Parsed<()> {
        if self.takes(sign) {
            return Ok(());
        }
        self.fail(&format!("expected `{sign}`"))
    }

    pub(super) fn word(&mut self) -> Parsed<&'a str> {
        match self.peek() {
            Some(Token::Word(word)) => {
                self.next += 1;
                Ok(word)
            }
            _ => self.fail("expected a word"),
        }
    }

    pub(super) fn integer(&mut self) -> Parsed<u64> {
        let is_negative = self.takes('-');
        match self.peek() {
            Some(Token::Number(Literal::Int(value))) => {
                self.next += 1;
                Ok(if is_negative { value.wrapping_neg() } else { value })
            }
            _ => self.fail("expected an integer"),
        }
    }

    /// An error at the next token.
    pub(super) fn fail<T>(&self, what: &str) -> Parsed<T> {
        Err(format!("line {}: {what} before {:?}", self.line(), self.peek()))
    }
}

struct Scanner<'a> {
    source: &'a str,
    position: usize,
    line: u32,
}

fn is_word_start(c: char) -> bool {
    c.is_ascii_alphabetic() || matches!(c, '%' | '$' | '_' | '.')
}

fn is_in_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '$' | '_' | '.')
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        self.source.get(self.position..).unwrap_or_default()
    }

    fn skip(&mut self, bytes: usize) -> &'a str {
        let text = self.rest().get(..bytes).unwrap_or_default();
        self.line += text.bytes().filter(|byte| *byte == b'\n').count() as u32;
        self.position += bytes;
        text
    }

    /// Skips what is between tokens.
    fn skip_blank(&mut self) -> Parsed<()> {
        loop {
            let rest = self.rest();
            let length = match rest.chars().next() {
                Some(c) if c.is_whitespace() => c.len_utf8(),
                Some('/') if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
                Some('/') if rest.starts_with("/*") => match rest.find("*/") {
                    Some(end) => end + 2,
                    None => return Err(format!("line {}: a comment does not end", self.line)),
                },
                _ => return Ok(()),
            };
            self.skip(length);
        }
    }

    fn token(&mut self) -> Parsed<Option<(Token<'a>, u32)>> {
        self.skip_blank()?;
        let (rest, line) = (self.rest(), self.line);
        let Some(first) = rest.chars().next() else { return Ok(None) };
        let token = if first.is_ascii_digit() {
            self.number()?
        } else if is_word_start(first) {
            Token::Word(self.scan_word(rest))
        } else if first == '"' {
            let end = rest.get(1..).and_then(|rest| rest.find('"'));
            let Some(end) = end else { return Err(format!("line {line}: a text does not end")) };
            self.skip(end + 2);
            Token::Text
        } else {
            self.skip(first.len_utf8());
            Token::Sign(first)
        };
        Ok(Some((token, line)))
    }

    /// A word may have `::` inside, as in `ld.global.L1::no_allocate`.
    fn scan_word(&mut self, rest: &'a str) -> &'a str {
        let mut length = 1;
        loop {
            let after = rest.get(length..).unwrap_or_default();
            match after.chars().next() {
                Some(c) if is_in_word(c) => length += 1,
                Some(':') if after.starts_with("::") => length += 2,
                _ => return self.skip(length),
            }
        }
    }

    fn number(&mut self) -> Parsed<Token<'a>> {
        let rest = self.rest();
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let line = self.line;
        let text = self.skip(length);
        let value = match text.get(..2) {
            Some("0f" | "0F") => u32::from_str_radix(&text[2..], 16).map(Literal::Single),
            Some("0d" | "0D") => u64::from_str_radix(&text[2..], 16).map(Literal::Double),
            Some("0x" | "0X") => u64::from_str_radix(text[2..].trim_end_matches('U'), 16).map(Literal::Int),
            Some("0b" | "0B") => u64::from_str_radix(text[2..].trim_end_matches('U'), 2).map(Literal::Int),
            Some(_) if text.starts_with('0') && text != "0U" => {
                u64::from_str_radix(text[1..].trim_end_matches('U'), 8).map(Literal::Int)
            }
            _ => text.trim_end_matches('U').parse().map(Literal::Int),
        };
        // Versions, `9.0`, are the only numbers with a dot.
        let fraction = self
            .rest()
            .strip_prefix('.')
            .map(|rest| rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
        if let Some(digits) = fraction {
            self.skip(1 + digits);
        }
        value.map(Token::Number).map_err(|error| format!("line {line}: `{text}`: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_an_instruction() {
        let text = "// c\n@!%p1 ld.global.v2.f32 {%f1, _}, [%rd1+-8]; /* x\n */ mov.f32 %f1, 0f3F800000; L1: 077 0x1FU \"a b\"";
        let mut tokens = Tokens::new(text).unwrap();
        let mut all = Vec::new();
        while let Some(token) = tokens.advance() {
            all.push(token);
        }
        let (word, sign) = (Token::Word, Token::Sign);
        let int = |value| Token::Number(Literal::Int(value));
        assert_eq!(
            all,
            [
                sign('@'),
                sign('!'),
                word("%p1"),
                word("ld.global.v2.f32"),
                sign('{'),
                word("%f1"),
                sign(','),
                word("_"),
                sign('}'),
                sign(','),
                sign('['),
                word("%rd1"),
                sign('+'),
                sign('-'),
                int(8),
                sign(']'),
                sign(';'),
                word("mov.f32"),
                word("%f1"),
                sign(','),
                Token::Number(Literal::Single(0x3f80_0000)),
                sign(';'),
                word("L1"),
                sign(':'),
                int(63),
                int(31),
                Token::Text,
            ]
        );
    }
}
