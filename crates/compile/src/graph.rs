//! The graph of a call: the elementwise loops and the other operators that it runs, in order, and the tensors between them.

use flambeau_core::{Device, DimVec, Result, Scalar, ScalarType};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::{OperatorInfo, Value};
use flambeau_ops::structured::TensorSpec;
use flambeau_ops::vectorized::traced::Tape;

/// The position of a value in [`Graph::values`].
pub(crate) type ValueId = usize;

/// A tensor of the graph: all that is known of it before a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ValueInfo {
    pub(crate) sizes: Vec<i64>,
    pub(crate) strides: Vec<i64>,
    pub(crate) dtype: ScalarType,
    /// The value whose memory it shares.
    pub(crate) view_of: Option<ValueId>,
}

impl ValueInfo {
    /// The description of a tensor.
    pub(crate) fn of(tensor: &Tensor) -> Self {
        let (sizes, strides) = (tensor.sizes().to_vec(), tensor.strides().to_vec());
        ValueInfo { sizes, strides, dtype: tensor.dtype(), view_of: None }
    }

    /// A tensor of this description, without values.
    pub(crate) fn allocate(&self, device: Device) -> Result<Tensor> {
        let spec = TensorSpec::new(&self.sizes, self.dtype, device);
        spec.with_strides(DimVec::from_slice(&self.strides)).allocate("compile")
    }

    /// Whether a tensor has this description.
    pub(crate) fn describes(&self, tensor: &Tensor) -> bool {
        self.dtype == tensor.dtype() && self.sizes == tensor.sizes() && self.strides == tensor.strides()
    }

    /// Whether both have the same sizes, strides and type.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        (&self.sizes, &self.strides, self.dtype) == (&other.sizes, &other.strides, other.dtype)
    }
}

/// An argument of a [`Call`].
#[derive(Clone, Debug)]
pub(crate) enum Arg {
    Value(ValueId),
    Values(Vec<ValueId>),
    Options(Vec<Option<ValueId>>),
    /// What is no tensor, or the tensor of a number.
    Plain(Value),
}

impl Arg {
    /// The values in it.
    pub(crate) fn values(&self) -> Vec<ValueId> {
        match self {
            Arg::Value(id) => vec![*id],
            Arg::Values(ids) => ids.clone(),
            Arg::Options(ids) => ids.iter().flatten().copied().collect(),
            Arg::Plain(_) => Vec::new(),
        }
    }
}

/// A result of a [`Call`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Returned {
    One(ValueId),
    Many(Vec<ValueId>),
}

impl Returned {
    /// The values in it.
    pub(crate) fn values(&self) -> &[ValueId] {
        match self {
            Returned::One(id) => std::slice::from_ref(id),
            Returned::Many(ids) => ids,
        }
    }
}

/// An operator that runs as it does without compilation.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) operator: &'static dyn OperatorInfo,
    pub(crate) args: Vec<Arg>,
    pub(crate) results: Vec<Returned>,
    /// Why it is not a part of a compiled loop.
    pub(crate) why: String,
    /// Whether it draws random numbers, so that it must run even if nothing uses its results.
    pub(crate) is_random: bool,
}

/// What an elementwise loop reads.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Value(ValueId),
    Number(Scalar),
}

/// An elementwise loop: its formula, and the type in which its inputs are computed.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    pub(crate) operator: &'static str,
    pub(crate) tape: Tape,
    /// For each input of the tape, where it comes from, and the type to which it is converted.
    pub(crate) inputs: Vec<(Source, ScalarType)>,
    /// The type that is computed in.
    pub(crate) computing: ScalarType,
    pub(crate) result: ValueId,
}

/// A step of the graph.
#[derive(Clone)]
pub(crate) enum Node {
    Call(Call),
    Loop(Loop),
}

impl Node {
    /// The values that it reads.
    pub(crate) fn reads(&self) -> Vec<ValueId> {
        match self {
            Node::Call(call) => call.args.iter().flat_map(Arg::values).collect(),
            Node::Loop(made) => {
                let value = |(source, _): &(Source, ScalarType)| match source {
                    Source::Value(id) => Some(*id),
                    Source::Number(_) => None,
                };
                made.inputs.iter().filter_map(value).collect()
            }
        }
    }

    /// The values that it makes.
    pub(crate) fn makes(&self) -> Vec<ValueId> {
        match self {
            Node::Call(call) => call.results.iter().flat_map(Returned::values).copied().collect(),
            Node::Loop(made) => vec![made.result],
        }
    }

    /// The name of its operator.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Node::Call(call) => call.operator.name(),
            Node::Loop(made) => made.operator,
        }
    }
}

/// What a function does with its arguments.
#[derive(Clone, Default)]
pub(crate) struct Graph {
    pub(crate) values: Vec<ValueInfo>,
    /// In an order in which they can run.
    pub(crate) nodes: Vec<Node>,
    /// The arguments.
    pub(crate) inputs: Vec<ValueId>,
    /// Tensors that the function knows without being given them.
    pub(crate) captured: Vec<(ValueId, Tensor)>,
    /// The results; `None` where there is none.
    pub(crate) outputs: Vec<Option<ValueId>>,
}

impl Graph {
    /// The value whose memory a value is in.
    pub(crate) fn root(&self, mut id: ValueId) -> ValueId {
        while let Some(base) = self.values[id].view_of {
            id = base;
        }
        id
    }

    /// Whether it draws random numbers.
    pub(crate) fn is_random(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node, Node::Call(call) if call.is_random))
    }
}
