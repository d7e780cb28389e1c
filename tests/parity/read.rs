//! Reads the file that `replay.py` writes: calls with their arguments, and PyTorch's results.

use flambeau_core::sizes_and_strides::MAX_DIMS;
use flambeau_core::{Complex, Device, Element, Generator, Layout, MemoryFormat, Scalar, ScalarType};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::Value;
use flambeau_ops::ops::as_strided;
use half::{bf16, f16};

/// Anything that goes wrong with a file.
pub type Fault = Box<dyn std::error::Error>;

/// The types in the order of their codes.
const TYPES: [ScalarType; 15] = [
    ScalarType::Bool,
    ScalarType::U8,
    ScalarType::I8,
    ScalarType::I16,
    ScalarType::I32,
    ScalarType::I64,
    ScalarType::F16,
    ScalarType::BF16,
    ScalarType::F32,
    ScalarType::F64,
    ScalarType::Complex64,
    ScalarType::Complex128,
    ScalarType::U16,
    ScalarType::U32,
    ScalarType::U64,
];

/// A tensor that PyTorch gave.
pub struct Given {
    /// The argument storage it looks at, if it is a view of one.
    pub alias: Option<usize>,
    /// Its type.
    pub dtype: ScalarType,
    /// Outermost first.
    pub sizes: Vec<i64>,
    /// In elements.
    pub strides: Vec<i64>,
    /// In elements.
    pub offset: i64,
    /// Its elements in logical order.
    pub bytes: Vec<u8>,
    /// The type it was computed in, where that is narrower than its own.
    pub computed: ScalarType,
    /// The elements that PyTorch gives in 64 bits for contiguous arguments; empty where the call is such a one, or gives none.
    pub exact: Vec<u8>,
    /// How far each element moves when the arguments are moved by an eighth of their relative tolerance; empty where none does.
    pub spread: Vec<u8>,
}

/// A result that PyTorch gave.
pub enum Outcome {
    /// An undefined tensor.
    None,
    /// One tensor.
    Tensor(Given),
    /// Several in a list.
    Tensors(Vec<Given>),
    /// A number.
    Number(f64),
}

/// What PyTorch made of a call.
pub enum Expected {
    /// It raised an error of this message.
    Refusal(String),
    /// Gradients of the results that have a history, for the floating point tensors among the arguments.
    Gradients {
        /// What the results are multiplied by, for those with a history.
        seeds: Vec<Given>,
        /// One for each f32 and f64 tensor among the arguments.
        gradients: Vec<Outcome>,
    },
    /// It gave results.
    Results {
        /// The bytes of each storage afterwards, where its size is as before.
        storages: Vec<Option<Vec<u8>>>,
        /// The arguments it wrote to, by position.
        written: Vec<(usize, Given)>,
        /// What it returned.
        outcomes: Vec<Outcome>,
    },
}

/// One call.
pub struct Case {
    /// `add.Tensor`.
    pub name: String,
    /// Where it comes from: `op_db`, `layouts`, ....
    pub origin: String,
    /// The arguments in words.
    pub words: String,
    /// Whether a refusal is as good as the result, as for operands that overlap.
    pub may_refuse: bool,
    /// Whether the values mean anything: not those of `empty` or of random numbers.
    pub has_values: bool,
    /// The memory behind the arguments, as tensors of one dimension.
    pub storages: Vec<Tensor>,
    /// The arguments.
    pub arguments: Vec<Value>,
    /// What should come of it.
    pub expected: Expected,
}

/// The bytes that are left to read.
pub struct Reader<'b> {
    left: &'b [u8],
    /// Whether the case has a tensor of more dimensions than tensors may have here.
    is_beyond: bool,
    /// How many cases were left out for it.
    pub left_out: usize,
}

impl<'b> Reader<'b> {
    /// A reader of `bytes`.
    pub fn new(bytes: &'b [u8]) -> Self {
        Reader { left: bytes, is_beyond: false, left_out: 0 }
    }

    /// The next case, or `None` at the end.
    pub fn case(&mut self) -> Result<Option<Case>, Fault> {
        if self.left.is_empty() {
            return Ok(None);
        }
        self.is_beyond = false;
        let (name, origin, words) = (self.string()?, self.string()?, self.string()?);
        let (may_refuse, has_values) = (self.byte()? != 0, self.byte()? != 0);
        let storages = self.list(Self::storage)?;
        let arguments = self.list(|r| r.value(&storages))?;
        let expected = self.expected()?;
        if self.is_beyond {
            self.left_out += 1;
            return self.case();
        }
        Ok(Some(Case { name, origin, words, may_refuse, has_values, storages, arguments, expected }))
    }

    fn take(&mut self, count: usize) -> Result<&'b [u8], Fault> {
        let (head, tail) = self.left.split_at_checked(count).ok_or("the file ends inside a case")?;
        self.left = tail;
        Ok(head)
    }

    fn byte(&mut self) -> Result<u8, Fault> {
        Ok(self.take(1)?[0])
    }

    fn int(&mut self) -> Result<i64, Fault> {
        Ok(i64::from_le_bytes(self.take(8)?.try_into()?))
    }

    fn float(&mut self) -> Result<f64, Fault> {
        Ok(f64::from_le_bytes(self.take(8)?.try_into()?))
    }

    fn count(&mut self) -> Result<usize, Fault> {
        Ok(usize::try_from(self.int()?)?)
    }

    fn bytes(&mut self) -> Result<Vec<u8>, Fault> {
        let count = self.count()?;
        Ok(self.take(count)?.to_vec())
    }

    fn string(&mut self) -> Result<String, Fault> {
        Ok(String::from_utf8(self.bytes()?)?)
    }

    fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Result<T, Fault>) -> Result<Vec<T>, Fault> {
        let count = self.count()?;
        (0..count).map(|_| one(self)).collect()
    }

    fn dtype(&mut self) -> Result<ScalarType, Fault> {
        let code = self.byte()?;
        Ok(*TYPES.get(usize::from(code)).ok_or("a type of an unknown code")?)
    }

    fn storage(&mut self) -> Result<Tensor, Fault> {
        let dtype = self.dtype()?;
        let bytes = self.bytes()?;
        flat_tensor(dtype, &bytes)
    }

    fn tensor(&mut self, storages: &[Tensor]) -> Result<Tensor, Fault> {
        let at = self.count()?;
        let (sizes, strides, offset) = (self.list(Self::int)?, self.list(Self::int)?, self.int()?);
        let storage = storages.get(at).ok_or("a tensor in a storage that is not there")?;
        if sizes.len() > MAX_DIMS {
            self.is_beyond = true;
            return Ok(storage.clone());
        }
        Ok(as_strided(storage, &sizes, &strides, Some(offset))?)
    }

    fn scalar(&mut self) -> Result<Scalar, Fault> {
        Ok(match self.byte()? {
            0 => self.int()?.into(),
            1 => self.float()?.into(),
            3 => Scalar::Complex(self.float()?, self.float()?),
            _ => (self.byte()? != 0).into(),
        })
    }

    fn value(&mut self, storages: &[Tensor]) -> Result<Value, Fault> {
        Ok(match self.byte()? {
            0 => Value::None,
            1 => Value::Tensor(self.tensor(storages)?),
            2 => Value::Tensors(self.list(|r| r.tensor(storages))?),
            3 => Value::OptionalTensors(self.list(|r| match r.byte()? {
                0 => Ok(None),
                _ => r.tensor(storages).map(Some),
            })?),
            4 => Value::Scalar(self.scalar()?),
            5 => Value::Int(self.int()?),
            6 => Value::Float(self.float()?),
            7 => Value::Bool(self.byte()? != 0),
            8 => Value::Ints(self.list(Self::int)?),
            9 => Value::Floats(self.list(Self::float)?),
            10 => Value::Bools(self.list(|r| Ok(r.byte()? != 0))?),
            11 => Value::Str(self.string()?),
            12 => Value::ScalarType(self.dtype()?),
            13 => Value::Layout(Layout::Strided),
            14 => Value::Device(Device::CPU),
            15 => Value::MemoryFormat(match self.byte()? {
                0 => MemoryFormat::Contiguous,
                1 => MemoryFormat::Preserve,
                2 => MemoryFormat::ChannelsLast,
                _ => MemoryFormat::ChannelsLast3d,
            }),
            16 => Value::Generator(Generator::new(0)),
            17 => Value::Tensor(Tensor::wrapped_number(self.scalar()?)?),
            code => return Err(format!("a value of the unknown code {code}").into()),
        })
    }

    fn given(&mut self) -> Result<Given, Fault> {
        Ok(Given {
            alias: usize::try_from(self.int()?).ok(),
            dtype: self.dtype()?,
            sizes: self.list(Self::int)?,
            strides: self.list(Self::int)?,
            offset: self.int()?,
            bytes: self.bytes()?,
            computed: self.dtype()?,
            exact: self.bytes()?,
            spread: self.bytes()?,
        })
    }

    fn outcome(&mut self) -> Result<Outcome, Fault> {
        Ok(match self.byte()? {
            0 => Outcome::None,
            1 => Outcome::Tensor(self.given()?),
            2 => Outcome::Tensors(self.list(Self::given)?),
            _ => Outcome::Number(self.float()?),
        })
    }

    fn expected(&mut self) -> Result<Expected, Fault> {
        match self.byte()? {
            0 => return Ok(Expected::Refusal(self.string()?)),
            1 => {}
            _ => {
                let seeds = self.list(Self::given)?;
                return Ok(Expected::Gradients { seeds, gradients: self.list(Self::outcome)? });
            }
        }
        let storages = self.list(|r| match r.byte()? {
            0 => Ok(None),
            _ => r.bytes().map(Some),
        })?;
        let written = self.list(|r| Ok((r.count()?, r.given()?)))?;
        Ok(Expected::Results { storages, written, outcomes: self.list(Self::outcome)? })
    }
}

/// Bytes as elements of `dtype`, in one dimension.
pub fn flat_tensor(dtype: ScalarType, bytes: &[u8]) -> Result<Tensor, Fault> {
    fn make<T: Element, const N: usize>(bytes: &[u8], read: fn([u8; N]) -> T) -> Result<Tensor, Fault> {
        let (elements, _) = bytes.as_chunks::<N>();
        let elements: Vec<T> = elements.iter().map(|chunk| read(*chunk)).collect();
        let sizes = [i64::try_from(elements.len())?];
        Ok(Tensor::from_vec(elements, &sizes)?)
    }
    match dtype {
        ScalarType::Bool => make(bytes, |[b]: [u8; 1]| b != 0),
        ScalarType::U8 => make(bytes, u8::from_le_bytes),
        ScalarType::I8 => make(bytes, i8::from_le_bytes),
        ScalarType::I16 => make(bytes, i16::from_le_bytes),
        ScalarType::I32 => make(bytes, i32::from_le_bytes),
        ScalarType::I64 => make(bytes, i64::from_le_bytes),
        ScalarType::F16 => make(bytes, f16::from_le_bytes),
        ScalarType::BF16 => make(bytes, bf16::from_le_bytes),
        ScalarType::F32 => make(bytes, f32::from_le_bytes),
        ScalarType::F64 => make(bytes, f64::from_le_bytes),
        ScalarType::Complex64 => make(bytes, |[a, b, c, d, e, f, g, h]: [u8; 8]| {
            Complex::new(f32::from_le_bytes([a, b, c, d]), f32::from_le_bytes([e, f, g, h]))
        }),
        ScalarType::Complex128 => make(bytes, |both: [u8; 16]| {
            let part = |from: usize| f64::from_le_bytes(std::array::from_fn(|i| both[from + i]));
            Complex::new(part(0), part(8))
        }),
        ScalarType::U16 => make(bytes, u16::from_le_bytes),
        ScalarType::U32 => make(bytes, u32::from_le_bytes),
        ScalarType::U64 => make(bytes, u64::from_le_bytes),
        other => Err(format!("tensors of {other} are not read").into()),
    }
}
