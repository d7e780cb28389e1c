//! The body of a function: declarations, labels and instructions.

use super::module::{Builder, bytes_of};
use super::opcode::Opcode;
use super::tokens::{Literal, Parsed, Token};
use crate::instruction::{Guarded, Op, Predicate};
use std::collections::HashMap;

/// An operand.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand<'s> {
    Name(&'s str),
    /// `!%p1`.
    Not(&'s str),
    Number(Literal),
    /// `[base+offset]`, and `name+offset` without brackets.
    Address {
        base: Option<&'s str>,
        offset: i64,
    },
    /// In braces or parentheses.
    List(Vec<Operand<'s>>),
    /// `%r1|%p1`.
    Pair(&'s str, &'s str),
}

/// Labels of a function, and the branches to them.
#[derive(Debug, Default)]
pub(super) struct Labels<'s> {
    known: HashMap<&'s str, u32>,
    branches: Vec<(usize, &'s str, u32)>,
}

impl<'s> Labels<'s> {
    /// Notes that an instruction branches to a label.
    pub(super) fn branch(&mut self, at: usize, label: &'s str, line: u32) {
        self.branches.push((at, label, line));
    }
}

impl<'s> Builder<'s, '_> {
    /// Decodes up to the brace that closes the function.
    pub(super) fn body(&mut self) -> Parsed<()> {
        let mut labels = Labels::default();
        let mut depth = 1;
        self.symbols.enter();
        while depth > 0 {
            if self.tokens.takes('{') {
                self.symbols.enter();
                depth += 1;
            } else if self.tokens.takes('}') {
                self.symbols.leave();
                depth -= 1;
            } else {
                self.statement(&mut labels)?;
            }
        }
        self.current = Guarded { guard: None, line: self.tokens.line() };
        self.emit(Op::Return);
        for (at, label, line) in labels.branches {
            let Some(target) = labels.known.get(label) else {
                return Err(format!("line {line}: there is no label `{label}`"));
            };
            self.code[at].op = Op::Branch { target: *target };
        }
        Ok(())
    }

    fn statement(&mut self, labels: &mut Labels<'s>) -> Parsed<()> {
        let line = self.tokens.line();
        if let (Some(Token::Word(label)), Some(Token::Sign(':'))) =
            (self.tokens.peek(), self.tokens.peek_second())
        {
            self.tokens.advance();
            self.tokens.advance();
            if labels.known.insert(label, self.code.len() as u32).is_some() {
                return Err(format!("line {line}: the label `{label}` again"));
            }
            return Ok(());
        }
        let guard = self.guard()?;
        let word = self.tokens.word()?;
        match word {
            ".reg" => self.registers(),
            ".local" | ".param" => self.local_variable(),
            ".shared" => self.shared_variable(),
            ".pragma" => self.skip_statement(),
            _ if word.starts_with('.') => self.tokens.fail(&format!("`{word}` is not known")),
            _ => {
                self.current = Guarded { guard, line };
                let operands = self.operands()?;
                let decoded = self.decode(&Opcode::new(word), &operands, labels);
                decoded.map_err(|error| format!("line {line}: {error}"))
            }
        }
    }

    fn skip_statement(&mut self) -> Parsed<()> {
        while !self.tokens.takes(';') {
            if self.tokens.advance().is_none() {
                return self.tokens.fail("expected `;`");
            }
        }
        Ok(())
    }

    /// `@!%p1`.
    fn guard(&mut self) -> Parsed<Option<Predicate>> {
        if !self.tokens.takes('@') {
            return Ok(None);
        }
        let negated = self.tokens.takes('!');
        let name = self.tokens.word()?;
        match self.symbols.register(name)? {
            Some(register) if register.bits == 1 => {
                Ok(Some(Predicate { register: register.number, negated }))
            }
            _ => self.tokens.fail(&format!("expected a predicate but got `{name}`")),
        }
    }

    /// `.reg .f32 %f<9>;` or `.reg .b32 a, b;`.
    fn registers(&mut self) -> Parsed<()> {
        let ty = self.tokens.word()?;
        let bits = match ty.strip_prefix('.') {
            Some("pred") => 1,
            Some(name) => match bytes_of(name) {
                Some(bytes) => (bytes * 8).max(16) as u8,
                None => return self.tokens.fail(&format!("registers of `{ty}`")),
            },
            None => return self.tokens.fail("expected a type"),
        };
        loop {
            let name = self.tokens.word()?;
            if self.tokens.takes('<') {
                let count = self.tokens.integer()? as u32;
                self.tokens.expect('>')?;
                self.symbols.declare_range(name, count, bits);
            } else {
                self.symbols.declare(name, bits)?;
            }
            if !self.tokens.takes(',') {
                return self.tokens.expect(';');
            }
        }
    }

    /// The operands up to the semicolon.
    fn operands(&mut self) -> Parsed<Vec<Operand<'s>>> {
        let mut all = Vec::new();
        while !self.tokens.takes(';') {
            all.push(self.operand()?);
            if !self.tokens.takes(',') && self.tokens.peek() != Some(Token::Sign(';')) {
                return self.tokens.fail("expected `,` or `;`");
            }
        }
        Ok(all)
    }

    fn operand(&mut self) -> Parsed<Operand<'s>> {
        match self.tokens.peek() {
            Some(Token::Sign('!')) => {
                self.tokens.advance();
                self.tokens.word().map(Operand::Not)
            }
            Some(Token::Sign('{')) => self.list('{', '}'),
            Some(Token::Sign('(')) => self.list('(', ')'),
            Some(Token::Sign('[')) => {
                self.tokens.advance();
                let base = match self.tokens.peek() {
                    Some(Token::Word(name)) => {
                        self.tokens.advance();
                        Some(name)
                    }
                    _ => None,
                };
                let offset = self.offset(base.is_none())?;
                self.tokens.expect(']')?;
                Ok(Operand::Address { base, offset })
            }
            Some(Token::Word(name)) => {
                self.tokens.advance();
                if self.tokens.takes('|') {
                    return Ok(Operand::Pair(name, self.tokens.word()?));
                }
                match self.tokens.peek() {
                    Some(Token::Sign('+')) => {
                        Ok(Operand::Address { base: Some(name), offset: self.offset(false)? })
                    }
                    _ => Ok(Operand::Name(name)),
                }
            }
            Some(Token::Number(literal @ (Literal::Single(_) | Literal::Double(_)))) => {
                self.tokens.advance();
                Ok(Operand::Number(literal))
            }
            _ => Ok(Operand::Number(Literal::Int(self.tokens.integer()?))),
        }
    }

    /// `+8`, `+-8` or nothing; a number without a sign if nothing is before it.
    fn offset(&mut self, is_alone: bool) -> Parsed<i64> {
        if self.tokens.takes('+') || is_alone || self.tokens.peek() == Some(Token::Sign('-')) {
            return self.tokens.integer().map(|value| value as i64);
        }
        Ok(0)
    }

    fn list(&mut self, open: char, close: char) -> Parsed<Operand<'s>> {
        self.tokens.expect(open)?;
        let mut all = Vec::new();
        while !self.tokens.takes(close) {
            all.push(self.operand()?);
            self.tokens.takes(',');
        }
        Ok(Operand::List(all))
    }
}
