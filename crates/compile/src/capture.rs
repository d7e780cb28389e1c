//! Captures what a function does: it runs once on tensors without elements, and every operator below autograd is written into a graph
//! instead of computing. A function that needs an element, such as a branch that depends on one, fails here, before anything has happened.

use crate::formula;
use crate::graph::{Arg, Call, Graph, Loop, Node, Returned, Source, ValueId, ValueInfo};
use crate::traced_loops::{TracedLoop, TracedOperand, traced};
use flambeau_core::{
    Device, DispatchKey, DispatchKeySet, Generator, GeneratorState, Geometry, Layout, Result, ScalarType,
    Storage, TensorImpl, ThreadKeysGuard, bail, ensure, error,
};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::{
    self, Argument, BaseType, BoxedKernel, OperatorInfo, Type, Value, register_fallback,
};
use flambeau_vmap::{Kind, kind_of};
use std::cell::{Cell, RefCell};
use std::sync::Once;

thread_local! {
    static RECORDER: RefCell<Option<Recorder>> = const { RefCell::new(None) };
    static IS_CAPTURING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is capturing: calls with the key `Python` go to [`record`] then.
pub fn is_capturing() -> bool {
    IS_CAPTURING.try_with(Cell::get).unwrap_or(false)
}

/// Writes a call into the graph that this thread captures.
///
/// # Errors
/// Where it cannot be a part of a graph.
pub fn record(call: &dispatch::Call<'_>) -> Result<Vec<Value>> {
    let recorded = RECORDER.try_with(|cell| match cell.try_borrow_mut() {
        Ok(mut recorder) => recorder.as_mut().map(|recorder| recorder.record(call)),
        Err(_) => None,
    });
    match recorded {
        Ok(Some(results)) => results,
        _ => bail!(Internal(call.operator.name()), "compile: there is no graph to write the call into"),
    }
}

/// The kernel of the key `Python` while this thread captures.
struct Capture;

impl BoxedKernel for Capture {
    fn call(&self, call: &dispatch::Call<'_>) -> Result<Vec<Value>> {
        record(call)
    }

    fn is_in_force(&self) -> bool {
        is_capturing()
    }
}

/// Ends the capture of a thread, also where the function panics.
struct Capturing {
    before: bool,
}

impl Capturing {
    fn begin(recorder: Recorder) -> Result<Self> {
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(|| register_fallback(DispatchKey::Python, &Capture));
        ensure!(
            !is_capturing(),
            NotImplemented,
            "a compiled function is called inside another one's capture"
        );
        RECORDER.with(|cell| *cell.borrow_mut() = Some(recorder));
        Ok(Capturing { before: IS_CAPTURING.replace(true) })
    }
}

impl Drop for Capturing {
    fn drop(&mut self) {
        IS_CAPTURING.set(self.before);
    }
}

/// The graph of `function` of tensors such as `inputs`, of which those marked in `differentiable` require a gradient.
///
/// # Errors
/// Those of the function, and `NotImplemented` where something it does cannot be a part of a graph.
pub(crate) fn capture(
    inputs: &[ValueInfo],
    differentiable: &[bool],
    function: impl FnOnce(&[Tensor]) -> Result<Vec<Option<Tensor>>>,
) -> Result<Graph> {
    use flambeau_autograd::Autograd;
    let mut recorder = Recorder::default();
    let mut fakes = Vec::new();
    for (info, requires_grad) in inputs.iter().zip(differentiable) {
        let (id, fake) = recorder.add(info.clone())?;
        recorder.graph.inputs.push(id);
        if *requires_grad {
            fake.requires_grad_(true)?;
        }
        fakes.push(fake);
    }
    let returned = {
        let _capturing = Capturing::begin(recorder)?;
        let _mode = ThreadKeysGuard::include(DispatchKey::Python.into());
        function(&fakes)
    };
    let recorder = RECORDER.with(|cell| cell.borrow_mut().take());
    let Some(mut recorder) = recorder else { bail!(Internal, "compile: the graph is gone") };
    if let Some(why) = recorder.fault.take() {
        bail!(NotImplemented, "{why}");
    }
    for output in returned? {
        let id = output.map(|output| recorder.id_of(&output)).transpose()?;
        recorder.graph.outputs.push(id);
    }
    let graph = recorder.graph;
    drop(recorder.tensors);
    // A tensor that only the graph has was made of values that may be others in the next call.
    let is_made_here = |(_, tensor): &(ValueId, Tensor)| tensor.is_sole_owner();
    ensure!(!graph.captured.iter().any(is_made_here), NotImplemented, "it makes a tensor of its own values");
    Ok(graph)
}

/// Keys that are above the kernels of backends.
fn above_backends() -> ThreadKeysGuard {
    ThreadKeysGuard::exclude(DispatchKeySet::FULL.without(DispatchKeySet::BACKENDS))
}

/// The states of the generators that a call draws from: its kernel for shapes may draw too, and calls of the plan draw what it drew.
fn generator_states(values: &[Value]) -> Vec<(Generator, GeneratorState)> {
    let given = values.iter().filter_map(|value| match value {
        Value::Generator(generator) => Some(generator),
        _ => None,
    });
    let all = given.chain([Generator::default_cpu()]);
    all.map(|generator| (generator.clone(), generator.state())).collect()
}

/// The graph so far, and the tensors that stand for its values.
#[derive(Default)]
struct Recorder {
    graph: Graph,
    /// For each value, its stand-in, or the tensor that the function knows; both are kept, so that their storages stay different.
    tensors: Vec<Tensor>,
    /// The first reason for which a call could not be written down: a function that catches the error must not go on unnoticed.
    fault: Option<String>,
}

impl Recorder {
    /// A value, and the tensor without elements that stands for it.
    fn add(&mut self, info: ValueInfo) -> Result<(ValueId, Tensor)> {
        let geometry = Geometry::strided(&info.sizes, &info.strides, 0)?;
        let made = TensorImpl::without_elements(geometry, info.dtype, Device::CPU, DispatchKeySet::EMPTY)?;
        let fake = Tensor::from_impl(made);
        self.graph.values.push(info);
        self.tensors.push(fake.clone());
        Ok((self.graph.values.len() - 1, fake))
    }

    /// The value that a tensor is; one that was never seen is a tensor that the function knows.
    fn id_of(&mut self, tensor: &Tensor) -> Result<ValueId> {
        let same_storage = |known: &Tensor| Storage::ptr_eq(known.storage(), tensor.storage());
        let is_same = |known: &Tensor| {
            same_storage(known) && known.dtype() == tensor.dtype() && known.geometry() == tensor.geometry()
        };
        if let Some(id) = self.tensors.iter().position(is_same) {
            return Ok(id);
        }
        ensure!(
            tensor.layout() == Layout::Strided && tensor.device().is_cpu() && tensor.storage().is_host(),
            NotImplemented,
            "it uses a tensor that is not a strided one on the CPU"
        );
        let id = self.graph.values.len();
        self.graph.values.push(ValueInfo::of(tensor));
        self.tensors.push(tensor.clone());
        self.graph.captured.push((id, tensor.clone()));
        Ok(id)
    }

    fn record(&mut self, call: &dispatch::Call<'_>) -> Result<Vec<Value>> {
        let recorded = self.record_call(call.operator, call.arguments);
        if let Err(error) = &recorded {
            self.fault.get_or_insert_with(|| format!("{}: {error}", call.operator.name()));
        }
        recorded
    }

    fn record_call(
        &mut self,
        operator: &'static dyn OperatorInfo,
        arguments: &[Value],
    ) -> Result<Vec<Value>> {
        let parameters = operator.arguments()?;
        if let Some(written) = parameters.iter().find(|parameter| parameter.is_written()) {
            bail!(NotImplemented, "it writes its argument {} in place", written.name);
        }
        let args: Vec<Arg> = arguments.iter().map(|value| self.arg_of(value)).collect::<Result<_>>()?;
        let takes_generator = parameters.iter().any(|parameter| is_of(parameter, BaseType::Generator));
        let is_random = takes_generator || kind_of(operator) == Some(Kind::Random);
        let has_tensors = args.iter().any(|arg| !arg.values().is_empty());
        let why = match has_tensors && !is_random {
            true => match self.loops_of(operator, &args)? {
                Ok((loops, results)) => return self.add_loops(loops, &results),
                Err(why) => why,
            },
            false => "it makes a tensor of none, or draws random numbers".to_owned(),
        };
        self.add_call(Call { operator, args, results: Vec::new(), why, is_random }, has_tensors)
    }

    fn arg_of(&mut self, value: &Value) -> Result<Arg> {
        Ok(match value {
            Value::Tensor(tensor) if tensor.is_wrapped_number() => Arg::Plain(value.clone()),
            Value::Tensor(tensor) => Arg::Value(self.id_of(tensor)?),
            Value::Tensors(list) => {
                Arg::Values(list.iter().map(|tensor| self.id_of(tensor)).collect::<Result<_>>()?)
            }
            Value::OptionalTensors(list) => {
                let id =
                    |tensor: &Option<Tensor>| tensor.as_ref().map(|tensor| self.id_of(tensor)).transpose();
                Arg::Options(list.iter().map(id).collect::<Result<_>>()?)
            }
            Value::Device(device) => {
                ensure!(device.is_cpu(), NotImplemented, "it uses the device {device}");
                Arg::Plain(value.clone())
            }
            other => Arg::Plain(other.clone()),
        })
    }

    /// The loops that the operator's CPU kernel runs, and the results; or why it is more than loops.
    fn loops_of(
        &mut self,
        operator: &'static dyn OperatorInfo,
        args: &[Arg],
    ) -> Result<std::result::Result<(Vec<TracedLoop>, Twins), String>> {
        let has_kernel = [DispatchKey::Cpu, DispatchKey::CompositeExplicitAutograd]
            .iter()
            .any(|key| operator.has_kernel(*key));
        if !has_kernel {
            return Ok(Err("it has no kernel of its own".to_owned()));
        }
        let mut twins = Twins::default();
        let values = twins.arguments(args, &self.graph.values)?;
        let (returned, loops) = {
            let _above = above_backends();
            let _host = ThreadKeysGuard::exclude(DispatchKeySet::BACKENDS.without(DispatchKey::Cpu.into()));
            let _kernel = ThreadKeysGuard::include(DispatchKey::Cpu.into());
            traced(|| operator.call_boxed(&values))
        };
        let results = match returned {
            Ok(results) => results,
            Err(_) => return Ok(Err("its kernel is not an elementwise loop".to_owned())),
        };
        for result in &results {
            let Value::Tensor(result) = result else {
                return Ok(Err("it has other results than a tensor".to_owned()));
            };
            let made = |made: &TracedLoop| made.operands.first().is_some_and(|operand| operand.is(result));
            if !loops.iter().any(made) {
                return Ok(Err("its kernel is not an elementwise loop".to_owned()));
            }
            twins.results.push(result.clone());
        }
        let mut known: Vec<(&Storage, &[i64], &[i64])> =
            twins.inputs.iter().map(|(_, twin)| (twin.storage(), twin.sizes(), twin.strides())).collect();
        for made in &loops {
            if let Err(why) = formula::check(made, &known) {
                return Ok(Err(why));
            }
            let result = &made.operands[0];
            known.push((&result.storage, &result.sizes, &result.strides));
        }
        let name = operator.name();
        let loops = loops.into_iter().map(|made| TracedLoop { operator: name, ..made }).collect();
        Ok(Ok((loops, twins)))
    }

    fn add_loops(&mut self, loops: Vec<TracedLoop>, twins: &Twins) -> Result<Vec<Value>> {
        let mut known: Vec<(Storage, ValueId)> =
            twins.inputs.iter().map(|(id, twin)| (twin.storage().clone(), *id)).collect();
        let mut fakes: Vec<(Storage, Tensor)> = Vec::new();
        for made in loops {
            let mut operands = made.operands.into_iter();
            let Some(result) = operands.next() else { bail!(Internal, "compile: a loop has no result") };
            let (sizes, strides) = (result.sizes, result.strides);
            let (id, fake) = self.add(ValueInfo { sizes, strides, dtype: result.dtype, view_of: None })?;
            let source = |operand: &TracedOperand| match operand.number {
                Some(number) => Some(Source::Number(number)),
                None => {
                    let found = known.iter().find(|(storage, _)| Storage::ptr_eq(storage, &operand.storage));
                    found.map(|(_, id)| Source::Value(*id))
                }
            };
            let types = formula::input_types(&made.tape, made.computing);
            let inputs: Option<Vec<(Source, ScalarType)>> =
                operands.zip(types).map(|(operand, dtype)| Some((source(&operand)?, dtype))).collect();
            let inputs = inputs.ok_or_else(|| error!(Internal, "compile: a loop reads an unknown tensor"))?;
            known.push((result.storage.clone(), id));
            fakes.push((result.storage, fake));
            let (operator, tape, computing) = (made.operator, made.tape, made.computing);
            self.graph.nodes.push(Node::Loop(Loop { operator, tape, inputs, computing, result: id }));
        }
        let fake = |result: &Tensor| {
            let found = fakes.iter().rfind(|(storage, _)| Storage::ptr_eq(storage, result.storage()));
            found.map(|(_, fake)| Value::Tensor(fake.clone()))
        };
        let results: Option<Vec<Value>> = twins.results.iter().map(fake).collect();
        results.ok_or_else(|| error!(Internal, "compile: a result is not that of a loop"))
    }

    /// Adds a call of an operator, whose results are those of its kernel for shapes.
    fn add_call(&mut self, mut call: Call, has_tensors: bool) -> Result<Vec<Value>> {
        let mut twins = Twins::default();
        let mut values = twins.arguments(&call.args, &self.graph.values)?;
        for (value, parameter) in values.iter_mut().zip(call.operator.arguments()?) {
            let is_default = matches!(value, Value::None) && !has_tensors;
            if matches!(value, Value::Device(_)) || (is_default && is_of(parameter, BaseType::Device)) {
                *value = Value::Device(Device::META);
            }
        }
        let states = if call.is_random { generator_states(&values) } else { Vec::new() };
        let returned = {
            let _above = above_backends();
            call.operator.call_boxed(&values)
        };
        states.into_iter().for_each(|(generator, state)| generator.set_state(state));
        let returned = returned?;
        let mut results = Vec::new();
        for value in &returned {
            results.push(match value {
                Value::Tensor(tensor) => {
                    let (id, fake) = self.add_result(tensor, &twins)?;
                    call.results.push(Returned::One(id));
                    Value::Tensor(fake)
                }
                Value::Tensors(list) => {
                    let made = list.iter().map(|tensor| self.add_result(tensor, &twins));
                    let (ids, fakes) = made.collect::<Result<Vec<_>>>()?.into_iter().unzip();
                    call.results.push(Returned::Many(ids));
                    Value::Tensors(fakes)
                }
                _ => bail!(NotImplemented, "it returns something that is not a tensor"),
            });
        }
        self.graph.nodes.push(Node::Call(call));
        Ok(results)
    }

    fn add_result(&mut self, result: &Tensor, twins: &Twins) -> Result<(ValueId, Tensor)> {
        ensure!(
            result.device().is_meta() && result.layout() == Layout::Strided,
            NotImplemented,
            "its result is not a strided tensor whose sizes are known without elements"
        );
        let shares = |(_, twin): &(ValueId, Tensor)| Storage::ptr_eq(twin.storage(), result.storage());
        let view_of = twins.inputs.iter().find(|twin| shares(twin)).map(|(id, _)| *id);
        self.add(ValueInfo { view_of, ..ValueInfo::of(result) })
    }
}

/// Tensors on the device `meta` that stand for the arguments of one call, each with a storage of its own, and for its results.
#[derive(Default)]
struct Twins {
    inputs: Vec<(ValueId, Tensor)>,
    results: Vec<Tensor>,
}

impl Twins {
    fn of(&mut self, id: ValueId, values: &[ValueInfo]) -> Result<Tensor> {
        if let Some((_, twin)) = self.inputs.iter().find(|(known, _)| *known == id) {
            return Ok(twin.clone());
        }
        let twin = values[id].allocate(Device::META)?;
        self.inputs.push((id, twin.clone()));
        Ok(twin)
    }

    fn arguments(&mut self, args: &[Arg], values: &[ValueInfo]) -> Result<Vec<Value>> {
        let value = |arg: &Arg| {
            Ok(match arg {
                Arg::Value(id) => Value::Tensor(self.of(*id, values)?),
                Arg::Values(ids) => {
                    Value::Tensors(ids.iter().map(|id| self.of(*id, values)).collect::<Result<_>>()?)
                }
                Arg::Options(ids) => {
                    let twin = |id: &Option<ValueId>| id.map(|id| self.of(id, values)).transpose();
                    Value::OptionalTensors(ids.iter().map(twin).collect::<Result<_>>()?)
                }
                Arg::Plain(value) => value.clone(),
            })
        };
        args.iter().map(value).collect()
    }
}

/// Whether the parameter is of the type, or may be.
fn is_of(parameter: &Argument, ty: BaseType) -> bool {
    *parameter.ty.innermost() == Type::Base(ty)
}
