//! What is known of an operator before it is called: the kind of its rule, and which of its arguments are tensors and dimensions.

use crate::generated::KINDS;
use flambeau_core::Result;
use flambeau_ops::dispatch::{Argument, BaseType, OperatorInfo, Type};
use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

/// How the examples of a batch are computed at once. The field `batch` of `native_functions.yaml`, or what the rest of an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Element by element with broadcasting: the dimensions of the operands are aligned.
    Pointwise,
    /// Reduces dimensions: those that are named, or all but the batch.
    Reduction,
    /// Has arguments that name dimensions: the batch becomes dimension 0, and they are shifted by one.
    Dims,
    /// The same for views, of which tensors without dimensions have few.
    Views,
    /// Computes any number of leading dimensions.
    Front,
    /// Computes the matrices of the last two dimensions, and broadcasts those before.
    Matrices,
    /// Computes the indices of the first dimension independently: the batch is folded into it.
    Fold,
    /// Draws random numbers.
    Random,
    /// Takes no tensor, and so has no batch.
    Factory,
    /// Has a rule of its own.
    Special,
    /// Has results whose sizes depend on elements, changes the geometry of its argument, or reads elements on the host.
    Refused,
    /// Writes to an argument `out`.
    Out,
    /// Is called for each example.
    Loop,
}

/// What an argument of a schema is to the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A tensor, optional or not.
    Tensor,
    /// A list of tensors.
    Tensors,
    /// The number of a dimension, or several.
    Dims,
    /// The sizes of the tensor whose dimensions are named.
    Sizes,
    /// Anything else.
    Other,
}

/// An operator as the rules see it.
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    pub(crate) roles: Vec<Role>,
    /// Whether it writes to its first argument.
    pub(crate) is_in_place: bool,
    /// The argument that says how the elements of a loss are combined.
    pub(crate) reduction: Option<usize>,
    /// Whether its dimensions are those of a result with one dimension more.
    pub(crate) adds_dim: bool,
}

const DIMS: &[&str] = &["dim", "dims", "dim0", "dim1", "dim2", "dimension"];
const ADDS_DIM: &[&str] = &["unsqueeze", "stack", "diag_embed"];

/// The kinds of the library's operators, by the address of the operator.
static KIND_OF: LazyLock<HashMap<usize, Kind>> = LazyLock::new(|| {
    let of_kind = |(kind, operators): &(Kind, &[&'static dyn OperatorInfo])| {
        operators.iter().map(|operator| (address(*operator), *kind)).collect::<Vec<_>>()
    };
    KINDS.iter().flat_map(of_kind).collect()
});

static PLANS: RwLock<Option<HashMap<usize, &'static Plan>>> = RwLock::new(None);

fn address(operator: &dyn OperatorInfo) -> usize {
    std::ptr::from_ref(operator).cast::<()>().addr()
}

/// The kind of an operator's rule. `None` for operators of other crates, which loop unless they have a kernel for the key `Batched`, and
/// for implicit composites, of which the rules see only what they call.
pub fn kind_of(operator: &dyn OperatorInfo) -> Option<Kind> {
    KIND_OF.get(&address(operator)).copied()
}

/// The plan of an operator, made at its first call.
///
/// # Errors
/// `InvalidArgument` for a malformed schema.
pub(crate) fn plan_of(operator: &'static dyn OperatorInfo) -> Result<&'static Plan> {
    let key = address(operator);
    let known = PLANS.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(plan) = known.as_ref().and_then(|plans| plans.get(&key)) {
        return Ok(plan);
    }
    drop(known);
    let plan = made(operator)?;
    let mut plans = PLANS.write().unwrap_or_else(PoisonError::into_inner);
    Ok(plans.get_or_insert_default().entry(key).or_insert_with(|| Box::leak(Box::new(plan))))
}

fn made(operator: &'static dyn OperatorInfo) -> Result<Plan> {
    let arguments = operator.arguments()?;
    let name = operator.name();
    let is_in_place = arguments.first().is_some_and(|first| first.is_written());
    Ok(Plan {
        kind: kind_of(operator).unwrap_or(Kind::Loop),
        roles: arguments.iter().map(|argument| role(argument)).collect(),
        reduction: arguments.iter().position(|argument| argument.name == "reduction"),
        is_in_place,
        adds_dim: ADDS_DIM.contains(&name.split('.').next().unwrap_or(name)),
    })
}

fn role(argument: &Argument) -> Role {
    let (ty, name) = (argument.ty.without_optional(), argument.name.as_str());
    let is_number = matches!(ty.innermost(), Type::Base(BaseType::Int | BaseType::SymInt));
    match ty {
        Type::Base(BaseType::Tensor) => Role::Tensor,
        _ if ty.holds_tensors() => Role::Tensors,
        _ if is_number && DIMS.contains(&name) => Role::Dims,
        _ if is_number && matches!(name, "input_sizes" | "input_size") => Role::Sizes,
        _ => Role::Other,
    }
}
