//! The part of pickle's stack machine that `torch.save` uses (protocol 2; `pickletools` of Python describes each step).
//!
//! Objects lie in a table and know each other by number, so that a list which is filled after it was noted is one list, and
//! a program can make neither cycles of ownership nor deep recursion. At the end the last object becomes a [`Value`]. The memory of
//! all objects made meanwhile is limited, in proportion to the length of the program.

use super::build::{self, Global, Storages};
use super::{Value, fault};
use flambeau_core::{Layout, Result, ScalarType, bail, ensure, fallible};
use flambeau_ops::Tensor;
use std::collections::HashMap;
use std::ops::Index;

/// The number of an object.
#[derive(Clone, Copy)]
pub(super) struct Id(u32);

/// All that a program has made.
pub(super) struct Objects(Vec<Object>);

impl Index<Id> for Objects {
    type Output = Object;

    fn index(&self, id: Id) -> &Object {
        &self.0[id.0 as usize]
    }
}

/// What lies on the stack.
pub(super) enum Object {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    OrderedDict {
        entries: Vec<(Id, Id)>,
        metadata: Option<Id>,
    },
    Size(Vec<i64>),
    Dtype(ScalarType),
    Layout(Layout),
    Tensor(Tensor),
    Parameter(Tensor),
    /// All elements of a storage, in a row.
    Storage(Tensor),
    Global(Global),
}

/// Values nest no deeper, so that nothing that walks them runs out of stack.
const DEEPEST: usize = 100;
/// What is made may take so many bytes for each of the program: a step of one byte makes an object, and a value of it.
const EXPANSION: usize = 128;
/// And so many more, since an object that is shared in the program is copied at each reference to it.
const ALLOWANCE: usize = 1 << 24;
/// About what a tensor takes beside its elements.
const TENSOR: usize = 512;
/// What is always there: the objects by these numbers cost nothing.
const CONSTANTS: [Object; 3] = [Object::None, Object::Bool(false), Object::Bool(true)];

/// The value that a program makes.
pub(super) fn run(program: &[u8], storages: Storages) -> Result<Value> {
    let mut machine = Machine {
        program,
        at: 0,
        storages,
        objects: Objects(CONSTANTS.into()),
        left: program.len().saturating_mul(EXPANSION).saturating_add(ALLOWANCE),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
    };
    loop {
        let (at, opcode) = (machine.at, machine.byte()?);
        if opcode == b'.' {
            break;
        }
        machine.step(opcode).map_err(|e| e.context(format!("byte {at}")))?;
    }
    let last = machine.pop()?;
    ensure!(
        machine.stack.is_empty() && machine.marks.is_empty(),
        Io,
        "expected one value at the end but got several"
    );
    machine.memo = HashMap::new();
    let mut left = machine.left;
    machine.value(last, DEEPEST, &mut left)
}

struct Machine<'a> {
    program: &'a [u8],
    at: usize,
    storages: Storages,
    objects: Objects,
    /// How many bytes may still be taken.
    left: usize,
    stack: Vec<Id>,
    /// How high the stack stood at each open mark.
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
}

impl Machine<'_> {
    fn step(&mut self, opcode: u8) -> Result<()> {
        match opcode {
            0x80 => self.protocol(),
            b'(' => self.mark(),
            b'N' => self.push_id(Id(0)),
            0x89 => self.push_id(Id(1)),
            0x88 => self.push_id(Id(2)),
            b'K' | b'M' | b'J' | 0x8a | b'G' => self.number(opcode),
            b'X' => self.text(),
            b'c' => self.global(),
            b')' => self.push(Object::Tuple(Vec::new())),
            b']' => self.push(Object::List(Vec::new())),
            b'}' => self.push(Object::Dict(Vec::new())),
            0x85..=0x87 => self.tuple(usize::from(opcode - 0x84)),
            b't' => self.marked_tuple(),
            b'a' | b'e' => self.append(opcode),
            b's' | b'u' => self.set_items(opcode),
            b'q' | b'r' => self.note(opcode),
            b'h' | b'j' => self.recall(opcode),
            b'Q' => self.persistent(),
            b'R' => self.call(),
            b'b' => self.set_state(),
            other => bail!(Io, "expected steps that `torch.save` writes but got 0x{other:02x}"),
        }
    }

    fn protocol(&mut self) -> Result<()> {
        let protocol = self.byte()?;
        ensure!(protocol == 2, Io, "expected pickle protocol 2, which `torch.save` uses, but got {protocol}");
        Ok(())
    }

    fn mark(&mut self) -> Result<()> {
        spend(&mut self.left, size_of::<usize>())?;
        fallible::push(&mut self.marks, self.stack.len())
    }

    fn number(&mut self, opcode: u8) -> Result<()> {
        let object = match opcode {
            b'K' => Object::Int(self.byte()?.into()),
            b'M' => Object::Int(u16::from_le_bytes(self.array()?).into()),
            b'J' => Object::Int(i32::from_le_bytes(self.array()?).into()),
            b'G' => Object::Float(f64::from_be_bytes(self.array()?)),
            _ => Object::Int(self.long()?),
        };
        self.push(object)
    }

    /// A whole number in as few bytes as it takes, the last of which has the sign.
    fn long(&mut self) -> Result<i64> {
        let count = usize::from(self.byte()?);
        ensure!(count <= 8, Io, "expected whole numbers of 64 bits but got one of {count} bytes");
        let bytes = self.take(count)?;
        let fill = if bytes.last().is_some_and(|last| last & 0x80 != 0) { 0xff } else { 0 };
        let mut all = [fill; 8];
        all[..count].copy_from_slice(bytes);
        Ok(i64::from_le_bytes(all))
    }

    fn text(&mut self) -> Result<()> {
        let count = u32::from_le_bytes(self.array()?);
        let text =
            str::from_utf8(self.take(count as usize)?).map_err(|_| fault("expected texts in UTF-8"))?;
        let text = copied(text)?;
        self.push(Object::Text(text))
    }

    fn global(&mut self) -> Result<()> {
        let (module, name) = (self.line()?, self.line()?);
        self.push(build::global(&format!("{module}.{name}"))?)
    }

    fn tuple(&mut self, count: usize) -> Result<()> {
        let from = self.stack.len().checked_sub(count).filter(|from| *from >= self.floor());
        let from = from.ok_or_else(|| fault("expected more values on the stack"))?;
        let items = self.split_off(from)?;
        self.push(Object::Tuple(items))
    }

    fn marked_tuple(&mut self) -> Result<()> {
        let items = self.down_to_mark()?;
        self.push(Object::Tuple(items))
    }

    fn append(&mut self, opcode: u8) -> Result<()> {
        let items = if opcode == b'a' { vec![self.pop()?] } else { self.down_to_mark()? };
        let list = self.top()?;
        let Object::List(list) = self.object(list) else { bail!(Io, "expected a list to append to") };
        items.into_iter().try_for_each(|item| fallible::push(list, item))
    }

    fn set_items(&mut self, opcode: u8) -> Result<()> {
        let items = if opcode == b's' {
            let value = self.pop()?;
            vec![self.pop()?, value]
        } else {
            self.down_to_mark()?
        };
        ensure!(items.len().is_multiple_of(2), Io, "expected as many values as keys");
        let dict = self.top()?;
        let (Object::Dict(entries) | Object::OrderedDict { entries, .. }) = self.object(dict) else {
            bail!(Io, "expected a dict to set items of")
        };
        items.chunks_exact(2).try_for_each(|pair| fallible::push(entries, (pair[0], pair[1])))
    }

    fn note(&mut self, opcode: u8) -> Result<()> {
        let key = self.key(opcode == b'q')?;
        let top = self.top()?;
        if !self.memo.contains_key(&key) {
            spend(&mut self.left, 2 * size_of::<(u32, Id)>())?;
        }
        self.memo.insert(key, top);
        Ok(())
    }

    fn recall(&mut self, opcode: u8) -> Result<()> {
        let key = self.key(opcode == b'h')?;
        let id =
            self.memo.get(&key).copied().ok_or_else(|| fault(format!("nothing was noted under {key}")))?;
        self.push_id(id)
    }

    fn key(&mut self, is_short: bool) -> Result<u32> {
        Ok(if is_short { self.byte()?.into() } else { u32::from_le_bytes(self.array()?) })
    }

    /// What the file keeps outside the program: a storage.
    fn persistent(&mut self) -> Result<()> {
        let description = self.pop()?;
        let Object::Tuple(parts) = &self.objects[description] else {
            bail!(Io, "expected the description of a storage")
        };
        let storage = self.storages.described(parts, &self.objects)?;
        self.push(Object::Storage(storage))
    }

    fn call(&mut self) -> Result<()> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let Object::Global(function) = self.objects[function] else {
            bail!(Io, "expected a function to call")
        };
        let Object::Tuple(arguments) = &self.objects[arguments] else {
            bail!(Io, "expected a tuple of arguments")
        };
        let made = function.call(arguments, &self.objects)?;
        self.push(made)
    }

    /// Attributes of an object: a dict of `state_dict` has its `_metadata`, and nothing else has any.
    fn set_state(&mut self) -> Result<()> {
        let (state, object) = (self.pop()?, self.top()?);
        let Object::Dict(state) = &self.objects[state] else { bail!(Io, "expected a dict of attributes") };
        let [(name, value)] = state[..] else { bail!(Io, "expected one attribute but got {}", state.len()) };
        let is_metadata = matches!(&self.objects[name], Object::Text(name) if name == "_metadata");
        match self.object(object) {
            Object::OrderedDict { metadata, .. } if is_metadata => *metadata = Some(value),
            _ => bail!(Io, "expected no attributes but `_metadata` of an OrderedDict"),
        }
        Ok(())
    }

    /// An object as a value, with all that is in it.
    fn value(&self, id: Id, depth: usize, left: &mut usize) -> Result<Value> {
        ensure!(depth > 0, Io, "expected values nested no deeper than {DEEPEST}");
        let object = &self.objects[id];
        spend(left, size_of::<Value>() + object.heap())?;
        Ok(match object {
            Object::None => Value::None,
            Object::Bool(value) => Value::Bool(*value),
            Object::Int(value) => Value::Int(*value),
            Object::Float(value) => Value::Float(*value),
            Object::Text(value) => Value::Text(copied(value)?),
            Object::Tuple(items) => Value::Tuple(self.values(items, depth, left)?),
            Object::List(items) => Value::List(self.values(items, depth, left)?),
            Object::Dict(entries) => Value::Dict(self.pairs(entries, depth, left)?),
            Object::OrderedDict { entries, metadata } => Value::OrderedDict {
                entries: self.pairs(entries, depth, left)?,
                metadata: metadata.map(|id| self.value(id, depth - 1, left).map(Box::new)).transpose()?,
            },
            Object::Size(sizes) => Value::Size(sizes.clone()),
            Object::Dtype(dtype) => Value::Dtype(*dtype),
            Object::Tensor(tensor) => Value::Tensor(tensor.clone()),
            Object::Parameter(tensor) => Value::Parameter(tensor.clone()),
            Object::Layout(_) => bail!(Io, "expected a value but got a layout by itself"),
            Object::Storage(_) => bail!(Io, "expected tensors but got a storage by itself"),
            Object::Global(global) => bail!(Io, "expected a value but got `{}` itself", global.name()),
        })
    }

    fn values(&self, items: &[Id], depth: usize, left: &mut usize) -> Result<Vec<Value>> {
        let mut values = fallible::with_capacity(items.len())?;
        for id in items {
            values.push(self.value(*id, depth - 1, left)?);
        }
        Ok(values)
    }

    fn pairs(&self, items: &[(Id, Id)], depth: usize, left: &mut usize) -> Result<Vec<(Value, Value)>> {
        let mut pairs = fallible::with_capacity(items.len())?;
        for (key, value) in items {
            let key = self.value(*key, depth - 1, left)?;
            ensure!(is_key(&key), Io, "expected a key of a dict but got {}", key.kind());
            pairs.push((key, self.value(*value, depth - 1, left)?));
        }
        Ok(pairs)
    }

    fn push(&mut self, object: Object) -> Result<()> {
        let id =
            u32::try_from(self.objects.0.len()).map_err(|_| fault("expected fewer than 2^32 objects"))?;
        spend(&mut self.left, size_of::<Object>() + object.heap())?;
        fallible::push(&mut self.objects.0, object)?;
        self.push_id(Id(id))
    }

    fn push_id(&mut self, id: Id) -> Result<()> {
        spend(&mut self.left, size_of::<Id>())?;
        fallible::push(&mut self.stack, id)
    }

    fn object(&mut self, id: Id) -> &mut Object {
        &mut self.objects.0[id.0 as usize]
    }

    /// How low the stack may become before the last mark is closed.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Result<Id> {
        let id = self.top()?;
        self.stack.pop();
        Ok(id)
    }

    fn top(&self) -> Result<Id> {
        let above = self.stack.len() > self.floor();
        let top = self.stack.last().copied().filter(|_| above);
        top.ok_or_else(|| fault("expected a value on the stack"))
    }

    /// What was pushed since the last mark, which this closes.
    fn down_to_mark(&mut self) -> Result<Vec<Id>> {
        let mark = self.marks.pop().ok_or_else(|| fault("expected a mark on the stack"))?;
        self.split_off(mark)
    }

    fn split_off(&mut self, from: usize) -> Result<Vec<Id>> {
        let items = fallible::to_vec(&self.stack[from..])?;
        self.stack.truncate(from);
        Ok(items)
    }

    fn take(&mut self, count: usize) -> Result<&[u8]> {
        let end = self.at.saturating_add(count);
        let taken = self.program.get(self.at..end).ok_or_else(|| fault("the program is cut short"))?;
        self.at = end;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// The text up to the end of the line.
    fn line(&mut self) -> Result<String> {
        let rest = &self.program[self.at..];
        let length =
            rest.iter().position(|byte| *byte == b'\n').ok_or_else(|| fault("the program is cut short"))?;
        let line = self.take(length + 1)?;
        str::from_utf8(&line[..length]).map(str::to_owned).map_err(|_| fault("expected names in UTF-8"))
    }
}

impl Object {
    /// About how many bytes it takes beside its own.
    fn heap(&self) -> usize {
        match self {
            Object::Text(text) => text.len(),
            Object::Tuple(items) | Object::List(items) => size_of_val(&items[..]),
            Object::Size(sizes) => size_of_val(&sizes[..]),
            Object::Tensor(tensor) | Object::Parameter(tensor) => TENSOR + 2 * size_of_val(tensor.sizes()),
            _ => 0,
        }
    }
}

/// Takes bytes out of what is left.
fn spend(left: &mut usize, bytes: usize) -> Result<()> {
    *left = left
        .checked_sub(bytes)
        .ok_or_else(|| fault("expected values of a size that goes with the file's"))?;
    Ok(())
}

fn copied(text: &str) -> Result<String> {
    String::from_utf8(fallible::to_vec(text.as_bytes())?).map_err(|_| fault("expected texts in UTF-8"))
}

/// Whether Python takes it as a key: what can change is none.
fn is_key(value: &Value) -> bool {
    match value {
        Value::Tuple(items) => items.iter().all(is_key),
        other => !matches!(other, Value::List(_) | Value::Dict(_) | Value::OrderedDict { .. }),
    }
}
