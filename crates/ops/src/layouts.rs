//! Layouts of other crates: a tensor of parts, which are ordinary tensors, and rules that compute operators on the parts.
//!
//! Rules run above autograd. They call operators on the parts, which record history and propagate tangents; so gradients and tangents go
//! through such a layout without code of its own. An operator without a rule is an error that names the operator and the layout: it is
//! never converted silently. Operators that are composite need no rule, since they call others.

use crate::append_list::AppendList;
use crate::dispatch::{BoxedKernel, BoxedRegistration, Call, DispatchKey, OperatorInfo, Value};
use crate::{Tensor, dispatch};
use flambeau_core::tensor_impl::Parts;
use flambeau_core::{Device, Layout, Result, ScalarType, TensorImpl, bail, ensure};
use parking_lot::Mutex;
use std::panic::Location;

/// What the crate of a layout provides beside its rules.
pub trait LayoutHooks: Send + Sync {
    /// The same elements as a strided tensor, with their history.
    ///
    /// # Errors
    /// Those of the operators that it calls.
    fn to_dense(&self, tensor: &Tensor) -> Result<Tensor>;
}

/// The hooks of each layout.
static HOOKS: AppendList<(Layout, &'static dyn LayoutHooks)> = AppendList::new();

/// A rule: an operator with a tensor of a layout among its arguments, computed on the parts.
struct Rule {
    layout: Layout,
    operator: usize,
    kernel: &'static dyn BoxedKernel,
    location: &'static Location<'static>,
}

static RULES: AppendList<Rule> = AppendList::new();

dispatch::inventory::submit! { BoxedRegistration::fallback(DispatchKey::ExtensionLayout, &ByRule) }

/// Makes a layout, which prints as `name`. It exists until the process ends.
///
/// # Errors
/// Those of [`Layout::register`].
#[track_caller]
pub fn register_layout(name: &str, hooks: &'static dyn LayoutHooks) -> Result<Layout> {
    let layout = Layout::register(name)?;
    HOOKS.push((layout, hooks));
    Ok(layout)
}

fn address(operator: &'static dyn OperatorInfo) -> usize {
    std::ptr::from_ref(operator).addr()
}

fn rule_of(layout: Layout, operator: &'static dyn OperatorInfo) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.layout == layout && rule.operator == address(operator))
}

/// Makes `rule` compute `operator` where an argument has this layout. The rule gets all arguments in the order of the schema, of which
/// some may be strided.
///
/// # Errors
/// `InvalidArgument` where there is a rule, naming both locations, or where the layout is not that of another crate.
#[track_caller]
pub fn register_rule(
    layout: Layout,
    operator: &'static dyn OperatorInfo,
    rule: &'static dyn BoxedKernel,
) -> Result<()> {
    let here = Location::caller();
    ensure!(
        matches!(layout, Layout::Extension(_)),
        InvalidArgument("register_rule", "layout"),
        "expected a layout that `register_layout` made but got {layout}"
    );
    // Of two threads that register a rule, the second must see that of the first.
    static REGISTERING: Mutex<()> = Mutex::new(());
    let _registering = REGISTERING.lock();
    if let Some(first) = rule_of(layout, operator) {
        bail!(
            InvalidArgument("register_rule", "operator"),
            "expected one rule of {layout} for {} but there is one from {} and one from {here}",
            operator.name(),
            first.location
        );
    }
    RULES.push(Rule { layout, operator: address(operator), kernel: rule, location: here });
    Ok(())
}

/// A tensor of `layout` with these sizes, whose elements are in `parts`: ordinary tensors, or anything else that can be sent to other
/// threads. [`parts_of`] returns them.
///
/// # Errors
/// `Shape` and `Overflow` for sizes that no tensor has.
pub fn from_parts<P: Send + Sync + 'static>(
    layout: Layout,
    sizes: &[i64],
    (dtype, device): (ScalarType, Device),
    parts: P,
) -> Result<Tensor> {
    let keys = DispatchKey::ExtensionLayout.into();
    let elements = Box::new(parts);
    TensorImpl::from_parts(Parts { layout, device, dtype, sizes: sizes.into(), keys, elements })
        .map(Tensor::from_impl)
}

/// The parts that a tensor was made of; `None` where it was not, or of another type.
pub fn parts_of<P: 'static>(tensor: &Tensor) -> Option<&P> {
    tensor.impl_().extension()?.downcast_ref()
}

/// A tensor of another crate's layout as a strided one, with its history; a strided tensor as it is.
///
/// # Errors
/// `NotImplemented` for other layouts, and those of the crate's function.
pub fn to_dense(tensor: &Tensor) -> Result<Tensor> {
    let layout = tensor.layout();
    if layout == Layout::Strided {
        return Ok(tensor.clone());
    }
    match HOOKS.iter().find(|(of, _)| *of == layout) {
        Some((_, hooks)) => hooks.to_dense(tensor),
        None => bail!(NotImplemented("to_dense"), "expected a layout of another crate but got {layout}"),
    }
}

/// The fallback of the key: runs the rule of the first argument that has such a layout.
struct ByRule;

impl BoxedKernel for ByRule {
    fn call(&self, call: &Call<'_>) -> Result<Vec<Value>> {
        let layouts = call.arguments.iter().flat_map(Value::tensors).map(Tensor::layout);
        let mut layouts = layouts.filter(|layout| matches!(layout, Layout::Extension(_)));
        let name = call.operator.name();
        let Some(layout) = layouts.next() else {
            bail!(Internal(name), "expected a tensor of another crate's layout")
        };
        if let Some(other) = layouts.find(|other| *other != layout) {
            bail!(NotImplemented(name), "expected tensors of one layout but got {layout} and {other}");
        }
        match rule_of(layout, call.operator) {
            Some(rule) => rule.kernel.call(call),
            None => bail!(
                NotImplemented(name),
                "the layout {layout} has no rule for this operator; `to_dense` makes a strided tensor"
            ),
        }
    }
}
