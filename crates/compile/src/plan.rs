//! A plan: the steps of a graph, each a kernel of fused loops or an operator, and how they run.

use crate::fusion::{Group, Part, needed, parts};
use crate::graph::{Arg, Call, Graph, Loop, Node, Returned, ValueId, ValueInfo};
use crate::kernel::{Kernel, RowOperand, Rows, kernel_of};
use crate::program::Builder;
use flambeau_core::{Device, Result, ScalarType, bail, ensure, error};
use flambeau_ops::dispatch::Value;
use flambeau_ops::{Tensor, ops};
use std::sync::Arc;

/// Loops that run as one.
pub(crate) struct Fused {
    kernel: Arc<Kernel>,
    rows: Rows,
    inputs: Vec<ValueId>,
    pub(crate) outputs: Vec<ValueId>,
    /// In the program's type.
    numbers: Vec<u8>,
    /// The operators that became one.
    pub(crate) operators: Vec<&'static str>,
    pub(crate) sizes: Vec<i64>,
}

impl Fused {
    /// How many tensors it reads.
    pub(crate) fn reads(&self) -> usize {
        self.inputs.len()
    }
}

/// A step of a plan.
pub(crate) enum Step {
    Fused(Fused),
    Call(Call),
}

/// What runs in place of a function.
pub(crate) struct Plan {
    pub(crate) graph: Graph,
    pub(crate) steps: Vec<Step>,
    /// After each step, the values that no later one reads.
    last_read: Vec<Vec<ValueId>>,
}

impl Plan {
    /// The plan of a graph.
    ///
    /// # Errors
    /// `NotImplemented` where the processor is not served.
    pub(crate) fn new(graph: Graph) -> Result<Self> {
        let (parts, needed) = (parts(&graph), needed(&graph));
        let mut steps = Vec::new();
        for part in &parts {
            steps.push(match part {
                Part::Call(position) => match &graph.nodes[*position] {
                    Node::Call(call) => Step::Call(call.clone()),
                    Node::Loop(_) => bail!(Internal, "compile: a loop is not in a group"),
                },
                Part::Group(group) => Step::Fused(fuse(&graph, group, &needed)?),
            });
        }
        let last_read = last_read(&graph, &steps);
        Ok(Plan { graph, steps, last_read })
    }

    /// Runs the plan. `given` are the graph's inputs; `keep` are values that are returned after the outputs.
    ///
    /// # Errors
    /// Those of the operators.
    pub(crate) fn run(
        &self,
        given: &[Tensor],
        keep: &[ValueId],
    ) -> Result<(Vec<Option<Tensor>>, Vec<Tensor>)> {
        let mut values: Vec<Option<Tensor>> = vec![None; self.graph.values.len()];
        for (id, tensor) in self.graph.inputs.iter().zip(given) {
            values[*id] = Some(tensor.clone());
        }
        for (id, tensor) in &self.graph.captured {
            values[*id] = Some(tensor.clone());
        }
        for (step, finished) in self.steps.iter().zip(&self.last_read) {
            match step {
                Step::Fused(fused) => run_fused(fused, &self.graph.values, &mut values)?,
                Step::Call(call) => run_call(call, &self.graph.values, &mut values)?,
            }
            for id in finished.iter().filter(|id| !keep.contains(id)) {
                values[*id] = None;
            }
        }
        let get = |id: &ValueId| values[*id].clone().ok_or_else(|| missing(*id));
        let outputs = self.graph.outputs.iter().map(|id| id.as_ref().map(get).transpose());
        let outputs = outputs.collect::<Result<_>>()?;
        Ok((outputs, keep.iter().map(get).collect::<Result<_>>()?))
    }
}

fn missing(id: ValueId) -> flambeau_core::Error {
    error!(Internal, "compile: value {id} was not computed")
}

/// After each step, the values that were read or made for the last time and are no outputs.
fn last_read(graph: &Graph, steps: &[Step]) -> Vec<Vec<ValueId>> {
    let mut is_done = vec![false; graph.values.len()];
    graph.outputs.iter().flatten().for_each(|output| is_done[*output] = true);
    let mut finished = Vec::new();
    for step in steps.iter().rev() {
        let mut touched: Vec<ValueId> = match step {
            Step::Fused(fused) => fused.inputs.iter().chain(&fused.outputs).copied().collect(),
            Step::Call(call) => {
                let made = call.results.iter().flat_map(Returned::values).copied();
                call.args.iter().flat_map(Arg::values).chain(made).collect()
            }
        };
        touched.retain(|id| !std::mem::replace(&mut is_done[*id], true));
        finished.push(touched);
    }
    finished.reverse();
    finished
}

/// The loops of a group.
fn loops<'g>(graph: &'g Graph, group: &'g Group) -> impl Iterator<Item = &'g Loop> {
    group.nodes.iter().filter_map(|node| match &graph.nodes[*node] {
        Node::Loop(made) => Some(made),
        Node::Call(_) => None,
    })
}

/// The values of a group that are read outside of it.
fn stored(graph: &Graph, group: &Group, needed: &[bool]) -> Vec<ValueId> {
    let outside = |(position, _): &(usize, &Node)| needed[*position] && !group.nodes.contains(position);
    let mut read: Vec<ValueId> =
        graph.nodes.iter().enumerate().filter(outside).flat_map(|(_, node)| node.reads()).collect();
    read.extend(graph.outputs.iter().flatten());
    loops(graph, group).map(|made| made.result).filter(|result| read.contains(result)).collect()
}

fn fuse(graph: &Graph, group: &Group, needed: &[bool]) -> Result<Fused> {
    let mut builder = Builder::new(group.element);
    for made in loops(graph, group) {
        builder.append(made, |id| graph.values[id].dtype);
    }
    let outputs = stored(graph, group, needed);
    for id in &outputs {
        ensure!(builder.store(*id), Internal, "compile: a result of a group is not computed in it");
    }
    let (inputs, numbers) = (builder.inputs.clone(), number_bytes(&builder.numbers, group.element));
    let info = |ids: &[ValueId]| -> Vec<&ValueInfo> { ids.iter().map(|id| &graph.values[*id]).collect() };
    let rows = rows_of(&group.sizes, &info(&inputs), &info(&outputs));
    let program = builder.finish(|i| rows.inputs[i].is_repeated);
    let operators = loops(graph, group).map(|made| made.operator).collect();
    let (kernel, sizes) = (kernel_of(&program)?, group.sizes.clone());
    Ok(Fused { kernel, rows, inputs, outputs, numbers, operators, sizes })
}

fn number_bytes(numbers: &[f64], element: ScalarType) -> Vec<u8> {
    match element {
        ScalarType::F64 => numbers.iter().flat_map(|number| number.to_ne_bytes()).collect(),
        _ => numbers.iter().flat_map(|number| (*number as f32).to_ne_bytes()).collect(),
    }
}

/// The strides of a value along `sizes`, in bytes, to which it is broadcast.
fn broadcast_strides(info: &ValueInfo, sizes: &[i64]) -> Vec<i64> {
    let missing = sizes.len().saturating_sub(info.sizes.len());
    let size = info.dtype.size() as i64;
    let stride = |d: usize| match d.checked_sub(missing) {
        Some(own) if info.sizes[own] != 1 => info.strides[own] * size,
        _ => 0,
    };
    (0..sizes.len()).map(stride).collect()
}

/// The loop over elements of `sizes`: dimensions in the order in which the first result lies in memory, merged where all operands allow it.
fn rows_of(sizes: &[i64], inputs: &[&ValueInfo], outputs: &[&ValueInfo]) -> Rows {
    let strides: Vec<Vec<i64>> =
        outputs.iter().chain(inputs).map(|info| broadcast_strides(info, sizes)).collect();
    let mut dims: Vec<usize> = (0..sizes.len()).filter(|d| sizes[*d] != 1).collect();
    dims.sort_by_key(|d| std::cmp::Reverse(strides.first().map_or(0, |first| first[*d])));
    let mut merged: Vec<(i64, Vec<i64>)> = Vec::new();
    for d in dims {
        let along: Vec<i64> = strides.iter().map(|of| of[d]).collect();
        if let Some((size, last)) = merged.last_mut()
            && last.iter().zip(&along).all(|(outer, inner)| *outer == inner * sizes[d])
        {
            *size *= sizes[d];
            *last = along;
            continue;
        }
        merged.push((sizes[d], along));
    }
    let (length, inner) = merged.pop().unwrap_or_else(|| (1, vec![0; strides.len()]));
    let operand = |(i, info): (usize, &&ValueInfo)| RowOperand {
        inner: inner[i],
        outer: merged.iter().map(|(_, along)| along[i]).collect(),
        size: info.dtype.size(),
        is_repeated: inner[i] == 0 && length > 1,
    };
    let mut operands = outputs.iter().chain(inputs).enumerate().map(operand);
    let outputs = operands.by_ref().take(outputs.len()).collect();
    Rows {
        length: length as usize,
        outer: merged.iter().map(|(size, _)| *size as usize).collect(),
        outputs,
        inputs: operands.collect(),
    }
}

fn run_fused(fused: &Fused, infos: &[ValueInfo], values: &mut [Option<Tensor>]) -> Result<()> {
    let inputs = fused.inputs.iter().map(|id| values[*id].clone().ok_or_else(|| missing(*id)));
    let inputs: Vec<Tensor> = inputs.collect::<Result<_>>()?;
    let outputs = fused.outputs.iter().map(|id| infos[*id].allocate(Device::CPU));
    let outputs: Vec<Tensor> = outputs.collect::<Result<_>>()?;
    fused.kernel.run(&fused.rows, &inputs, &outputs, &fused.numbers)?;
    for (id, output) in fused.outputs.iter().zip(outputs) {
        values[*id] = Some(output);
    }
    Ok(())
}

fn run_call(call: &Call, infos: &[ValueInfo], values: &mut [Option<Tensor>]) -> Result<()> {
    let get = |id: &ValueId| values[*id].clone().ok_or_else(|| missing(*id));
    let value = |arg: &Arg| {
        Ok(match arg {
            Arg::Value(id) => Value::Tensor(get(id)?),
            Arg::Values(ids) => Value::Tensors(ids.iter().map(get).collect::<Result<_>>()?),
            Arg::Options(ids) => {
                let one = |id: &Option<ValueId>| id.as_ref().map(get).transpose();
                Value::OptionalTensors(ids.iter().map(one).collect::<Result<_>>()?)
            }
            Arg::Plain(value) => value.clone(),
        })
    };
    let args: Vec<Value> = call.args.iter().map(value).collect::<Result<_>>()?;
    let results = call.operator.call_boxed(&args)?;
    ensure!(
        results.len() == call.results.len(),
        Internal,
        "compile: {} has other results",
        call.operator.name()
    );
    for (returned, result) in call.results.iter().zip(results) {
        match (returned, result) {
            (Returned::One(id), Value::Tensor(tensor)) => {
                values[*id] = Some(as_expected(tensor, &infos[*id])?)
            }
            (Returned::Many(ids), Value::Tensors(tensors)) if ids.len() == tensors.len() => {
                for (id, tensor) in ids.iter().zip(tensors) {
                    values[*id] = Some(as_expected(tensor, &infos[*id])?);
                }
            }
            _ => bail!(Internal, "compile: {} has other results", call.operator.name()),
        }
    }
    Ok(())
}

/// A result with the geometry that the kernel for shapes announced: itself, or a copy.
fn as_expected(result: Tensor, info: &ValueInfo) -> Result<Tensor> {
    if result.sizes() == info.sizes && result.strides() == info.strides && result.dtype() == info.dtype {
        return Ok(result);
    }
    ensure!(
        result.sizes() == info.sizes && result.dtype() == info.dtype,
        Internal,
        "compile: an operator gave a tensor of {:?} and {} where {:?} and {} were announced",
        result.sizes(),
        result.dtype(),
        info.sizes,
        info.dtype
    );
    let made = info.allocate(Device::CPU)?;
    ops::copy_(&made, &result, false)?;
    Ok(made)
}
