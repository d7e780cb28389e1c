//! Snapshots of operands, which a call that fails must leave unchanged.

use flambeau_core::ScalarType::U8;
use flambeau_core::{Error, ErrorKind};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::{OperatorInfo, Value};
use flambeau_ops::ops::{as_strided, view_dtype};

/// Geometry, version, and all bytes of the storage of one tensor.
type State = (Vec<i64>, Vec<i64>, i64, u32, Vec<u8>);

/// The tensors of a list of arguments with their state before a call.
pub struct Operands(Vec<(usize, Tensor, State)>);

impl Operands {
    /// As they are now.
    pub fn of(arguments: &[Value]) -> Self {
        let tensors = arguments.iter().enumerate().flat_map(|(index, value)| {
            let of: Vec<Tensor> = match value {
                Value::Tensor(t) => vec![t.clone()],
                Value::Tensors(list) => list.clone(),
                Value::OptionalTensors(list) => list.iter().flatten().cloned().collect(),
                _ => vec![],
            };
            of.into_iter().map(move |t| (index, t))
        });
        Operands(tensors.map(|(index, t)| (index, t.clone(), state(&t))).collect())
    }

    /// What is no longer as it was.
    pub fn changed(&self) -> Option<String> {
        self.0.iter().find_map(|(index, tensor, before)| {
            let now = state(tensor);
            let parts = [
                ("sizes", now.0 != before.0),
                ("strides", now.1 != before.1),
                ("offset", now.2 != before.2),
                ("version", now.3 != before.3),
                ("bytes", now.4 != before.4),
            ];
            let (part, _) = parts.into_iter().find(|(_, changed)| *changed)?;
            Some(format!("the {part} of argument {index} changed"))
        })
    }
}

fn state(t: &Tensor) -> State {
    (t.sizes().to_vec(), t.strides().to_vec(), t.storage_offset(), t.version(), bytes(t).unwrap_or_default())
}

/// All bytes of the storage that make whole elements.
fn bytes(t: &Tensor) -> Option<Vec<u8>> {
    if !t.device().is_cpu() {
        return None;
    }
    let elements = t.storage().nbytes() / t.dtype().size();
    let all = as_strided(t, &[i64::try_from(elements).ok()?], &[1], Some(0)).ok()?;
    view_dtype(&all, U8).ok()?.to_vec().ok()
}

/// What is wrong with the kind of an error that an argument caused: it is the library's own fault, a file's or the caller's wish to stop.
pub fn misplaced(error: &Error) -> Option<String> {
    let own = [ErrorKind::Internal, ErrorKind::Io, ErrorKind::Interrupted];
    own.contains(&error.kind()).then(|| format!("an argument's error cannot be {error:?}"))
}

/// Whether the text of an error says which operator refuses.
pub fn names(op: &dyn OperatorInfo, error: &Error) -> bool {
    let name = op.name().split('.').next().unwrap_or_default().trim_matches('_');
    error.message().contains(name)
}
