//! PTX to decoded instructions.

mod arithmetic;
mod decode;
mod function;
mod module;
mod moves;
mod opcode;
mod operands;
mod registers;
mod symbols;
mod tokens;

pub(crate) use module::{GlobalVariable, parse};
