//! The parser: builds the syntax tree from tokens, by precedence climbing.

use super::FormulaError;
use super::ast::{BinaryOperator, Expr, ExprKind};
use super::lex::{Token, tokens};

/// The maximum nesting of expressions, so that no formula overflows the stack.
const MAX_DEPTH: usize = 100;

pub(super) fn parse(text: &str) -> Result<Expr, FormulaError> {
    let mut parser = Parser { tokens: tokens(text)?, next: 0, depth: 0 };
    let expr = parser.expression()?;
    match parser.peek() {
        Token::End => Ok(expr),
        _ => Err(parser.expected("the end of the formula")),
    }
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    next: usize,
    depth: usize,
}

type Parsed = Result<Expr, FormulaError>;

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.next).map_or(&Token::End, |(_, token)| token)
    }

    fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(0, |(at, _)| *at)
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.next += 1;
        token
    }

    fn eat(&mut self, symbol: &'static str) -> bool {
        let found = *self.peek() == Token::Symbol(symbol);
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &'static str) -> Result<(), FormulaError> {
        if self.eat(symbol) { Ok(()) } else { Err(self.expected(&format!("`{symbol}`"))) }
    }

    fn expected(&self, what: &str) -> FormulaError {
        let got = match self.peek() {
            Token::Int(value) => format!("`{value}`"),
            Token::Float(value) => format!("`{value}`"),
            Token::Str(value) => format!("`\"{value}\"`"),
            Token::Word(word) => format!("`{word}`"),
            Token::Symbol(symbol) => format!("`{symbol}`"),
            Token::End => "the end of the formula".to_owned(),
        };
        FormulaError::new(self.at(), format!("expected {what} but got {got}"))
    }

    fn expression(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(FormulaError::new(self.at(), "the formula nests too deep"));
        }
        let expr = self.binary(1);
        self.depth -= 1;
        expr
    }

    /// A chain of binary operators with a precedence of at least `minimum`.
    fn binary(&mut self, minimum: u8) -> Parsed {
        let mut left = self.unary()?;
        let mut compared = false;
        while let Token::Symbol(symbol) = *self.peek() {
            let Some((operator, precedence)) = BinaryOperator::from_symbol(symbol) else { break };
            if precedence < minimum {
                break;
            }
            let at = self.at();
            if precedence == BinaryOperator::COMPARISON && std::mem::replace(&mut compared, true) {
                return Err(FormulaError::new(at, "comparisons do not chain"));
            }
            self.next += 1;
            let right = self.binary(precedence + 1)?;
            left = Expr { at, kind: ExprKind::Binary(operator, Box::new(left), Box::new(right)) };
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed {
        let at = self.at();
        let wrap: fn(Box<Expr>) -> ExprKind = match self.peek() {
            Token::Symbol("-") => ExprKind::Negate,
            Token::Symbol("!") => ExprKind::Not,
            _ => return self.postfix(),
        };
        self.next += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(FormulaError::new(at, "the formula nests too deep"));
        }
        let inner = self.unary()?;
        self.depth -= 1;
        Ok(Expr { at, kind: wrap(Box::new(inner)) })
    }

    fn postfix(&mut self) -> Parsed {
        let mut expr = self.primary()?;
        loop {
            let at = self.at();
            if self.eat("[") {
                let index = self.expression()?;
                self.expect("]")?;
                expr = Expr { at, kind: ExprKind::Index(Box::new(expr), Box::new(index)) };
            } else if self.eat(".") {
                expr = self.member(expr)?;
            } else {
                return Ok(expr);
            }
        }
    }

    fn member(&mut self, receiver: Expr) -> Parsed {
        let at = self.at();
        match self.take() {
            Token::Word(name) => {
                self.expect("(")?;
                let arguments = self.list(")")?;
                Ok(Expr { at, kind: ExprKind::Method(Box::new(receiver), name, arguments) })
            }
            Token::Int(index) => {
                let index = usize::try_from(index).unwrap_or(usize::MAX);
                Ok(Expr { at, kind: ExprKind::Field(Box::new(receiver), index) })
            }
            _ => {
                self.next -= 1;
                Err(self.expected("a method or the number of a field after `.`"))
            }
        }
    }

    /// Expressions up to the closing symbol; a comma may follow the last.
    fn list(&mut self, close: &'static str) -> Result<Vec<Expr>, FormulaError> {
        let mut items = vec![];
        while !self.eat(close) {
            items.push(self.expression()?);
            if !self.eat(",") {
                self.expect(close)?;
                break;
            }
        }
        Ok(items)
    }

    fn primary(&mut self) -> Parsed {
        let at = self.at();
        let kind = match self.take() {
            Token::Int(value) => ExprKind::Int(value),
            Token::Float(value) => ExprKind::Float(value),
            Token::Str(value) => ExprKind::Str(value),
            Token::Word(word) => self.word(word)?,
            Token::Symbol("[") => ExprKind::List(self.list("]")?),
            Token::Symbol("(") => return self.parenthesised(at),
            _ => {
                self.next -= 1;
                return Err(self.expected("a value"));
            }
        };
        Ok(Expr { at, kind })
    }

    fn word(&mut self, word: String) -> Result<ExprKind, FormulaError> {
        Ok(match word.as_str() {
            "true" => ExprKind::Bool(true),
            "false" => ExprKind::Bool(false),
            "None" => ExprKind::None,
            "if" => return self.conditional(),
            "else" => {
                self.next -= 1;
                return Err(self.expected("a value"));
            }
            _ if self.eat("(") => ExprKind::Call(word, self.list(")")?),
            _ => ExprKind::Name(word),
        })
    }

    fn conditional(&mut self) -> Result<ExprKind, FormulaError> {
        let condition = self.expression()?;
        let then = self.block()?;
        if *self.peek() != Token::Word("else".to_owned()) {
            return Err(self.expected("`else`"));
        }
        self.next += 1;
        let at = self.at();
        let otherwise = if *self.peek() == Token::Word("if".to_owned()) {
            self.next += 1;
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return Err(FormulaError::new(at, "the formula nests too deep"));
            }
            let kind = self.conditional()?;
            self.depth -= 1;
            Expr { at, kind }
        } else {
            self.block()?
        };
        Ok(ExprKind::If(Box::new(condition), Box::new(then), Box::new(otherwise)))
    }

    fn block(&mut self) -> Parsed {
        self.expect("{")?;
        let inner = self.expression()?;
        self.expect("}")?;
        Ok(inner)
    }

    /// `(a)` is `a`; `(a, b)` and `(a,)` are tuples.
    fn parenthesised(&mut self, at: usize) -> Parsed {
        let first = self.expression()?;
        if self.eat(")") {
            return Ok(first);
        }
        self.expect(",")?;
        let mut items = vec![first];
        items.extend(self.list(")")?);
        Ok(Expr { at, kind: ExprKind::Tuple(items) })
    }
}
