//! A program as Cranelift's instructions: one loop for each stage, over vectors of 128 bits.
//!
//! The function's parameters are the addresses of the inputs, of the results, of the numbers and of scratch memory, and the count of
//! elements, a multiple of [`STEP`] vectors and at most [`TILE`]. Between stages it calls functions on tiles; what a later stage needs is
//! kept in scratch memory.

use crate::functions::{self, TileFunction};
use crate::program::{Input, Program, stages};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{
    AbiParam, Block, Endianness, InstBuilder, MemFlagsData, SigRef, Signature, Type, Value, types,
};
use cranelift_codegen::isa::{CallConv, TargetFrontendConfig};
use cranelift_frontend::FunctionBuilder;
use flambeau_core::{Result, ScalarType, error};
use flambeau_ops::vectorized::traced::{Node, NodeId, TracedType};

/// Elements that one call of the machine code computes at most: tiles of these stay in the L1 cache.
pub(crate) const TILE: usize = 512;
/// Vectors that one iteration of a loop computes, so that the latencies of their operations overlap.
pub(crate) const STEP: usize = 2;

const POINTER: Type = types::I64;

/// Where a node's values are while other stages run.
#[derive(Clone, Copy)]
enum Slot {
    /// None: only its own stage uses it, or it is computed again.
    None,
    /// In a tile of scratch memory.
    Tile(usize),
    /// Where it came from.
    Input(usize),
}

/// How many tiles of scratch memory a program needs.
pub(crate) fn tiles(program: &Program) -> usize {
    slots(program, &stages(program)).1
}

/// Whether a node costs nothing, so that every stage has its own.
fn is_leaf(node: &Node) -> bool {
    matches!(node.name, "input" | "scalar" | "float" | "bits" | "mask_constant")
}

/// The slot of each node, and how many tiles there are.
fn slots(program: &Program, stages: &[usize]) -> (Vec<Slot>, usize) {
    let mut slots = vec![Slot::None; program.nodes.len()];
    let mut tiles = 0;
    for (user, node) in program.nodes.iter().enumerate() {
        let is_function = functions::takes(node.name).is_some();
        for arg in node.args[..usize::from(node.count)].iter().map(|arg| usize::from(*arg)) {
            let source = &program.nodes[arg];
            let is_later = stages[user] > stages[arg] && !is_leaf(source);
            if !matches!(slots[arg], Slot::None) || !(is_function || is_later) {
                continue;
            }
            let input = program.inputs.get(source.payload as usize);
            let is_in_memory = source.name == "input" && input.is_some_and(|i| !i.is_mask && !i.is_repeated);
            slots[arg] = if is_in_memory {
                Slot::Input(source.payload as usize)
            } else {
                tiles += 1;
                Slot::Tile(tiles - 1)
            };
        }
        if is_function && matches!(slots[user], Slot::None) {
            slots[user] = Slot::Tile(tiles);
            tiles += 1;
        }
    }
    (slots, tiles)
}

/// The signature of the function.
pub(crate) fn signature(call_conv: CallConv) -> Signature {
    let mut signature = Signature::new(call_conv);
    signature.params.extend([AbiParam::new(POINTER); 5]);
    signature
}

/// Writes the function of a program.
///
/// # Errors
/// `Internal` for an operation that there is not.
pub(crate) fn lower(
    program: &Program,
    mut builder: FunctionBuilder<'_>,
    config: TargetFrontendConfig,
) -> Result<()> {
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    let parameters = builder.block_params(entry).to_vec();
    let [inputs, outputs, numbers, scratch, count] = parameters[..] else {
        return Err(error!(Internal, "compile: the function has other parameters"));
    };
    let mut call = Signature::new(config.default_call_conv);
    call.params.extend([AbiParam::new(POINTER); 4]);
    let call = builder.import_signature(call);
    let stages = stages(program);
    let (slots, _) = slots(program, &stages);
    let is_f64 = program.element == ScalarType::F64;
    let mut lowering = Lowering {
        program,
        float: if is_f64 { types::F64X2 } else { types::F32X4 },
        mask: if is_f64 { types::I64X2 } else { types::I32X4 },
        lane: if is_f64 { types::F64 } else { types::F32 },
        size: program.element_size() as i64,
        stages,
        slots,
        count,
        scratch,
        call,
        inputs: Vec::new(),
        outputs: Vec::new(),
        numbers: Vec::new(),
        builder,
    };
    lowering.load_parameters(inputs, outputs, numbers);
    let last = lowering.stages.iter().copied().max().unwrap_or(0);
    for stage in 0..=last {
        lowering.stage(stage)?;
        lowering.calls(stage + 1)?;
    }
    lowering.builder.ins().return_(&[]);
    lowering.builder.seal_all_blocks();
    lowering.builder.finalize(config);
    Ok(())
}

struct Lowering<'p, 'b> {
    program: &'p Program,
    builder: FunctionBuilder<'b>,
    float: Type,
    mask: Type,
    lane: Type,
    /// Bytes of an element.
    size: i64,
    stages: Vec<usize>,
    slots: Vec<Slot>,
    count: Value,
    scratch: Value,
    call: SigRef,
    /// The address of each input; of a repeated one its vector.
    inputs: Vec<Value>,
    outputs: Vec<Value>,
    numbers: Vec<Value>,
}

/// Memory that is there; vectors need not be aligned.
fn memory() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

impl Lowering<'_, '_> {
    fn load_parameters(&mut self, inputs: Value, outputs: Value, numbers: Value) {
        for (i, input) in self.program.inputs.iter().enumerate() {
            let address = self.builder.ins().load(POINTER, memory(), inputs, 8 * i as i32);
            let value = if input.is_repeated { self.repeated(*input, address) } else { address };
            self.inputs.push(value);
        }
        for i in 0..self.program.outputs.len() {
            let address = self.builder.ins().load(POINTER, memory(), outputs, 8 * i as i32);
            self.outputs.push(address);
        }
        for i in 0..self.program.numbers {
            let offset = (i as i64 * self.size) as i32;
            let number = self.builder.ins().load(self.lane, memory(), numbers, offset);
            let number = self.builder.ins().splat(self.float, number);
            self.numbers.push(number);
        }
    }

    /// A vector full of the element at an address.
    fn repeated(&mut self, input: Input, address: Value) -> Value {
        if !input.is_mask {
            let element = self.builder.ins().load(self.lane, memory(), address, 0);
            return self.builder.ins().splat(self.float, element);
        }
        let byte = self.builder.ins().uload8(types::I64, memory(), address, 0);
        let lane = self.mask.lane_type();
        let wide = if lane == types::I64 { byte } else { self.builder.ins().ireduce(lane, byte) };
        let bytes = self.builder.ins().splat(self.mask, wide);
        self.is_not_zero(bytes)
    }

    fn is_not_zero(&mut self, value: Value) -> Value {
        let zero = self.bits(0);
        self.builder.ins().icmp(IntCC::NotEqual, value, zero)
    }

    /// The address of a tile.
    fn tile(&mut self, index: usize) -> Value {
        let offset = index as i64 * TILE as i64 * self.size;
        self.builder.ins().iadd_imm_s(self.scratch, offset)
    }

    /// The nodes that a stage computes and stores: results, and what is kept for later stages.
    fn stored_in(&self, stage: usize) -> Vec<(NodeId, Stored)> {
        let mut stored = Vec::new();
        for (i, node) in self.program.nodes.iter().enumerate() {
            let is_computed = functions::takes(node.name).is_none() && self.stages[i] == stage;
            if let (true, Slot::Tile(tile)) = (is_computed, self.slots[i]) {
                stored.push((i as NodeId, Stored::Tile(tile)));
            }
        }
        for (k, output) in self.program.outputs.iter().enumerate() {
            if self.stages[usize::from(*output)] == stage {
                stored.push((*output, Stored::Output(k)));
            }
        }
        stored
    }

    /// The loop of a stage, if it has something to compute.
    fn stage(&mut self, stage: usize) -> Result<()> {
        let stored = self.stored_in(stage);
        if stored.is_empty() {
            return Ok(());
        }
        let (body, after): (Block, Block) = (self.builder.create_block(), self.builder.create_block());
        let index = self.builder.append_block_param(body, POINTER);
        let zero = self.builder.ins().iconst(POINTER, 0);
        self.builder.ins().jump(body, &[zero.into()]);
        self.builder.switch_to_block(body);
        let lanes = self.program.lanes() as i64;
        for vector in 0..STEP as i64 {
            let at = self.builder.ins().iadd_imm_s(index, vector * lanes);
            let mut iteration = Iteration { stage, at, values: vec![None; self.program.nodes.len()] };
            for (node, to) in &stored {
                let value = self.value(&mut iteration, *node)?;
                self.store(*node, value, *to, at);
            }
        }
        let next = self.builder.ins().iadd_imm_s(index, STEP as i64 * lanes);
        let goes_on = self.builder.ins().icmp(IntCC::UnsignedLessThan, next, self.count);
        self.builder.ins().brif(goes_on, body, &[next.into()], after, &[]);
        self.builder.switch_to_block(after);
        Ok(())
    }

    /// The calls of functions whose results stage `stage` is the first to use.
    fn calls(&mut self, stage: usize) -> Result<()> {
        for (i, node) in self.program.nodes.iter().enumerate() {
            if functions::takes(node.name).is_none() || self.stages[i] != stage {
                continue;
            }
            let Some(function) = functions::find(node.name, self.program.element) else {
                return Err(error!(Internal, "compile: there is no function {}", node.name));
            };
            let first = self.address(usize::from(node.args[0]))?;
            let second = if node.count > 1 { self.address(usize::from(node.args[1]))? } else { first };
            let to = self.address(i)?;
            let function = self.builder.ins().iconst(POINTER, address_of(function));
            let args = [first, second, to, self.count];
            self.builder.ins().call_indirect(self.call, function, &args);
        }
        Ok(())
    }

    /// The address of a node's tile.
    fn address(&mut self, node: usize) -> Result<Value> {
        match self.slots[node] {
            Slot::Tile(tile) => Ok(self.tile(tile)),
            Slot::Input(input) => Ok(self.inputs[input]),
            Slot::None => Err(error!(Internal, "compile: an argument of a function is in no tile")),
        }
    }

    /// The vector of a node in an iteration of a stage's loop. Arguments come before those that take them, so a loop computes what is
    /// missing.
    fn value(&mut self, iteration: &mut Iteration, requested: NodeId) -> Result<Value> {
        let mut open = vec![requested];
        while let Some(id) = open.last().copied() {
            let position = usize::from(id);
            let node = self.program.nodes[position];
            let is_function = functions::takes(node.name).is_some();
            let is_kept = is_function || (self.stages[position] < iteration.stage && !is_leaf(&node));
            let args = &node.args[..usize::from(node.count)];
            let missing = |arg: &&NodeId| iteration.values[usize::from(**arg)].is_none();
            match args.iter().find(missing).filter(|_| !is_kept) {
                Some(arg) => open.push(*arg),
                None => {
                    if iteration.values[position].is_none() {
                        let made = if is_kept {
                            self.kept(position, iteration.at)?
                        } else {
                            self.operation(&node, iteration)?
                        };
                        iteration.values[position] = Some(made);
                    }
                    open.pop();
                }
            }
        }
        iteration.values[usize::from(requested)]
            .ok_or_else(|| error!(Internal, "compile: a value is missing"))
    }

    /// The vector of a node that an earlier stage has computed.
    fn kept(&mut self, node: usize, at: Value) -> Result<Value> {
        let Slot::Tile(tile) = self.slots[node] else {
            return Err(error!(Internal, "compile: a value of an earlier stage is in no tile"));
        };
        let tile = self.tile(tile);
        let address = self.at(tile, at, self.size);
        let ty = if self.program.nodes[node].kind == TracedType::Element { self.float } else { self.mask };
        Ok(self.builder.ins().load(ty, memory(), address, 0))
    }

    /// The address of element `at` of an array.
    fn at(&mut self, array: Value, at: Value, size: i64) -> Value {
        let offset = if size == 1 { at } else { self.builder.ins().imul_imm_s(at, size) };
        self.builder.ins().iadd(array, offset)
    }

    fn store(&mut self, node: NodeId, value: Value, to: Stored, at: Value) {
        let (array, is_bytes) = match to {
            Stored::Tile(tile) => (self.tile(tile), false),
            Stored::Output(output) => (self.outputs[output], self.program.is_mask(node)),
        };
        if is_bytes {
            let address = self.at(array, at, 1);
            return self.store_mask(value, address);
        }
        let address = self.at(array, at, self.size);
        self.builder.ins().store(memory(), value, address, 0);
    }

    /// A byte for each lane, 0 or 1.
    fn store_mask(&mut self, mask: Value, address: Value) {
        let one = self.bits(1);
        let ones = self.builder.ins().band(mask, one);
        for lane in 0..self.program.lanes() as u8 {
            let value = self.builder.ins().extractlane(ones, lane);
            self.builder.ins().istore8(memory(), value, address, i32::from(lane));
        }
    }

    /// The truth values of a byte for each lane.
    fn load_mask(&mut self, address: Value) -> Value {
        let is_f64 = self.program.element == ScalarType::F64;
        let bytes = match is_f64 {
            true => {
                let two = self.builder.ins().uload16(types::I64, memory(), address, 0);
                self.builder.ins().ireduce(types::I32, two)
            }
            false => self.builder.ins().load(types::I32, memory(), address, 0),
        };
        let vector = self.builder.ins().scalar_to_vector(types::I32X4, bytes);
        let vector = self.cast(types::I8X16, vector);
        let vector = self.builder.ins().uwiden_low(vector);
        let mut vector = self.builder.ins().uwiden_low(vector);
        if is_f64 {
            vector = self.builder.ins().uwiden_low(vector);
        }
        self.is_not_zero(vector)
    }

    fn cast(&mut self, to: Type, value: Value) -> Value {
        self.builder.ins().bitcast(to, MemFlagsData::new().with_endianness(Endianness::Little), value)
    }

    /// A vector of integers, each `value`.
    fn bits(&mut self, value: u64) -> Value {
        let lane = self.mask.lane_type();
        let value = if lane == types::I32 { i64::from(value as u32) } else { value as i64 };
        let constant = self.builder.ins().iconst(lane, value);
        self.builder.ins().splat(self.mask, constant)
    }

    fn constant(&mut self, value: f64) -> Value {
        let lane = match self.lane {
            types::F64 => self.builder.ins().f64const(value),
            _ => self.builder.ins().f32const(value as f32),
        };
        self.builder.ins().splat(self.float, lane)
    }

    fn input(&mut self, index: usize, at: Value) -> Value {
        let Input { is_mask, is_repeated } = self.program.inputs[index];
        let value = self.inputs[index];
        match (is_repeated, is_mask) {
            (true, _) => value,
            (false, true) => {
                let address = self.at(value, at, 1);
                self.load_mask(address)
            }
            (false, false) => {
                let address = self.at(value, at, self.size);
                self.builder.ins().load(self.float, memory(), address, 0)
            }
        }
    }

    fn compare(&mut self, by: FloatCC, a: Value, b: Value) -> Value {
        self.builder.ins().fcmp(by, a, b)
    }

    fn select(&mut self, mask: Value, yes: Value, no: Value) -> Value {
        let mask = self.cast(self.float, mask);
        self.builder.ins().bitselect(mask, yes, no)
    }

    /// The magnitude of one vector with the sign of another.
    fn copysign(&mut self, magnitude: Value, sign: Value) -> Value {
        let bit = 1u64 << (8 * self.size - 1);
        let (bit, rest) = (self.bits(bit), self.bits(!bit));
        let (magnitude, sign) = (self.cast(self.mask, magnitude), self.cast(self.mask, sign));
        let magnitude = self.builder.ins().band(magnitude, rest);
        let sign = self.builder.ins().band(sign, bit);
        let both = self.builder.ins().bor(magnitude, sign);
        self.cast(self.float, both)
    }

    /// The vector of an operation whose arguments are there.
    fn operation(&mut self, node: &Node, iteration: &Iteration) -> Result<Value> {
        let args: Option<Vec<Value>> = node.args[..usize::from(node.count)]
            .iter()
            .map(|arg| iteration.values[usize::from(*arg)])
            .collect();
        let args = args.ok_or_else(|| error!(Internal, "compile: an argument is missing"))?;
        let payload = node.payload;
        Ok(match (node.name, &args[..]) {
            ("input", []) => self.input(payload as usize, iteration.at),
            ("scalar", []) => self.numbers[payload as usize],
            ("float", []) => self.constant(f64::from_bits(payload)),
            ("bits", []) => self.bits(payload),
            ("mask_constant", []) => self.bits(if payload == 0 { 0 } else { u64::MAX }),
            ("select", [mask, yes, no]) => self.select(*mask, *yes, *no),
            ("mul_add", [a, b, c]) => self.builder.ins().fma(*a, *b, *c),
            ("copysign", [a, b]) => self.copysign(*a, *b),
            ("to_bits", [a]) => self.cast(self.mask, *a),
            ("from_bits", [a]) => self.cast(self.float, *a),
            ("bits_shl" | "bits_shr", [a]) => {
                let by = self.builder.ins().iconst(types::I32, payload as i64);
                let is_left = node.name == "bits_shl";
                if is_left { self.builder.ins().ishl(*a, by) } else { self.builder.ins().ushr(*a, by) }
            }
            (name, [a]) => self.unary(name, *a)?,
            (name, [a, b]) => self.binary(name, *a, *b)?,
            (name, _) => return Err(unknown(name)),
        })
    }

    fn unary(&mut self, name: &str, a: Value) -> Result<Value> {
        let ins = self.builder.ins();
        Ok(match name {
            "neg" => ins.fneg(a),
            "abs" => ins.fabs(a),
            "sqrt" => ins.sqrt(a),
            "floor" => ins.floor(a),
            "ceil" => ins.ceil(a),
            "round" => ins.nearest(a),
            "trunc" => ins.trunc(a),
            "mask_not" => ins.bnot(a),
            _ => return Err(unknown(name)),
        })
    }

    fn binary(&mut self, name: &str, a: Value, b: Value) -> Result<Value> {
        Ok(match name {
            "eq" => self.compare(FloatCC::Equal, a, b),
            "ne" => self.compare(FloatCC::NotEqual, a, b),
            "lt" => self.compare(FloatCC::LessThan, a, b),
            "le" => self.compare(FloatCC::LessThanOrEqual, a, b),
            // As the vectors: the second one where either is NaN.
            "min" => {
                let less = self.compare(FloatCC::LessThan, a, b);
                self.select(less, a, b)
            }
            "max" => {
                let greater = self.compare(FloatCC::LessThan, b, a);
                self.select(greater, a, b)
            }
            "bits_equal" => self.builder.ins().icmp(IntCC::Equal, a, b),
            _ => self.arithmetic(name, a, b)?,
        })
    }

    fn arithmetic(&mut self, name: &str, a: Value, b: Value) -> Result<Value> {
        let ins = self.builder.ins();
        Ok(match name {
            "add" => ins.fadd(a, b),
            "sub" => ins.fsub(a, b),
            "mul" => ins.fmul(a, b),
            "div" => ins.fdiv(a, b),
            "bits_add" => ins.iadd(a, b),
            "bits_sub" => ins.isub(a, b),
            "bits_and" | "mask_and" => ins.band(a, b),
            "bits_or" | "mask_or" => ins.bor(a, b),
            "bits_xor" | "mask_xor" => ins.bxor(a, b),
            _ => return Err(unknown(name)),
        })
    }
}

/// Where a stage stores a node.
#[derive(Clone, Copy)]
enum Stored {
    Tile(usize),
    Output(usize),
}

/// One iteration of a stage's loop.
struct Iteration {
    stage: usize,
    /// The index of the first element.
    at: Value,
    /// The vectors that are there, by node.
    values: Vec<Option<Value>>,
}

fn address_of(function: TileFunction) -> i64 {
    (function as *const ()).addr() as i64
}

fn unknown(name: &str) -> flambeau_core::Error {
    error!(Internal, "compile: there is no instruction for the operation {name}")
}
