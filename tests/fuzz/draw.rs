//! Hostile arguments by schema, all drawn from a seed and a number.

use flambeau_core::ScalarType::{self, Bool, F32, I64, U8};
use flambeau_core::{Device, Generator, Layout, MemoryFormat, Scalar};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::{OperatorInfo, Value};
use flambeau_ops::ops::{self, OPERATORS};
use flambeau_tests::array::Array;
use flambeau_tests::call::{operator, tensor, values};
use flambeau_tests::draw::Draw;
use flambeau_tests::layout::{LAYOUTS, lay_out};
use flambeau_tests::op_db;
use flambeau_tests::row::{ALL, Row};

/// The generator of one call, independent of the calls before it.
pub(crate) fn numbers(seed: u64, number: u64) -> Draw {
    Draw::new(seed.wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// True with a probability in percent.
fn chance(draw: &mut Draw, percent: usize) -> bool {
    draw.within(1..=100) <= percent
}

/// The table of operators, whose samples are the calls that get far.
pub(crate) struct Rows(Vec<Row>);

impl Rows {
    pub(crate) fn read() -> Self {
        Rows(op_db::rows().into_iter().filter(|row| row.samples.iter().any(|s| !s.is_empty())).collect())
    }
}

/// A call to make.
pub(crate) struct Call {
    pub(crate) op: &'static dyn OperatorInfo,
    pub(crate) arguments: Vec<Value>,
}

impl Call {
    /// A sample with one or two hostile arguments, or all drawn by the schema.
    pub(crate) fn drawn(rows: &Rows, draw: &mut Draw) -> Self {
        if chance(draw, 60) {
            let row = &rows.0[draw.within(0..=rows.0.len() - 1)];
            if let Some(op) = operator(row.name) {
                return Call { op, arguments: spoilt(op, row, draw) };
            }
        }
        let op = OPERATORS[draw.within(0..=OPERATORS.len() - 1)];
        let mut tensors = vec![];
        let arguments = kinds(op.schema()).iter().map(|kind| argument(kind, &mut tensors, draw)).collect();
        Call { op, arguments }
    }

    /// The arguments in words.
    pub(crate) fn words(&self) -> String {
        let one = |t: &Tensor| {
            format!(
                "{} {:?} strides {:?} offset {} on {}",
                t.dtype(),
                t.sizes(),
                t.strides(),
                t.storage_offset(),
                t.device()
            )
        };
        let words = |value: &Value| match value {
            Value::Tensor(t) => one(t),
            Value::Tensors(list) => format!("[{}]", list.iter().map(one).collect::<Vec<_>>().join(", ")),
            other => format!("{other:?}"),
        };
        self.arguments.iter().map(words).collect::<Vec<_>>().join("\n")
    }
}

fn spoilt(op: &dyn OperatorInfo, row: &Row, draw: &mut Draw) -> Vec<Value> {
    let sample = &row.samples[draw.within(0..=row.samples.len() - 1)];
    let dtype = draw.one_of(row.types);
    let mut arguments = values(sample, &mut |a| {
        let plain = tensor(a, dtype);
        if chance(draw, 30) { laid_out(plain, draw) } else { plain }
    });
    let mut tensors: Vec<Tensor> = arguments
        .iter()
        .filter_map(|v| if let Value::Tensor(t) = v { Some(t.clone()) } else { None })
        .collect();
    let kinds = kinds(op.schema());
    if arguments.is_empty() {
        return arguments;
    }
    for _ in 0..=draw.within(0..=1) {
        let index = draw.within(0..=arguments.len() - 1);
        if let (Some(kind), Some(value)) = (kinds.get(index), arguments.get_mut(index)) {
            *value = argument(kind, &mut tensors, draw);
        }
    }
    arguments
}

/// The types of the arguments of a schema, without annotations.
fn kinds(schema: &str) -> Vec<String> {
    let open = schema.find('(').map_or(0, |at| at + 1);
    let close = schema.rfind(") ->").unwrap_or(schema.len());
    let plain = |argument: &str| {
        let kind = match argument.strip_prefix("Tensor(") {
            Some(rest) => format!("Tensor{}", rest.split_once(')').map_or("", |(_, after)| after)),
            None => argument.to_string(),
        };
        kind.split(' ').next().unwrap_or_default().to_string()
    };
    let list = schema.get(open..close).unwrap_or_default();
    list.split(", ").filter(|a| !a.is_empty() && *a != "*").map(plain).collect()
}

const KINDS: [&str; 12] = [
    "Tensor",
    "Tensor[]",
    "Scalar",
    "int",
    "float",
    "bool",
    "int[]",
    "float[]",
    "str",
    "ScalarType",
    "Device",
    "bool[]",
];

/// A value of a type, at times of another.
fn argument(kind: &str, tensors: &mut Vec<Tensor>, draw: &mut Draw) -> Value {
    let kind = if chance(draw, 3) { draw.one_of(&KINDS) } else { kind };
    let (kind, optional) = kind.strip_suffix('?').map_or((kind, false), |kind| (kind, true));
    if chance(draw, if optional { 50 } else { 1 }) {
        return Value::None;
    }
    if let Some((of, length)) = kind.strip_suffix(']').and_then(|kind| kind.split_once('[')) {
        let length = length.parse().ok().filter(|_| chance(draw, 90)).unwrap_or_else(|| draw.within(0..=4));
        return list(of, length, tensors, draw);
    }
    match kind {
        "Tensor" => Value::Tensor(any_tensor(tensors, draw)),
        "Scalar" => Value::Scalar(scalar(draw)),
        "int" | "SymInt" => Value::Int(int(draw)),
        "float" => Value::Float(float(draw)),
        "bool" => Value::Bool(chance(draw, 50)),
        "str" => Value::Str(
            draw.one_of(&["", "none", "mean", "sum", "floor", "trunc", "ij", "xy", "\u{0}é"]).to_string(),
        ),
        "ScalarType" => Value::ScalarType(draw.one_of(ALL)),
        "Layout" => Value::Layout(draw.one_of(&[Layout::Strided, Layout::SparseCoo, Layout::SparseCsr])),
        "Device" => Value::Device(draw.one_of(&[Device::CPU, Device::META])),
        "MemoryFormat" => Value::MemoryFormat(draw.one_of(&[
            MemoryFormat::Contiguous,
            MemoryFormat::Preserve,
            MemoryFormat::ChannelsLast,
            MemoryFormat::ChannelsLast3d,
        ])),
        "Generator" => Value::Generator(Generator::new(7)),
        _ => Value::None,
    }
}

fn list(of: &str, length: usize, tensors: &mut Vec<Tensor>, draw: &mut Draw) -> Value {
    let all = 0..length;
    match of {
        "Tensor" => Value::Tensors(all.map(|_| any_tensor(tensors, draw)).collect()),
        "Tensor?" => {
            Value::OptionalTensors(all.map(|_| chance(draw, 70).then(|| any_tensor(tensors, draw))).collect())
        }
        "Scalar" => Value::Scalars(all.map(|_| scalar(draw)).collect()),
        "float" => Value::Floats(all.map(|_| float(draw)).collect()),
        "bool" => Value::Bools(all.map(|_| chance(draw, 50)).collect()),
        _ => Value::Ints(all.map(|_| int(draw)).collect()),
    }
}

fn int(draw: &mut Draw) -> i64 {
    const HOSTILE: [i64; 10] =
        [i64::MIN, i64::MAX, i64::MIN + 1, i64::MAX - 1, 1 << 62, 1 << 40, 1 << 32, -(1 << 31), 1 << 31, -7];
    if chance(draw, 25) { draw.one_of(&HOSTILE) } else { draw.within(0..=7) as i64 - 2 }
}

fn float(draw: &mut Draw) -> f64 {
    const HOSTILE: [f64; 9] =
        [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::MAX, f64::MIN_POSITIVE, 1e19, -1.0, 5e-324];
    if chance(draw, 40) { draw.one_of(&HOSTILE) } else { draw.within(0..=99) as f64 / 50.0 }
}

fn scalar(draw: &mut Draw) -> Scalar {
    match draw.within(0..=2) {
        0 => int(draw).into(),
        1 => float(draw).into(),
        _ => chance(draw, 50).into(),
    }
}

/// A new tensor, or one of the call again, whole or a view of it.
fn any_tensor(tensors: &mut Vec<Tensor>, draw: &mut Draw) -> Tensor {
    let made = match chance(draw, 25) && !tensors.is_empty() {
        true => {
            let old = tensors[draw.within(0..=tensors.len() - 1)].clone();
            alias(&old, draw).unwrap_or(old)
        }
        false => new_tensor(draw),
    };
    tensors.push(made.clone());
    made
}

fn alias(t: &Tensor, draw: &mut Draw) -> Option<Tensor> {
    match draw.within(0..=4) {
        0 => ops::slice_tensor(t, 0, Some(1), None, 1).ok(),
        1 => ops::transpose_int(t, 0, -1).ok(),
        2 => ops::view_dtype(t, draw.one_of(ALL)).ok(),
        3 => ops::as_strided(t, &[2, 2], &[0, 1], None).ok(),
        _ => None,
    }
}

const SHAPES: [&[usize]; 14] = [
    &[],
    &[0],
    &[1],
    &[3],
    &[4],
    &[17],
    &[2, 3],
    &[3, 4],
    &[4, 4],
    &[2, 0, 3],
    &[2, 3, 4],
    &[1, 2, 3, 4],
    &[2, 3, 4, 4],
    &[1, 2, 3, 3, 3],
];

fn new_tensor(draw: &mut Draw) -> Tensor {
    let sizes = draw.one_of(&SHAPES);
    let dtype = match draw.within(0..=3) {
        0 => F32,
        1 => I64,
        _ => draw.one_of(ALL),
    };
    let hostile = chance(draw, 30);
    let count = sizes.iter().product();
    let data =
        (0..count).map(|_| if hostile { float(draw) } else { draw.within(0..=8) as f64 - 2.0 }).collect();
    let plain = match dtype {
        Bool => odd_bools(sizes, draw),
        _ => tensor(&Array::new(sizes, data), dtype),
    };
    if chance(draw, 5) {
        return ops::_to_copy(&plain, None, None, Some(Device::META), None, false, None).unwrap_or(plain);
    }
    if chance(draw, 40) { laid_out(plain, draw) } else { plain }
}

/// Elements of bool with any bytes.
fn odd_bools(sizes: &[usize], draw: &mut Draw) -> Tensor {
    let count = sizes.iter().product();
    let bytes = (0..count).map(|_| draw.one_of(&[0.0, 1.0, 2.0, 255.0])).collect();
    let plain = tensor(&Array::new(sizes, bytes), U8);
    ops::view_dtype(&plain, ScalarType::Bool).unwrap_or(plain)
}

fn laid_out(t: Tensor, draw: &mut Draw) -> Tensor {
    lay_out(&t, draw.one_of(LAYOUTS)).unwrap_or(t)
}
