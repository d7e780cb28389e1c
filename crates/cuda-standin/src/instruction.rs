//! Decoded instructions. Every operand is a register: constants and special registers have registers of their own, set before a warp runs.

/// The number of a register in its file: predicates, registers of up to 32 bits, and registers of 64 bits have a file each.
pub(crate) type Reg = u16;

/// An integer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntType {
    U16,
    S16,
    U32,
    S32,
    U64,
    S64,
}

impl IntType {
    pub(crate) fn bits(self) -> u8 {
        match self {
            IntType::U16 | IntType::S16 => 16,
            IntType::U32 | IntType::S32 => 32,
            IntType::U64 | IntType::S64 => 64,
        }
    }
}

/// A floating point type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatType {
    F16,
    BF16,
    F32,
    F64,
}

impl FloatType {
    pub(crate) fn bits(self) -> u8 {
        match self {
            FloatType::F16 | FloatType::BF16 => 16,
            FloatType::F32 => 32,
            FloatType::F64 => 64,
        }
    }
}

/// A number in a register, of any width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    Int { bits: u8, is_signed: bool },
    Float(FloatType),
}

impl Number {
    pub(crate) fn bits(self) -> u8 {
        match self {
            Number::Int { bits, .. } => bits,
            Number::Float(ty) => ty.bits(),
        }
    }
}

/// A rounding mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// To the nearest, of two the even one.
    Nearest,
    ToZero,
    Down,
    Up,
}

/// How a floating point result is formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode {
    pub(crate) rounding: Rounding,
    /// Subnormal operands and results become zeros.
    pub(crate) flushes: bool,
    /// The result is clamped to 0 and 1, NaN becomes 0.
    pub(crate) saturates: bool,
}

impl Mode {
    pub(crate) const PLAIN: Mode = Mode { rounding: Rounding::Nearest, flushes: false, saturates: false };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntUnary {
    Neg,
    Abs,
    Not,
    LogicalNot,
    ReverseBits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntBinary {
    Add,
    Sub,
    MulLow,
    MulHigh,
    Div,
    Rem,
    Min,
    Max,
    And,
    Or,
    Xor,
}

/// The result is a number of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    Ones,
    LeadingZeros,
    /// The position of the highest bit that differs from the sign; `u32::MAX` for none.
    Highest,
}

/// Which part of a product is added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Low,
    High,
    Wide,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carry {
    Add,
    Sub,
    MadLow,
    MadHigh,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatUnary {
    Neg,
    Abs,
    Sqrt,
    Reciprocal,
    ReciprocalSqrt,
    Exp2,
    Log2,
    Sin,
    Cos,
    Tanh,
    /// The 32 high bits of the reciprocal of the 32 high bits.
    ReciprocalOfHighBits,
    ReciprocalSqrtOfHighBits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatBinary {
    Add,
    Sub,
    Mul,
    Div,
    /// `div.approx.f32`, which is 0 for large divisors.
    DivApprox,
    Min,
    Max,
    MinNan,
    MaxNan,
    CopySign,
}

/// A comparison; the second half is true where an operand is NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    EqOrNan,
    NeOrNan,
    LtOrNan,
    LeOrNan,
    GtOrNan,
    GeOrNan,
    Ordered,
    Unordered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logic {
    And,
    Or,
    Xor,
}

/// A predicate, negated or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Predicate {
    pub(crate) register: Reg,
    pub(crate) negated: bool,
}

/// The results of a comparison: the first is `compare OP with`, the second `!compare OP with`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) result: Option<Reg>,
    pub(crate) inverse: Option<Reg>,
    pub(crate) with: Option<(Logic, Predicate)>,
}

/// The kind of memory that an address is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Generic,
    Global,
    Shared,
    Local,
    Param,
}

/// The register that an address starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    None,
    Narrow(Reg),
    Wide(Reg),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) space: Space,
    pub(crate) base: Base,
    pub(crate) offset: i64,
}

/// A load or store of 1 to 8 adjacent elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) address: Address,
    /// Of an element in memory.
    pub(crate) bytes: u8,
    /// Whether loaded elements are sign-extended.
    pub(crate) is_signed: bool,
    /// Of the registers.
    pub(crate) register_bits: u8,
    /// `None` discards an element.
    pub(crate) registers: Box<[Option<Reg>]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomicOp {
    Add,
    Exchange,
    CompareAndSwap,
    Min,
    Max,
    And,
    Or,
    Xor,
    Increment,
    Decrement,
}

/// A read and a write of one element that no other thread comes between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Atomic {
    pub(crate) op: AtomicOp,
    pub(crate) number: Number,
    pub(crate) address: Address,
    /// What was there before.
    pub(crate) result: Option<Reg>,
    pub(crate) value: Reg,
    /// What is stored if the element equals `value`, of a compare-and-swap.
    pub(crate) replacement: Reg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vote {
    All,
    Any,
    Uniform,
    Ballot,
}

/// A conversion between any two types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conversion {
    pub(crate) to: Number,
    pub(crate) from: Number,
    pub(crate) mode: Mode,
    /// Of a float to one of its own type: rounds to an integer.
    pub(crate) to_integer: bool,
    /// The bits of the registers, which may have more than the types.
    pub(crate) register_bits: (u8, u8),
}

/// What an instruction does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op {
    Nop,
    Move {
        wide: bool,
        to: Reg,
        from: Reg,
    },
    Pack {
        wide: bool,
        to: Reg,
        part_bits: u8,
        parts: Box<[Reg]>,
    },
    Unpack {
        wide: bool,
        from: Reg,
        part_bits: u8,
        parts: Box<[Option<Reg>]>,
    },
    Extend {
        to: Reg,
        from: Reg,
        conversion: Box<Conversion>,
    },
    Convert {
        to: Reg,
        from: Reg,
        conversion: Box<Conversion>,
    },
    IntUnary {
        op: IntUnary,
        ty: IntType,
        to: Reg,
        a: Reg,
    },
    IntBinary {
        op: IntBinary,
        ty: IntType,
        to: Reg,
        a: Reg,
        b: Reg,
    },
    AddSaturated {
        is_sub: bool,
        to: Reg,
        a: Reg,
        b: Reg,
    },
    Shift {
        left: bool,
        ty: IntType,
        to: Reg,
        a: Reg,
        by: Reg,
    },
    Count {
        op: Count,
        ty: IntType,
        to: Reg,
        a: Reg,
    },
    MulWide {
        ty: IntType,
        to: Reg,
        a: Reg,
        b: Reg,
    },
    Mad {
        part: Part,
        ty: IntType,
        to: Reg,
        a: Reg,
        b: Reg,
        c: Reg,
    },
    Carry {
        op: Carry,
        wide: bool,
        takes: bool,
        gives: bool,
        to: Reg,
        a: Reg,
        b: Reg,
        c: Reg,
    },
    BitFieldExtract {
        ty: IntType,
        to: Reg,
        a: Reg,
        start: Reg,
        length: Reg,
    },
    BitFieldInsert {
        wide: bool,
        to: Reg,
        a: Reg,
        b: Reg,
        start: Reg,
        length: Reg,
    },
    Permute {
        to: Reg,
        a: Reg,
        b: Reg,
        selector: Reg,
    },
    Logic3 {
        table: u8,
        to: Reg,
        a: Reg,
        b: Reg,
        c: Reg,
    },
    FunnelShift {
        left: bool,
        wraps: bool,
        to: Reg,
        a: Reg,
        b: Reg,
        by: Reg,
    },
    FloatUnary {
        op: FloatUnary,
        ty: FloatType,
        mode: Mode,
        to: Reg,
        a: Reg,
    },
    FloatBinary {
        op: FloatBinary,
        ty: FloatType,
        mode: Mode,
        to: Reg,
        a: Reg,
        b: Reg,
    },
    Fma {
        ty: FloatType,
        mode: Mode,
        to: Reg,
        a: Reg,
        b: Reg,
        c: Reg,
    },
    CompareInt {
        op: Comparison,
        ty: IntType,
        outcome: Outcome,
        a: Reg,
        b: Reg,
    },
    CompareFloat {
        op: Comparison,
        ty: FloatType,
        flushes: bool,
        outcome: Outcome,
        a: Reg,
        b: Reg,
    },
    Select {
        wide: bool,
        to: Reg,
        a: Reg,
        b: Reg,
        by: Predicate,
    },
    Logic {
        op: Logic,
        to: Reg,
        a: Predicate,
        b: Predicate,
    },
    Load(Box<Access>),
    Store(Box<Access>),
    Atomic(Box<Atomic>),
    /// Adds the start of a kind of memory in generic addresses, or subtracts it.
    ConvertAddress {
        space: Space,
        is_to_generic: bool,
        to: Reg,
        from: Reg,
    },
    Branch {
        target: u32,
    },
    /// Copies within the local memory of each lane: from, to, bytes. Parameters of functions are there.
    CopyLocal(Box<[(u32, u32, u32)]>),
    Call {
        target: u32,
    },
    Return,
    Trap,
    Barrier,
    Shuffle {
        op: Shuffle,
        to: Reg,
        is_valid: Option<Reg>,
        a: Reg,
        b: Reg,
        c: Reg,
        members: Reg,
    },
    Vote {
        op: Vote,
        to: Reg,
        a: Predicate,
        members: Reg,
    },
    Match {
        all: bool,
        wide: bool,
        to: Reg,
        is_equal: Option<Reg>,
        a: Reg,
        members: Reg,
    },
    Reduce {
        op: IntBinary,
        ty: IntType,
        to: Reg,
        a: Reg,
        members: Reg,
    },
    ActiveMask {
        to: Reg,
    },
    WarpBarrier {
        members: Reg,
    },
}

/// An instruction, and the line of PTX from which it was decoded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Instruction {
    pub(crate) op: Op,
    pub(crate) guard: Option<Predicate>,
    pub(crate) line: u32,
}

/// What an instruction of PTX gives those that it is decoded to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Guarded {
    pub(crate) guard: Option<Predicate>,
    pub(crate) line: u32,
}

/// A register whose value is known before a warp runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    /// The index of the thread in its block, by dimension.
    ThreadIndex(u8),
    BlockSize(u8),
    BlockIndex(u8),
    GridSize(u8),
    Lane,
    Warp,
    Warps,
    LanesEqual,
    LanesBelow,
    LanesUpTo,
    LanesAbove,
    LanesFrom,
    DynamicSharedBytes,
    TotalSharedBytes,
    /// Clocks and the number of the multiprocessor, which are always 0 here.
    Zero,
}

/// Where registers are, and how they start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registers {
    pub(crate) predicates: u16,
    pub(crate) narrow: u16,
    pub(crate) wide: u16,
    pub(crate) narrow_constants: Vec<(Reg, u32)>,
    pub(crate) wide_constants: Vec<(Reg, u64)>,
    pub(crate) predicate_constants: Vec<(Reg, bool)>,
    pub(crate) specials: Vec<(Special, Reg)>,
}

/// A parameter of a kernel, or a variable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) bytes: u32,
    /// From the start of its kind of memory.
    pub(crate) offset: u32,
}

/// A kernel: where it starts, and what a launch has to give it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) start: u32,
    pub(crate) parameters: Vec<Variable>,
    pub(crate) parameter_bytes: u32,
    /// Threads of a block at most, where the program says so.
    pub(crate) max_threads: Option<u32>,
}

/// A decoded module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    /// The text that was decoded, of which faults show a line.
    pub(crate) source: String,
    pub(crate) code: Vec<Instruction>,
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) registers: Registers,
    pub(crate) shared_bytes: u32,
    pub(crate) local_bytes: u32,
    /// Whether threads of a block wait for each other.
    pub(crate) has_barriers: bool,
}

/// The start of shared, local and parameter memory in generic addresses. Global memory is its own.
pub(crate) const fn window(space: Space) -> u64 {
    match space {
        Space::Shared => 1 << 60,
        Space::Local => 2 << 60,
        Space::Param => 3 << 60,
        Space::Generic | Space::Global => 0,
    }
}
