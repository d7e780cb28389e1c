//! A module: its variables, kernels and functions.

use super::registers;
use super::symbols::{Symbol, Symbols};
use super::tokens::{Literal, Parsed, Token, Tokens};
use crate::instruction::{Guarded, Instruction, Kernel, Op, Program, Space, Variable};
use std::collections::HashMap;
use std::ops::Range;

/// A variable in global or constant memory: what it holds at first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GlobalVariable {
    pub(crate) name: String,
    pub(crate) content: Vec<u8>,
}

/// A function that kernels call: where it starts, and where its parameters and results are in local memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Function {
    start: u32,
    inputs: Vec<Variable>,
    outputs: Vec<Variable>,
}

/// A call whose function may not be known yet: the first of its three instructions, and the variables of the caller.
#[derive(Clone, Debug)]
pub(super) struct PendingCall {
    pub(super) at: usize,
    pub(super) name: String,
    pub(super) inputs: Vec<u64>,
    pub(super) outputs: Vec<u64>,
    pub(super) line: u32,
}

/// Gives a variable memory on the device, when it is first used.
pub(super) type Allocate<'a> = dyn FnMut(&GlobalVariable) -> Result<u64, String> + 'a;

/// A module while it is decoded.
pub(super) struct Builder<'s, 'a> {
    pub(super) tokens: Tokens<'s>,
    pub(super) symbols: Symbols,
    pub(super) code: Vec<Instruction>,
    pub(super) calls: Vec<PendingCall>,
    pub(super) has_barriers: bool,
    /// What the instruction that is decoded has in common with those that it becomes.
    pub(super) current: Guarded,
    pub(super) shared_bytes: u32,
    pub(super) local_bytes: u32,
    variables: HashMap<String, GlobalVariable>,
    allocate: &'a mut Allocate<'a>,
    kernels: Vec<Kernel>,
    functions: HashMap<String, Function>,
    /// The code of each function.
    ranges: Vec<Range<usize>>,
}

/// Decodes a module.
///
/// # Errors
/// What is no PTX, or no instruction that is known, with its line.
pub(crate) fn parse<'a>(source: &str, allocate: &'a mut Allocate<'a>) -> Parsed<Program> {
    let mut builder = Builder {
        tokens: Tokens::new(source)?,
        symbols: Symbols::new(),
        code: Vec::new(),
        calls: Vec::new(),
        has_barriers: false,
        current: Guarded::default(),
        shared_bytes: 0,
        local_bytes: 0,
        variables: HashMap::new(),
        allocate,
        kernels: Vec::new(),
        functions: HashMap::new(),
        ranges: Vec::new(),
    };
    while builder.tokens.peek().is_some() {
        builder.directive()?;
    }
    builder.resolve_calls()?;
    registers::allocate(&mut builder.code, &builder.ranges, &mut builder.symbols.registers);
    Ok(Program {
        source: source.to_owned(),
        code: builder.code,
        kernels: builder.kernels,
        registers: builder.symbols.registers,
        shared_bytes: builder.shared_bytes,
        local_bytes: builder.local_bytes,
        has_barriers: builder.has_barriers,
    })
}

/// A declaration: type, name and number of elements.
struct Declaration<'s> {
    name: &'s str,
    align: u32,
    element_bytes: u32,
    /// `None` for `name[]`.
    count: Option<u32>,
}

impl Declaration<'_> {
    fn bytes(&self) -> u32 {
        self.count.unwrap_or(0).saturating_mul(self.element_bytes)
    }
}

/// Bytes of an element of a type.
pub(super) fn bytes_of(ty: &str) -> Option<u32> {
    Some(match ty {
        "b8" | "u8" | "s8" => 1,
        "b16" | "u16" | "s16" | "f16" | "bf16" => 2,
        "b32" | "u32" | "s32" | "f32" | "f16x2" => 4,
        "b64" | "u64" | "s64" | "f64" => 8,
        _ => return None,
    })
}

impl<'s> Builder<'s, '_> {
    /// Anything outside of functions.
    fn directive(&mut self) -> Parsed<()> {
        let word = self.tokens.word()?;
        match word {
            ".version" | ".address_size" => _ = self.tokens.integer()?,
            ".target" => {
                self.tokens.word()?;
                while self.tokens.takes(',') {
                    self.tokens.word()?;
                }
            }
            ".visible" | ".extern" | ".weak" | ".common" => {}
            ".global" | ".const" => self.global_variable()?,
            ".shared" => self.shared_variable()?,
            ".entry" => self.kernel()?,
            ".func" => self.function()?,
            ".pragma" => self.pragma()?,
            other => return self.tokens.fail(&format!("`{other}` is not known")),
        }
        Ok(())
    }

    fn pragma(&mut self) -> Parsed<()> {
        while !self.tokens.takes(';') {
            if self.tokens.advance().is_none() {
                return self.tokens.fail("expected `;`");
            }
        }
        Ok(())
    }

    /// `.align 4 .b8 name[16]`.
    fn declaration(&mut self) -> Parsed<Declaration<'s>> {
        let mut align = 0;
        let mut element_bytes = None;
        let name = loop {
            let word = self.tokens.word()?;
            match word.strip_prefix('.') {
                None => break word,
                Some("align") => align = self.tokens.integer()? as u32,
                Some("ptr") => self.pointer_attributes()?,
                Some(ty) => match bytes_of(ty) {
                    Some(bytes) => element_bytes = Some(bytes),
                    None => return self.tokens.fail(&format!("`{word}` is not known")),
                },
            }
        };
        let Some(element_bytes) = element_bytes else { return self.tokens.fail("expected a type") };
        let mut count = Some(1);
        while self.tokens.takes('[') {
            if self.tokens.takes(']') {
                count = None;
                continue;
            }
            let length = self.tokens.integer()? as u32;
            count = count.map(|count: u32| count.saturating_mul(length));
            self.tokens.expect(']')?;
        }
        Ok(Declaration { name, align: align.max(element_bytes), element_bytes, count })
    }

    /// `.ptr .global .align 4` says nothing that is used here.
    fn pointer_attributes(&mut self) -> Parsed<()> {
        for space in [".global", ".const", ".local", ".shared"] {
            self.tokens.takes_word(space);
        }
        if self.tokens.takes_word(".align") {
            self.tokens.integer()?;
        }
        Ok(())
    }

    fn global_variable(&mut self) -> Parsed<()> {
        let declaration = self.declaration()?;
        let mut content = Vec::new();
        if self.tokens.takes('=') {
            self.initial_values(declaration.element_bytes as usize, &mut content)?;
        }
        self.tokens.expect(';')?;
        content.resize(content.len().max(declaration.bytes() as usize), 0);
        let name = declaration.name.to_owned();
        self.variables.insert(name.clone(), GlobalVariable { name, content });
        Ok(())
    }

    fn initial_values(&mut self, bytes: usize, content: &mut Vec<u8>) -> Parsed<()> {
        if !self.tokens.takes('{') {
            let value = match self.tokens.peek() {
                Some(Token::Number(Literal::Single(bits))) => self.skipped(u64::from(bits)),
                Some(Token::Number(Literal::Double(bits))) => self.skipped(bits),
                _ => self.tokens.integer()?,
            };
            content.extend(&value.to_le_bytes()[..bytes]);
            return Ok(());
        }
        while !self.tokens.takes('}') {
            self.initial_values(bytes, content)?;
            self.tokens.takes(',');
        }
        Ok(())
    }

    fn skipped(&mut self, value: u64) -> u64 {
        self.tokens.advance();
        value
    }

    /// Memory of a kind for a declaration, which gets a name in the current scope.
    fn reserve(&mut self, space: Space, of: &Declaration<'_>) -> Variable {
        let end = if space == Space::Shared { &mut self.shared_bytes } else { &mut self.local_bytes };
        let offset = end.next_multiple_of(of.align.max(1));
        *end = offset.saturating_add(of.bytes());
        let variable = Variable { name: of.name.to_owned(), bytes: of.bytes(), offset };
        self.symbols.declare_variable(of.name, Symbol { space, address: u64::from(offset) });
        variable
    }

    /// A variable of all threads of a block; one without a size is what the launch adds, behind all others.
    pub(super) fn shared_variable(&mut self) -> Parsed<()> {
        let declaration = self.declaration()?;
        self.reserve(Space::Shared, &declaration);
        self.tokens.expect(';')
    }

    pub(super) fn local_variable(&mut self) -> Parsed<()> {
        let declaration = self.declaration()?;
        self.reserve(Space::Local, &declaration);
        self.tokens.expect(';')
    }

    fn parameters(&mut self) -> Parsed<Vec<Declaration<'s>>> {
        let mut all = Vec::new();
        if !self.tokens.takes('(') {
            return Ok(all);
        }
        while !self.tokens.takes(')') {
            let space = self.tokens.word()?;
            if space != ".param" {
                return self.tokens.fail(&format!("expected a parameter but got `{space}`"));
            }
            all.push(self.declaration()?);
            self.tokens.takes(',');
        }
        Ok(all)
    }

    fn kernel(&mut self) -> Parsed<()> {
        let name = self.tokens.word()?.to_owned();
        self.symbols.enter();
        let mut kernel = Kernel { name, start: self.code.len() as u32, ..Kernel::default() };
        for declaration in self.parameters()? {
            let offset = kernel.parameter_bytes.next_multiple_of(declaration.align.max(1));
            let (name, bytes) = (declaration.name.to_owned(), declaration.bytes());
            kernel.parameter_bytes = offset + bytes;
            let symbol = Symbol { space: Space::Param, address: u64::from(offset) };
            self.symbols.declare_variable(&name, symbol);
            kernel.parameters.push(Variable { name, bytes, offset });
        }
        while !self.tokens.takes('{') {
            self.performance_directive(&mut kernel)?;
        }
        self.body()?;
        self.symbols.leave();
        self.ranges.push(kernel.start as usize..self.code.len());
        self.kernels.push(kernel);
        Ok(())
    }

    /// `.maxntid 256, 1, 1`.
    fn performance_directive(&mut self, kernel: &mut Kernel) -> Parsed<()> {
        let word = self.tokens.word()?;
        let mut product = 1u32;
        while let Some(Token::Number(_)) = self.tokens.peek() {
            product = product.saturating_mul(self.tokens.integer()? as u32);
            self.tokens.takes(',');
        }
        match word {
            ".maxntid" | ".reqntid" => kernel.max_threads = Some(product),
            ".minnctapersm" | ".maxnreg" | ".noreturn" => {}
            other => return self.tokens.fail(&format!("`{other}` is not known")),
        }
        Ok(())
    }

    fn function(&mut self) -> Parsed<()> {
        self.symbols.enter();
        let outputs = self.parameters()?;
        let name = self.tokens.word()?.to_owned();
        let inputs = self.parameters()?;
        while self.tokens.takes_word(".noreturn") {}
        if self.tokens.takes(';') {
            // A declaration.
            self.symbols.leave();
            return Ok(());
        }
        self.tokens.expect('{')?;
        let mut reserve = |all: &[Declaration<'s>]| -> Vec<Variable> {
            all.iter().map(|one| self.reserve(Space::Local, one)).collect()
        };
        let (outputs, inputs) = (reserve(&outputs), reserve(&inputs));
        let start = self.code.len() as u32;
        self.functions.insert(name, Function { start, inputs, outputs });
        self.body()?;
        self.symbols.leave();
        self.ranges.push(start as usize..self.code.len());
        Ok(())
    }

    /// The kind of memory and the address of a variable, which gets memory if it has none.
    pub(super) fn symbol(&mut self, name: &str) -> Parsed<Option<Symbol>> {
        if let Some(symbol) = self.symbols.variable(name) {
            return Ok(Some(symbol));
        }
        let Some(variable) = self.variables.remove(name) else { return Ok(None) };
        let symbol = Symbol { space: Space::Global, address: (self.allocate)(&variable)? };
        self.symbols.declare_global(name, symbol);
        Ok(Some(symbol))
    }

    /// Fills in where calls go, and what they copy.
    fn resolve_calls(&mut self) -> Parsed<()> {
        for call in std::mem::take(&mut self.calls) {
            let Some(function) = self.functions.get(&call.name) else {
                return Err(format!("line {}: a call of {}, which has no body", call.line, call.name));
            };
            if (call.inputs.len(), call.outputs.len()) != (function.inputs.len(), function.outputs.len()) {
                return Err(format!("line {}: a call of {} with other parameters", call.line, call.name));
            }
            let inputs = call.inputs.iter().zip(&function.inputs);
            let inputs = inputs.map(|(from, to)| (*from as u32, to.offset, to.bytes)).collect();
            let outputs = function.outputs.iter().zip(&call.outputs);
            let outputs = outputs.map(|(from, to)| (from.offset, *to as u32, from.bytes)).collect();
            let ops = [Op::CopyLocal(inputs), Op::Call { target: function.start }, Op::CopyLocal(outputs)];
            for (instruction, op) in self.code.iter_mut().skip(call.at).zip(ops) {
                instruction.op = op;
            }
        }
        Ok(())
    }
}
