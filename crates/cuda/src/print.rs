//! Prints the expression of a formula, and the loops around it, as CUDA C++.

use flambeau_core::ScalarType;
use flambeau_ops::vectorized::traced::{Node, Tape};
use std::fmt::Write;

/// What every program begins with.
pub(crate) const PRELUDE: &str = include_str!("kernels/prelude.cu");

/// What a program has after that if its formula calls special functions.
const SPECIAL: [&str; 2] = [include_str!("kernels/special_tables.cu"), include_str!("kernels/special.cu")];

/// What a program has if its formula has sines of the host.
const REDUCTION: &str = include_str!("kernels/reduction.cu");

/// What follows where a type is complex.
const COMPLEX: &str = include_str!("kernels/complex.cu");

/// What a program with these types begins with.
pub(crate) fn prelude(types: &str) -> String {
    if types.contains("complex") { [PRELUDE, COMPLEX].concat() } else { PRELUDE.to_owned() }
}

/// The name of a type of numbers that have an order; `None` for others.
pub(crate) fn type_name(dtype: ScalarType) -> Option<&'static str> {
    Some(match dtype {
        ScalarType::Bool => "boolean",
        ScalarType::U8 => "uint8",
        ScalarType::I8 => "int8",
        ScalarType::I16 => "int16",
        ScalarType::I32 => "int32",
        ScalarType::I64 => "int64",
        ScalarType::F16 => "float16",
        ScalarType::BF16 => "bfloat16",
        ScalarType::F32 => "float",
        ScalarType::F64 => "double",
        _ => return None,
    })
}

/// The name of a type of numbers, which may be complex.
pub(crate) fn number_name(dtype: ScalarType) -> Option<&'static str> {
    match dtype {
        ScalarType::Complex64 => Some("complex64"),
        ScalarType::Complex128 => Some("complex128"),
        other => type_name(other),
    }
}

/// The name of a type of elements that are moved or converted, but not computed with.
pub(crate) fn element_name(dtype: ScalarType) -> Option<&'static str> {
    match dtype {
        ScalarType::U16 => Some("unsigned short"),
        ScalarType::U32 => Some("uint32"),
        ScalarType::U64 => Some("uint64"),
        other => number_name(other),
    }
}

/// The largest number of dimensions of a strided loop.
pub(crate) const MAX_DIMS: usize = 24;

/// Where the values of an operand are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// In device memory, an element for each of the result.
    Elements,
    /// In device memory, one element for all.
    Repeated,
    /// In the argument itself: a floating point number of the host.
    Real,
    /// In the argument itself: an integer or a bool of the host.
    Whole,
    /// In two arguments, the parts: a complex number of the host.
    Complex,
}

/// An input of a loop: its type in memory, the type to which it is converted, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Input {
    pub(crate) memory: ScalarType,
    pub(crate) kernel: ScalarType,
    pub(crate) source: Source,
}

/// How elements lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Layout {
    /// Adjacent, in the order of the loop.
    Dense,
    /// With strides, and offsets that fit 32 bits.
    Strided32,
    /// With strides.
    Strided64,
}

/// A pointwise loop: all that its program depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pointwise {
    pub(crate) nodes: Vec<Node>,
    /// Tables in which the expression looks values up, as the bits of f64.
    pub(crate) tables: Vec<[u64; 16]>,
    pub(crate) result: u16,
    /// The node of the imaginary part of a complex result.
    pub(crate) imaginary: Option<u16>,
    /// Whether the expression is of the parts of complex numbers, two for each input.
    pub(crate) is_of_parts: bool,
    /// The type that the formula is of.
    pub(crate) computing: ScalarType,
    pub(crate) inputs: Vec<Input>,
    /// The type of the result as the formula gives it, and in memory.
    pub(crate) output: (ScalarType, ScalarType),
    /// For each number given to the formula, whether it is real.
    pub(crate) scalars: Vec<bool>,
    pub(crate) layout: Layout,
}

impl Pointwise {
    /// The program; `None` for types that programs do not have.
    pub(crate) fn source(&self) -> Option<String> {
        let moves = self.nodes.iter().all(|node| matches!(node.name, "input" | "select"));
        let type_name = if moves { element_name } else { number_name };
        let types = self.print_types(&type_name)?;
        let mut text = prelude(&types);
        if self.has_special_function() {
            SPECIAL.iter().for_each(|part| text += part);
        }
        if has_reduction(&self.nodes) {
            text += REDUCTION;
        }
        text += &types;
        print_tables(&mut text, &self.tables);
        self.print_formula(&mut text);
        match self.layout {
            Layout::Dense => self.print_dense(&mut text),
            _ => self.print_strided(&mut text),
        }
        Some(text)
    }

    /// Whether the expression calls a function of the program's special part.
    fn has_special_function(&self) -> bool {
        self.nodes.iter().any(|node| node.name.starts_with("special_"))
    }

    fn print_types(&self, name: &dyn Fn(ScalarType) -> Option<&'static str>) -> Option<String> {
        let computing = if self.is_of_parts { self.computing.to_real() } else { self.computing };
        let mut text =
            format!("\ntypedef computing<{}>::type C;\ntypedef bits_of<C>::type B;\n", name(computing)?);
        for (i, input) in self.inputs.iter().enumerate() {
            let memory = match input.source {
                Source::Real => "double",
                Source::Whole => "int64",
                Source::Complex => "complex128",
                _ => name(input.memory)?,
            };
            let _ = writeln!(text, "typedef {memory} M{i};\ntypedef {} K{i};", name(input.kernel)?);
        }
        let (kernel, memory) = self.output;
        let _ = writeln!(text, "typedef {} KO;\ntypedef {} MO;\n", name(kernel)?, name(memory)?);
        Some(text)
    }

    fn print_formula(&self, text: &mut String) {
        let inputs = (0..self.inputs.len()).map(|i| format!("computing<K{i}>::type x{i}"));
        let scalars = (0..self.scalars.len()).map(|i| format!("C s{i}"));
        let parameters: Vec<String> = inputs.chain(scalars).collect();
        let _ = writeln!(text, "INLINE auto formula({}) {{", parameters.join(", "));
        for (i, node) in self.nodes.iter().enumerate() {
            let _ = writeln!(text, "    const auto n{i} = {};", expression(node, self.is_of_parts));
        }
        let _ = match self.imaginary {
            None => writeln!(text, "    return n{};\n}}\n", self.result),
            Some(imaginary) => writeln!(text, "    return KO(n{}, n{imaginary});\n}}\n", self.result),
        };
    }

    /// The parameters of inputs and numbers, after a comma.
    fn parameters(&self, pointer: &dyn Fn(usize) -> String) -> String {
        let mut text = String::new();
        for (i, input) in self.inputs.iter().enumerate() {
            let _ = match input.source {
                Source::Real | Source::Whole => write!(text, ", M{i} in{i}"),
                Source::Complex => write!(text, ", double re{i}, double im{i}"),
                _ => write!(text, ", {} in{i}", pointer(i)),
            };
        }
        for (i, is_real) in self.scalars.iter().enumerate() {
            let _ = write!(text, ", {} number{i}", if *is_real { "double" } else { "int64" });
        }
        text
    }

    /// The values that all elements have in common.
    fn print_common(&self, text: &mut String) {
        for (i, input) in self.inputs.iter().enumerate() {
            let _ = match input.source {
                Source::Elements => Ok(()),
                Source::Repeated => {
                    writeln!(text, "    const auto r{i} = convert<K{i}>(*(const M{i}*)in{i});")
                }
                Source::Complex => {
                    writeln!(text, "    const auto r{i} = convert<K{i}>(M{i}(re{i}, im{i}));")
                }
                _ => writeln!(text, "    const auto r{i} = convert<K{i}>(in{i});"),
            };
        }
        for i in 0..self.scalars.len() {
            let _ = writeln!(text, "    const C s{i} = C(number{i});");
        }
    }

    /// A call of the formula, whose elements `of` reads, as an element of the result.
    fn call(&self, of: &dyn Fn(usize) -> String) -> String {
        let argument = |(i, input): (usize, &Input)| match input.source {
            Source::Elements => format!("convert<K{i}>({})", of(i)),
            _ => format!("r{i}"),
        };
        let arguments = self.inputs.iter().enumerate().map(argument);
        let scalars = (0..self.scalars.len()).map(|i| format!("s{i}"));
        let all: Vec<String> = arguments.chain(scalars).collect();
        format!("finish<MO, KO>(formula({}))", all.join(", "))
    }

    /// The inputs of which each element is read.
    fn elementwise(&self) -> impl Iterator<Item = usize> {
        let inputs = self.inputs.iter().enumerate();
        inputs.filter(|(_, input)| input.source == Source::Elements).map(|(i, _)| i)
    }

    fn print_dense(&self, text: &mut String) {
        let parameters = self.parameters(&|i| format!("const M{i}* __restrict__"));
        let _ = writeln!(
            text,
            "extern \"C\" __global__ void __launch_bounds__(256) kernel(int64 count, int64 packed, MO* out{}) {{",
            parameters.replace(" __restrict__", "")
        );
        *text += "    const int64 first = ((int64)blockIdx.x * blockDim.x + threadIdx.x) * 4;\n    if (first >= count) return;\n";
        self.print_common(text);
        let single = self.call(&|i| format!("in{i}[i]"));
        let each = format!("for (int64 i = first; i < count && i < first + 4; ++i) out[i] = {single};");
        if self.has_special_function() {
            // They are so long that a copy for each element of a pack takes NVRTC a second; a load more is nothing beside them.
            let _ = writeln!(text, "    #pragma unroll 1\n    {each}\n}}");
            return;
        }
        *text += "    if (packed && first + 4 <= count) {\n";
        for i in self.elementwise() {
            let _ = writeln!(text, "        const auto p{i} = *(const Pack<M{i}, 4>*)(in{i} + first);");
        }
        let packed = self.call(&|i| format!("p{i}.values[i]"));
        let _ = write!(
            text,
            "        Pack<MO, 4> results;\n        #pragma unroll\n        for (int i = 0; i < 4; ++i) results.values[i] = \
             {packed};\n        *(Pack<MO, 4>*)(out + first) = results;\n    }} else {{\n        {each}\n    }}\n}}\n"
        );
    }

    fn print_strided(&self, text: &mut String) {
        let operands = 1 + self.elementwise().count();
        let parameters = self.parameters(&|_| "const char*".to_owned());
        *text += &layout_struct("Layout", operands, self.layout == Layout::Strided32);
        let _ = writeln!(
            text,
            "extern \"C\" __global__ void __launch_bounds__(256) kernel(int64 count, char* out{parameters}, const \
             __grid_constant__ Layout layout) {{"
        );
        *text += "    const int64 index = (int64)blockIdx.x * blockDim.x + threadIdx.x;\n    if (index >= count) return;\n";
        self.print_common(text);
        let _ = writeln!(text, "    Layout::Offset at[{operands}];\n    layout.offsets(index, at);");
        let position = |i: usize| 1 + self.elementwise().take_while(|other| *other < i).count();
        let single = self.call(&|i| format!("*(const M{i}*)(in{i} + at[{}])", position(i)));
        let _ = writeln!(text, "    *(MO*)(out + at[0]) = {single};\n}}");
    }
}

/// The structure of strides of several operands, whose method gives the offsets of an element.
pub(crate) fn layout_struct(name: &str, operands: usize, is_32_bit: bool) -> String {
    // Divisions of 64 bits are long, so that their loop is not unrolled: unrolled, it takes NVRTC seconds.
    let (integer, offset, magic, divide, unroll, bound) = match is_32_bit {
        true => (
            "uint32",
            "int32",
            format!("uint32 magic[{MAX_DIMS}], shift[{MAX_DIMS}]; "),
            "quotient(rest, magic[d], shift[d])",
            "unroll",
            format!("{MAX_DIMS}"),
        ),
        false => ("uint64", "int64", String::new(), "rest / size[d]", "unroll 1", "(int)rank".to_owned()),
    };
    format!(
        "struct {name} {{
    typedef {offset} Offset;
    {integer} rank; {integer} size[{MAX_DIMS}]; {magic}Offset stride[{operands}][{MAX_DIMS}];
    INLINE void offsets(int64 index, Offset* at) const {{
        {integer} rest = ({integer})index;
        #pragma unroll
        for (int k = 0; k < {operands}; ++k) at[k] = 0;
        #pragma {unroll}
        for (int d = 0; d < {bound}; ++d) {{
            if (d >= rank) break;
            // The outermost position is what remains.
            const {integer} next = d + 1 == rank ? 0 : {divide};
            const Offset position = (Offset)(rest - next * size[d]);
            #pragma unroll
            for (int k = 0; k < {operands}; ++k) at[k] += position * stride[k][d];
            rest = next;
        }}
    }}
}};
"
    )
}

/// Whether an expression has arguments of sines reduced.
fn has_reduction(nodes: &[Node]) -> bool {
    nodes.iter().any(|node| node.name.starts_with("reduced_"))
}

/// The tables of an expression, of elements of the type `C`.
fn print_tables(text: &mut String, tables: &[[u64; 16]]) {
    for (i, table) in tables.iter().enumerate() {
        let values: Vec<String> = table.iter().map(|bits| real(f64::from_bits(*bits))).collect();
        let _ = writeln!(text, "static __device__ const C TABLE{i}[16] = {{{}}};", values.join(", "));
    }
}

/// A function of two numbers of the type `C` that gives two, the results of an expression and its imaginary part, with what it needs; the
/// types `C` and `B` are defined with it.
pub(crate) fn pair_function(name: &str, element: &str, tape: &Tape) -> String {
    let mut text = if has_reduction(&tape.nodes) { REDUCTION.to_owned() } else { String::new() };
    let _ = writeln!(text, "typedef {element} C;\ntypedef bits_of<C>::type B;");
    print_tables(&mut text, &tape.tables);
    let _ = writeln!(text, "INLINE void {name}(C x0, C x1, C* first, C* second) {{");
    for (i, node) in tape.nodes.iter().enumerate() {
        let _ = writeln!(text, "    const auto n{i} = {};", expression(node, false));
    }
    for (to, node) in [("first", tape.output), ("second", tape.imaginary)] {
        let _ = writeln!(text, "    *{to} = n{};", node.unwrap_or_default());
    }
    text += "}\n";
    text
}

/// The expression of a node, where each input is one value or two parts.
fn expression(node: &Node, is_of_parts: bool) -> String {
    let args: Vec<String> =
        node.args[..usize::from(node.count)].iter().map(|arg| format!("n{arg}")).collect();
    let infix = |operator: &str| format!("B({})", args.join(operator));
    match node.name {
        "input" if is_of_parts => {
            format!("x{}.{}", node.payload / 2, if node.payload.is_multiple_of(2) { "re" } else { "im" })
        }
        "input" => format!("x{}", node.payload),
        "scalar" => format!("s{}", node.payload),
        "float" => real(f64::from_bits(node.payload)),
        "integer" => whole(node.payload as i64),
        "mask_constant" => (if node.payload != 0 { "true" } else { "false" }).to_owned(),
        "bits" => format!("B({}ull)", node.payload),
        "bits_add" => infix(" + "),
        "bits_sub" => infix(" - "),
        "bits_and" => infix(" & "),
        "bits_or" => infix(" | "),
        "bits_xor" => infix(" ^ "),
        "bits_shl" => format!("B({} << {})", args.join(""), node.payload),
        "bits_shr" => format!("B({} >> {})", args.join(""), node.payload),
        "bits_equal" => format!("({})", args.join(" == ")),
        "look_up" => format!("TABLE{}[{} & 15]", node.payload, args.join("")),
        name => format!("{}({})", function(name), args.join(", ")),
    }
}

/// A floating point constant, exactly.
fn real(value: f64) -> String {
    match value {
        _ if value.is_nan() => "C(NAN_F)".to_owned(),
        _ if value.is_infinite() => format!("C({}INFINITY_F)", if value < 0.0 { "-" } else { "" }),
        _ => format!("C({value:e})"),
    }
}

fn whole(value: i64) -> String {
    match value {
        i64::MIN => "C(-9223372036854775807ll - 1)".to_owned(),
        _ => format!("C({value}ll)"),
    }
}

/// The function of the prelude for a method of vectors.
fn function(method: &str) -> &str {
    match method {
        "min" => "lesser",
        "max" => "larger",
        "abs" => "magnitude",
        "sqrt" => "root",
        "floor" => "round_down",
        "ceil" => "round_up",
        "round" => "round_even",
        "trunc" => "round_to_zero",
        "copysign" => "with_sign",
        "remainder" => "remainder_floor",
        "exp" => "exp_of",
        "exp2" => "exp2_of",
        "expm1" => "expm1_of",
        "log" => "log_of",
        "log2" => "log2_of",
        "log10" => "log10_of",
        "log1p" => "log1p_of",
        "sin" => "sin_of",
        "cos" => "cos_of",
        "tan" => "tan_of",
        "asin" => "asin_of",
        "acos" => "acos_of",
        "atan" => "atan_of",
        "tanh" => "tanh_of",
        "sinh" => "sinh_of",
        "cosh" => "cosh_of",
        "asinh" => "asinh_of",
        "acosh" => "acosh_of",
        "atanh" => "atanh_of",
        "erf" => "erf_of",
        "erfc" => "erfc_of",
        "erfcx" => "erfcx_of",
        "pow" => "pow_of",
        "fmod" => "fmod_of",
        other => other,
    }
}
