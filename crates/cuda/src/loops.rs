//! The elementwise loops of CUDA devices: chooses the program of a call by its formula, types and layout, and launches it.

use crate::gpu::Gpu;
use crate::launch::{Argument, Arguments, Grid, ceil_div, gpu_of};
use crate::math;
use crate::print::{Input, Layout, MAX_DIMS, Pointwise, Source};
use crate::programs::Function;
use flambeau_core::storage_guards::DeviceGuards;
use flambeau_core::{
    Access, DeviceType, Result, Scalar, ScalarType, Storage, StridedView, bail, ensure, error,
};
use flambeau_ops::Tensor;
use flambeau_ops::loops::device::{DeviceLoops, LoopsOf, loops_of};
use flambeau_ops::tensor_iterator::{Operand, TensorIterator};
use flambeau_ops::vectorized::traced::{Tape, TracedType};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{LazyLock, Mutex, PoisonError};

inventory::submit!(LoopsOf::new(DeviceType::Cuda, &Loops));

struct Loops;

/// Threads of a block.
const THREADS: u32 = 256;
/// Elements that a thread of a dense loop computes.
const PACK: i64 = 4;

impl DeviceLoops for Loops {
    fn pointwise(
        &self,
        iter: &TensorIterator<'_>,
        formula: &Tape,
        input: ScalarType,
        output: ScalarType,
    ) -> Result<()> {
        run(iter, &of_formula(formula, input, output))
    }

    fn select(&self, iter: &TensorIterator<'_>) -> Result<()> {
        run(iter, &select_loop(iter)).map_err(|error| error.in_operator(iter.name()))
    }

    fn copy(&self, iter: &TensorIterator<'_>) -> Result<()> {
        run(iter, &copy_loop(iter)).map_err(|error| error.in_operator(iter.name()))
    }
}

/// A formula and its types. All inputs are converted to that in which it computes, but for the first if that is a `condition`.
struct Loop<'a> {
    formula: &'a Tape,
    computing: ScalarType,
    condition: bool,
    /// Whether the formula is of the parts of complex numbers.
    is_of_parts: bool,
    output: ScalarType,
}

impl Loop<'_> {
    fn input(&self, i: usize) -> ScalarType {
        if self.condition && i == 0 { ScalarType::Bool } else { self.computing }
    }

    /// Whether the numbers given to the formula are real; otherwise they are integers.
    fn has_real_numbers(&self) -> bool {
        self.is_of_parts || self.computing.is_floating_point()
    }
}

fn of_formula(formula: &Tape, input: ScalarType, output: ScalarType) -> Loop<'_> {
    Loop { formula, computing: input, condition: false, is_of_parts: input.is_complex(), output }
}

fn select_loop(iter: &TensorIterator<'_>) -> Loop<'static> {
    const KINDS: [TracedType; 3] = [TracedType::Mask, TracedType::Element, TracedType::Element];
    static SELECT: LazyLock<Tape> = LazyLock::new(|| Tape::of(Some("select"), &KINDS, &[]));
    let dtype = iter.common_dtype();
    Loop { formula: &SELECT, computing: dtype, condition: true, is_of_parts: false, output: dtype }
}

fn copy_loop(iter: &TensorIterator<'_>) -> Loop<'static> {
    static COPY: LazyLock<Tape> = LazyLock::new(|| Tape::of(None, &[TracedType::Element], &[]));
    let from = iter.operands().get(1).map_or(ScalarType::F32, Operand::dtype);
    Loop { formula: &COPY, computing: from, condition: false, is_of_parts: false, output: from }
}

/// Evaluates a function of the program's special part, which computes in f64, of the inputs of an iterator and of numbers.
///
/// # Errors
/// What the device reports, and `NotImplemented` for types that programs do not have.
pub(crate) fn call_function(
    iter: &TensorIterator<'_>,
    function: &'static str,
    numbers: &[Scalar],
) -> Result<()> {
    call(iter, function, numbers, ScalarType::F64)
}

/// The same of a function that computes in the type of the iterator.
///
/// # Errors
/// As [`call_function`].
pub(crate) fn call_integer_function(
    iter: &TensorIterator<'_>,
    function: &'static str,
    numbers: &[Scalar],
) -> Result<()> {
    call(iter, function, numbers, iter.common_dtype())
}

fn call(
    iter: &TensorIterator<'_>,
    function: &'static str,
    numbers: &[Scalar],
    computing: ScalarType,
) -> Result<()> {
    let dtype = iter.common_dtype();
    ensure!(
        !dtype.is_complex(),
        NotImplemented(iter.name()),
        "there is no kernel for cuda of its function for {dtype}"
    );
    let inputs = iter.operands().len().saturating_sub(1);
    let formula = Tape::of(Some(function), &vec![TracedType::Element; inputs], numbers);
    // The loops of the operands' device, as for other formulas: where they are recorded, so is this one.
    let loops = loops_of(iter).unwrap_or(&Loops);
    loops.pointwise(iter, &formula, computing, dtype).map_err(|error| error.in_operator(iter.name()))
}

/// The program of a formula over an iterator; `None` for types that programs do not have.
pub(crate) fn source_of_pointwise(
    iter: &TensorIterator<'_>,
    formula: &Tape,
    input: ScalarType,
    output: ScalarType,
) -> Result<Option<String>> {
    source_of(iter, &of_formula(formula, input, output))
}

/// The program of a choice.
pub(crate) fn source_of_select(iter: &TensorIterator<'_>) -> Result<Option<String>> {
    source_of(iter, &select_loop(iter))
}

/// The program of a copy.
pub(crate) fn source_of_copy(iter: &TensorIterator<'_>) -> Result<Option<String>> {
    source_of(iter, &copy_loop(iter))
}

fn source_of(iter: &TensorIterator<'_>, of: &Loop<'_>) -> Result<Option<String>> {
    if iter.numel() == 0 {
        return Ok(None);
    }
    Ok(Plan::new(iter, of)?.program.source())
}

/// An operand of a call on a device.
#[derive(Clone, Copy)]
struct Located<'i> {
    tensor: &'i Tensor,
    view: StridedView<'i>,
    strides: &'i [i64],
}

/// A launch of a loop.
struct Plan<'i> {
    target: Located<'i>,
    sources: SmallVec<[Located<'i>; 4]>,
    program: Pointwise,
    strides: StrideTable,
}

impl<'i> Plan<'i> {
    fn new(iter: &'i TensorIterator<'_>, of: &Loop<'_>) -> Result<Self> {
        let count = iter.numel();
        let mut operands = iter.operands().iter().map(located);
        let target = match operands.next() {
            Some(target) => target?,
            None => bail!(Internal, "cuda: the iterator has no operands"),
        };
        let sources: SmallVec<[Located<'_>; 4]> = operands.collect::<Result<_>>()?;
        let all = || std::iter::once(&target).chain(&sources);
        let is_dense = iter.shape().len() == 1 && all().all(|operand| operand.is_dense_or_repeated(count));
        let input = |(i, source): (usize, &Located<'_>)| source.input(of.input(i), is_dense && count > 1);
        let inputs: Vec<Input> = sources.iter().enumerate().map(input).collect();
        let of_elements = sources.iter().zip(&inputs).filter(|(_, input)| input.source == Source::Elements);
        let elements: SmallVec<[Located<'_>; 4]> =
            std::iter::once(target).chain(of_elements.map(|(source, _)| *source)).collect();
        let layout = if is_dense { Layout::Dense } else { layout_of(iter.shape(), &elements)? };
        let strides = StrideTable::new(layout, iter.shape(), &elements);
        let portable = math::portable(of.formula, of.computing)?;
        let formula = portable.as_deref().unwrap_or(of.formula);
        let program = Pointwise {
            nodes: formula.nodes.clone(),
            tables: formula.tables.clone(),
            result: formula.output.ok_or_else(|| error!(Internal, "cuda: a formula has no result"))?,
            imaginary: formula.imaginary,
            is_of_parts: of.is_of_parts,
            computing: of.computing,
            inputs,
            output: (of.output, target.view.dtype()),
            scalars: formula.scalars.iter().map(|_| of.has_real_numbers()).collect(),
            layout,
        };
        Ok(Plan { target, sources, program, strides })
    }

    /// Whether packs of elements may be read and written at once.
    fn is_aligned(&self) -> bool {
        let inputs = self.sources.iter().zip(&self.program.inputs);
        self.target.is_aligned()
            && inputs
                .filter(|(_, input)| input.source == Source::Elements)
                .all(|(source, _)| source.is_aligned())
    }

    fn arguments(&self, count: i64, of: &Loop<'_>) -> Result<Arguments<'_>> {
        let mut values = Arguments::new().int(count);
        if self.program.layout == Layout::Dense {
            values = values.int(i64::from(self.is_aligned()));
        }
        values = values.word(self.target.address());
        for (source, input) in self.sources.iter().zip(&self.program.inputs) {
            values = match input.source {
                Source::Elements | Source::Repeated => values.word(source.address()),
                Source::Real => values.double(source.number()?.to_f64()),
                Source::Whole => values.int(source.number()?.to_i64()),
                Source::Complex => {
                    let (re, im) = source.number()?.to_complex();
                    values.double(re).double(im)
                }
            };
        }
        for scalar in &of.formula.scalars {
            values = match of.has_real_numbers() {
                true => values.double(scalar.to_f64()),
                false => values.int(number_as(*scalar, of.computing)),
            };
        }
        self.strides.push_to(&mut values);
        Ok(values)
    }
}

fn run(iter: &TensorIterator<'_>, of: &Loop<'_>) -> Result<()> {
    let count = iter.numel();
    if count == 0 {
        return Ok(());
    }
    let plan = Plan::new(iter, of)?;
    let gpu = gpu_of(plan.target.tensor)?;
    let function = function(gpu, iter.name(), &plan.program)?;
    let read = plan
        .sources
        .iter()
        .filter(|source| !source.is_host())
        .map(|source| (source.tensor.storage(), Access::Read));
    let accesses: SmallVec<[(&Storage, Access); 4]> =
        std::iter::once((plan.target.tensor.storage(), Access::Write)).chain(read).collect();
    let _guards = DeviceGuards::acquire(&accesses)?;
    accesses.iter().try_for_each(|(storage, access)| gpu.order_storage(storage, *access))?;
    let threads = if plan.program.layout == Layout::Dense { ceil_div(count, PACK) } else { count };
    gpu.launch(function, Grid::of(threads, THREADS), &plan.arguments(count, of)?)
}

/// A number as an integer type or bool has it.
fn number_as(scalar: Scalar, computing: ScalarType) -> i64 {
    if computing == ScalarType::Bool { i64::from(scalar.to_bool()) } else { scalar.to_i64() }
}

/// The loaded kernels of loops, by a hash of what their programs depend on; a look-up copies nothing.
type Loaded = Mutex<HashMap<u64, Vec<(usize, Pointwise, Function)>>>;

/// The kernel of a loop on a device.
fn function(gpu: &Gpu, name: &str, program: &Pointwise) -> Result<Function> {
    static LOADED: LazyLock<Loaded> = LazyLock::new(Mutex::default);
    let mut hasher = DefaultHasher::new();
    (gpu.index, program).hash(&mut hasher);
    let hash = hasher.finish();
    let is_same = |(index, known, _): &&(usize, Pointwise, Function)| *index == gpu.index && known == program;
    let loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, _, function)) = loaded.get(&hash).and_then(|list| list.iter().find(is_same)) {
        return Ok(*function);
    }
    drop(loaded);
    let Some(source) = program.source() else {
        bail!(NotImplemented(name), "there is no kernel for cuda of these types: {:?}", program.inputs)
    };
    let function = gpu.function(&source, || source.clone())?;
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    loaded.entry(hash).or_default().push((gpu.index, program.clone(), function));
    Ok(function)
}

fn located<'i>(operand: &'i Operand<'_>) -> Result<Located<'i>> {
    match (operand.tensor(), operand.geometry()) {
        (Some(tensor), Some(geometry)) => Ok(Located {
            tensor,
            view: StridedView::with_geometry(tensor.impl_(), geometry),
            strides: operand.strides(),
        }),
        _ => bail!(Internal, "cuda: the iterator was not built"),
    }
}

impl Located<'_> {
    fn is_host(&self) -> bool {
        self.tensor.device().is_cpu()
    }

    fn size(&self) -> i64 {
        self.view.dtype().size() as i64
    }

    /// Whether the elements of the only dimension are adjacent, or one element is used for all.
    fn is_dense_or_repeated(&self, count: i64) -> bool {
        self.is_host()
            || count == 1
            || self.strides.first().is_some_and(|stride| *stride == 0 || *stride == self.size())
    }

    fn input(&self, kernel: ScalarType, is_dense: bool) -> Input {
        let memory = self.view.dtype();
        let source = match () {
            () if self.is_host() && memory.is_complex() => Source::Complex,
            () if self.is_host() && memory.is_floating_point() => Source::Real,
            () if self.is_host() => Source::Whole,
            () if is_dense && self.strides.first() == Some(&0) => Source::Repeated,
            () => Source::Elements,
        };
        // The type of a number of the host is that of the argument.
        let memory = match source {
            Source::Real => ScalarType::F64,
            Source::Whole => ScalarType::I64,
            Source::Complex => ScalarType::Complex128,
            _ => memory,
        };
        Input { memory, kernel, source }
    }

    fn address(&self) -> u64 {
        self.view.storage().data_ptr().addr().wrapping_add(self.view.byte_offset()) as u64
    }

    /// Whether packs of elements may be read and written at once.
    fn is_aligned(&self) -> bool {
        self.address().is_multiple_of((PACK * self.size()) as u64)
    }

    fn number(&self) -> Result<Scalar> {
        ensure!(
            self.tensor.numel() == 1,
            Device,
            "expected all tensors to be on the same device, but found one of {} elements on cpu",
            self.tensor.numel()
        );
        self.tensor.item_scalar()
    }
}

/// The class of strided operands, by the largest offset.
fn layout_of(shape: &[i64], elements: &[Located<'_>]) -> Result<Layout> {
    ensure!(
        shape.len() <= MAX_DIMS,
        NotImplemented,
        "cuda: expected at most {MAX_DIMS} dimensions that cannot be merged but got {}",
        shape.len()
    );
    let count = shape.iter().fold(1i64, |all, size| all.saturating_mul(*size));
    let reach = |strides: &[i64]| {
        let parts = shape
            .iter()
            .zip(strides)
            .map(|(size, stride)| (size - 1).saturating_mul(stride.saturating_abs()));
        parts.fold(0i64, i64::saturating_add)
    };
    let fits = count <= i64::from(i32::MAX)
        && elements.iter().all(|located| reach(located.strides) <= i64::from(i32::MAX));
    Ok(if fits { Layout::Strided32 } else { Layout::Strided64 })
}

/// The structure of sizes and strides that a strided loop takes by value.
pub(crate) enum StrideTable {
    None,
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

impl StrideTable {
    fn new(layout: Layout, shape: &[i64], elements: &[Located<'_>]) -> Self {
        let strides: SmallVec<[&[i64]; 4]> = elements.iter().map(|located| located.strides).collect();
        match layout {
            Layout::Dense => StrideTable::None,
            Layout::Strided32 => StrideTable::Narrow(narrow(shape, &strides)),
            Layout::Strided64 => StrideTable::Wide(wide(shape, &strides)),
        }
    }

    fn push_to<'a>(&'a self, arguments: &mut Arguments<'a>) {
        match self {
            StrideTable::None => {}
            StrideTable::Narrow(table) => arguments.push(Argument::Struct32(table)),
            StrideTable::Wide(table) => arguments.push(Argument::Struct64(table)),
        }
    }
}

/// `values`, and zeros up to the number of dimensions that a structure has.
fn padded<T: Default + Clone>(values: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    values.chain(std::iter::repeat(T::default())).take(MAX_DIMS)
}

fn narrow(shape: &[i64], strides: &[&[i64]]) -> Vec<u32> {
    let dividers: Vec<(u32, u32)> = shape.iter().map(|size| divider(*size as u32)).collect();
    let mut table = vec![shape.len() as u32];
    table.extend(padded(shape.iter().map(|size| *size as u32)));
    table.extend(padded(dividers.iter().map(|(magic, _)| *magic)));
    table.extend(padded(dividers.iter().map(|(_, shift)| *shift)));
    for of in strides {
        table.extend(padded(of.iter().map(|stride| *stride as i32 as u32)));
    }
    table
}

pub(crate) fn wide(shape: &[i64], strides: &[&[i64]]) -> Vec<u64> {
    let mut table = vec![shape.len() as u64];
    table.extend(padded(shape.iter().map(|size| *size as u64)));
    for of in strides {
        table.extend(padded(of.iter().map(|stride| *stride as u64)));
    }
    table
}

/// The factor and the shift by which counts below 2^31 are divided by `divisor`: `n / divisor = (n * magic / 2^32 + n) >> shift`
/// (Granlund and Montgomery, "Division by invariant integers using multiplication", 1994).
fn divider(divisor: u32) -> (u32, u32) {
    let divisor = u64::from(divisor.max(1));
    let shift = 64 - (divisor - 1).leading_zeros();
    let magic = ((1u64 << 32) * ((1u64 << shift) - divisor)) / divisor + 1;
    (magic as u32, shift)
}

#[cfg(test)]
mod tests {
    use super::divider;

    #[test]
    fn division_by_multiplication_is_exact() {
        let divisors = (1..2000).chain([12345, 65535, 65536, 65537, 1 << 30, (1 << 31) - 1]);
        for divisor in divisors {
            let (magic, shift) = divider(divisor);
            let quotient =
                |n: u32| ((u64::from(n) * u64::from(magic)) >> 32).wrapping_add(u64::from(n)) >> shift;
            let near = [
                0,
                1,
                divisor - 1,
                divisor,
                divisor.saturating_add(1),
                1 << 20,
                i32::MAX as u32 - 1,
                i32::MAX as u32,
            ];
            let multiples = (1..50u32).filter_map(|k| divisor.checked_mul(k)).flat_map(|n| [n - 1, n]);
            for n in near.into_iter().chain(multiples).filter(|n| *n <= i32::MAX as u32) {
                assert_eq!(quotient(n), u64::from(n / divisor), "{n} / {divisor}");
            }
        }
    }
}
