//! Random operators: an error, or called for each example, with a generator that continues or starts again.

use crate::batch::Batch;
use crate::kinds::loops::each;
use flambeau_core::{Generator, Result, bail, ensure};
use flambeau_ops::batched::Randomness;
use flambeau_ops::dispatch::Value;

/// Examples are drawn in order, so that each has the numbers that a loop over the examples would draw for it in this call.
pub(crate) fn call(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let is_batched = batch.tensors().any(|tensor| batch.is_batched(tensor));
    match batch.level().randomness {
        Randomness::Error => bail!(
            InvalidArgument(batch.operator.name()),
            "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' randomness \
             flags on vmap or perform the randomness operation out of vmap"
        ),
        Randomness::Different => {
            ensure_target_is_batched(batch)?;
            each(batch, batch.size(), |_| Ok(()))
        }
        Randomness::Same if !is_batched => batch.call(batch.arguments),
        Randomness::Same => {
            batch.ensure_self_is_batched()?;
            let generator = generator(batch)?;
            let start = generator.state();
            each(batch, batch.size(), |_| {
                generator.set_state(start);
                Ok(())
            })
        }
    }
}

fn ensure_target_is_batched(batch: &Batch<'_>) -> Result<()> {
    ensure!(
        !batch.plan.is_in_place || batch.is_batched_argument(0),
        InvalidArgument(batch.operator.name()),
        "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same randomness."
    );
    Ok(())
}

/// The generator of the call: an argument, or the default one of the device.
fn generator<'b>(batch: &'b Batch<'_>) -> Result<&'b Generator> {
    let given = batch.arguments.iter().find_map(|value| match value {
        Value::Generator(generator) => Some(generator),
        _ => None,
    });
    match (given, batch.tensors().next()) {
        (Some(given), _) => Ok(given),
        (None, Some(tensor)) => Generator::default_of(tensor.device()),
        (None, None) => Ok(Generator::default_cpu()),
    }
}
