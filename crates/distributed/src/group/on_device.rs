//! The algorithms of collectives of tensors that the engine moves from device to device: rounds of messages, each round at once.
//!
//! All ranks have compared their signatures before, since a message of NCCL that no rank receives has no end.

use super::Call;
use super::collectives::chunk;
use crate::reduce::ReduceOp;
use crate::simulate::ONE_ROUND;
use crate::transport::Message;
use flambeau_core::{Result, bail, ensure};
use flambeau_ops::Tensor;

/// The elements in one dimension: the tensor's own where it is contiguous, else a copy.
fn elements(tensor: &Tensor) -> Result<Tensor> {
    tensor.detach()?.contiguous()?.view(&[tensor.numel()])
}

/// Writes elements that [`elements`] gave, and that have changed, to their tensor.
fn settle(tensor: &Tensor, elements: &Tensor) -> Result<()> {
    if tensor.is_contiguous() { Ok(()) } else { write(tensor, elements) }
}

fn write(to: &Tensor, from: &Tensor) -> Result<()> {
    to.detach()?.copy_(&from.detach()?.reshape(to.sizes())?)?;
    Ok(())
}

/// A message to every other rank.
fn to_all(call: &Call<'_>, tensor: impl Fn(usize) -> Result<Tensor>) -> Result<Vec<Message>> {
    call.peers().map(|peer| Ok((peer, tensor(peer)?))).collect()
}

/// Room for a message of every other rank.
fn room(call: &Call<'_>, like: &Tensor) -> Result<Vec<Message>> {
    to_all(call, |_| Tensor::empty(&[like.numel()], (like.dtype(), like.device())))
}

/// The tensors of all ranks in their order: those that were received, and that of this rank.
fn in_order(call: &Call<'_>, own: Tensor, received: Vec<Message>) -> Vec<Tensor> {
    let mut all = vec![own; call.size()];
    received.into_iter().for_each(|(rank, tensor)| all[rank] = tensor);
    all
}

pub(super) fn all_reduce(call: &Call<'_>, tensor: &Tensor, op: ReduceOp) -> Result<()> {
    let own = elements(tensor)?;
    if tensor.nbytes() <= ONE_ROUND {
        let received = room(call, &own)?;
        call.exchange(&to_all(call, |_| Ok(own.clone()))?, &received)?;
        return write(tensor, &op.reduce(in_order(call, own, received))?);
    }
    let part = |rank: usize| {
        let range = chunk(own.numel() as usize, 1, call.size(), rank);
        own.narrow(0, range.start as i64, range.len() as i64)
    };
    let mine = part(call.rank())?;
    let received = room(call, &mine)?;
    call.exchange(&to_all(call, part)?, &received)?;
    write(&mine, &op.reduce(in_order(call, mine.clone(), received))?)?;
    call.exchange(&to_all(call, |_| Ok(mine.clone()))?, &to_all(call, part)?)?;
    settle(tensor, &own)
}

pub(super) fn reduce(call: &Call<'_>, tensor: &Tensor, dst: usize, op: ReduceOp) -> Result<()> {
    let own = elements(tensor)?;
    if call.rank() != dst {
        return call.exchange(&[(dst, own)], &[]);
    }
    let received = room(call, &own)?;
    call.exchange(&[], &received)?;
    write(tensor, &op.reduce(in_order(call, own, received))?)
}

pub(super) fn broadcast(call: &Call<'_>, tensor: &Tensor, src: usize) -> Result<()> {
    let own = elements(tensor)?;
    if call.rank() == src {
        return call.exchange(&to_all(call, |_| Ok(own.clone()))?, &[]);
    }
    call.exchange(&[], &[(src, own.clone())])?;
    settle(tensor, &own)
}

pub(super) fn all_gather(call: &Call<'_>, outputs: &[Tensor], input: &Tensor) -> Result<()> {
    let own = elements(input)?;
    let received = to_all(call, |peer| elements(&outputs[peer]))?;
    call.exchange(&to_all(call, |_| Ok(own.clone()))?, &received)?;
    received.iter().try_for_each(|(peer, received)| settle(&outputs[*peer], received))?;
    write(&outputs[call.rank()], &own)
}

pub(super) fn gather(call: &Call<'_>, input: &Tensor, outputs: &[Tensor], dst: usize) -> Result<()> {
    let own = elements(input)?;
    if call.rank() != dst {
        return call.exchange(&[(dst, own)], &[]);
    }
    let received = to_all(call, |peer| elements(&outputs[peer]))?;
    call.exchange(&[], &received)?;
    received.iter().try_for_each(|(peer, received)| settle(&outputs[*peer], received))?;
    write(&outputs[dst], &own)
}

pub(super) fn scatter(call: &Call<'_>, output: &Tensor, inputs: &[Tensor], src: usize) -> Result<()> {
    if call.rank() == src {
        call.exchange(&to_all(call, |peer| elements(&inputs[peer]))?, &[])?;
        return write(output, &inputs[src]);
    }
    let own = elements(output)?;
    call.exchange(&[], &[(src, own.clone())])?;
    settle(output, &own)
}

pub(super) fn reduce_scatter(
    call: &Call<'_>,
    output: &Tensor,
    inputs: &[Tensor],
    op: ReduceOp,
) -> Result<()> {
    let received = room(call, output)?;
    call.exchange(&to_all(call, |peer| elements(&inputs[peer]))?, &received)?;
    let own = elements(&inputs[call.rank()])?;
    write(output, &op.reduce(in_order(call, own, received))?)
}

/// The outputs may share memory with inputs, and have other sizes on every rank, which the ranks tell each other first.
pub(super) fn all_to_all(call: &Call<'_>, outputs: &[Tensor], inputs: &[Tensor]) -> Result<()> {
    let rank = call.rank();
    call.peers().try_for_each(|peer| call.send(peer, &inputs[peer].numel().to_le_bytes()))?;
    for peer in call.peers() {
        let told = call.receive(peer, size_of::<i64>())?.to_vec::<u8>()?;
        let Ok(count) = told.try_into().map(i64::from_le_bytes) else {
            bail!(Internal, "a message of eight bytes has others")
        };
        ensure_fits(&outputs[peer], count, peer)?;
    }
    ensure_fits(&outputs[rank], inputs[rank].numel(), rank)?;
    let kind = (inputs[rank].dtype(), inputs[rank].device());
    let received = to_all(call, |peer| Tensor::empty(&[outputs[peer].numel()], kind))?;
    call.exchange(&to_all(call, |peer| elements(&inputs[peer]))?, &received)?;
    write(&outputs[rank], &inputs[rank])?;
    received.iter().try_for_each(|(peer, received)| write(&outputs[*peer], received))
}

fn ensure_fits(output: &Tensor, count: i64, from: usize) -> Result<()> {
    ensure!(
        output.numel() == count,
        InvalidArgument,
        "expected an output of {count} elements, those of rank {from}, but got {}",
        output.numel()
    );
    Ok(())
}
