//! The algorithms of collectives: what a rank sends, receives and computes.
//!
//! The tensor of an all-reduce is guarded from the beginning of the call to its end, so that other threads that read it wait.

use super::{Call, on_device};
use crate::bytes::{buffer, copied, with_bytes, with_bytes_mut};
use crate::reduce::ReduceOp;
use crate::simulate::ONE_ROUND;
use flambeau_core::Result;
use flambeau_ops::Tensor;
use std::ops::Range;

/// The bytes that rank `rank` of `size` reduces, of `count` elements of `width` bytes.
pub(super) fn chunk(count: usize, width: usize, size: usize, rank: usize) -> Range<usize> {
    let start = |rank: usize| (count / size * rank + rank.min(count % size)) * width;
    start(rank)..start(rank + 1)
}

fn write(to: &mut [u8], from: &Tensor) -> Result<()> {
    with_bytes(from, |from| {
        to.copy_from_slice(from);
        Ok(())
    })
}

/// Every rank sends each rank the chunk that it reduces, and then its result to all. These are `2 (n - 1) / n` of the bytes, as in a ring.
pub(super) fn all_reduce(call: &Call<'_>, tensor: &Tensor, op: ReduceOp) -> Result<()> {
    if call.is_on_device() {
        return on_device::all_reduce(call, tensor, op);
    }
    let (dtype, width, size) = (tensor.dtype(), tensor.element_size(), call.size());
    with_bytes_mut(tensor, |bytes| {
        if bytes.len() <= ONE_ROUND {
            call.peers().try_for_each(|peer| call.send(peer, bytes))?;
            return call.reduce(bytes, dtype, op);
        }
        let count = bytes.len() / width;
        let chunk = |rank| chunk(count, width, size, rank);
        call.peers().try_for_each(|peer| call.send(peer, &bytes[chunk(peer)]))?;
        let own = chunk(call.rank());
        call.reduce(&mut bytes[own.clone()], dtype, op)?;
        call.peers().try_for_each(|peer| call.send(peer, &bytes[own.clone()]))?;
        call.peers()
            .try_for_each(|peer| write(&mut bytes[chunk(peer)], &call.receive(peer, chunk(peer).len())?))
    })
}

pub(super) fn reduce(call: &Call<'_>, tensor: &Tensor, dst: usize, op: ReduceOp) -> Result<()> {
    if call.is_on_device() {
        return on_device::reduce(call, tensor, dst, op);
    }
    if call.rank() != dst {
        return with_bytes(tensor, |bytes| call.send(dst, bytes));
    }
    with_bytes_mut(tensor, |bytes| call.reduce(bytes, tensor.dtype(), op))
}

/// A binomial tree: a rank that has the tensor sends it to one that has not, twice as far each time.
pub(super) fn broadcast(call: &Call<'_>, tensor: &Tensor, src: usize) -> Result<()> {
    if call.is_on_device() {
        return on_device::broadcast(call, tensor, src);
    }
    let size = call.size();
    let relative = (call.rank() + size - src) % size;
    let rank = |relative: usize| (relative + src) % size;
    let distances = || (0..usize::BITS).map(|bit| 1usize << bit).take_while(move |distance| *distance < size);
    let send_on = |bytes: &[u8]| {
        let mut targets = distances().filter(|distance| relative < *distance && relative + distance < size);
        targets.try_for_each(|distance| call.send(rank(relative + distance), bytes))
    };
    if relative == 0 {
        return with_bytes(tensor, send_on);
    }
    let from = relative - (1 << relative.ilog2());
    with_bytes_mut(tensor, |bytes| {
        let received = call.receive(rank(from), bytes.len())?;
        write(bytes, &received)?;
        send_on(bytes)
    })
}

pub(super) fn all_gather(call: &Call<'_>, outputs: &[Tensor], input: &Tensor) -> Result<()> {
    if call.is_on_device() {
        return on_device::all_gather(call, outputs, input);
    }
    let own = with_bytes(input, |bytes| {
        call.peers().try_for_each(|peer| call.send(peer, bytes))?;
        copied(bytes)
    })?;
    let parts = call.receive_from_all(&own, input.nbytes())?;
    outputs
        .iter()
        .zip(&parts)
        .try_for_each(|(output, part)| with_bytes_mut(output, |bytes| write(bytes, part)))
}

pub(super) fn gather(call: &Call<'_>, input: &Tensor, outputs: &[Tensor], dst: usize) -> Result<()> {
    if call.is_on_device() {
        return on_device::gather(call, input, outputs, dst);
    }
    if call.rank() != dst {
        return with_bytes(input, |bytes| call.send(dst, bytes));
    }
    let parts = call.receive_from_all(&with_bytes(input, copied)?, input.nbytes())?;
    outputs
        .iter()
        .zip(&parts)
        .try_for_each(|(output, part)| with_bytes_mut(output, |bytes| write(bytes, part)))
}

pub(super) fn scatter(call: &Call<'_>, output: &Tensor, inputs: &[Tensor], src: usize) -> Result<()> {
    if call.is_on_device() {
        return on_device::scatter(call, output, inputs, src);
    }
    if call.rank() != src {
        let received = call.receive(src, output.nbytes())?;
        return with_bytes_mut(output, |bytes| write(bytes, &received));
    }
    call.peers().try_for_each(|peer| with_bytes(&inputs[peer], |bytes| call.send(peer, bytes)))?;
    let own = with_bytes(&inputs[src], copied)?;
    with_bytes_mut(output, |bytes| write(bytes, &own))
}

pub(super) fn reduce_scatter(
    call: &Call<'_>,
    output: &Tensor,
    inputs: &[Tensor],
    op: ReduceOp,
) -> Result<()> {
    if call.is_on_device() {
        return on_device::reduce_scatter(call, output, inputs, op);
    }
    call.peers().try_for_each(|peer| with_bytes(&inputs[peer], |bytes| call.send(peer, bytes)))?;
    // Before the output is guarded, of which the input may be a part.
    let own = with_bytes(&inputs[call.rank()], copied)?;
    with_bytes_mut(output, |bytes| {
        write(bytes, &own)?;
        call.reduce(bytes, output.dtype(), op)
    })
}

pub(super) fn all_to_all(call: &Call<'_>, outputs: &[Tensor], inputs: &[Tensor]) -> Result<()> {
    if call.is_on_device() {
        return on_device::all_to_all(call, outputs, inputs);
    }
    call.peers().try_for_each(|peer| with_bytes(&inputs[peer], |bytes| call.send(peer, bytes)))?;
    let rank = call.rank();
    let own = with_bytes(&inputs[rank], copied)?;
    flambeau_core::ensure!(
        own.numel() == outputs[rank].nbytes() as i64,
        InvalidArgument,
        "expected an output of the sizes of the input that rank {rank} keeps, {:?}, but got {:?}",
        inputs[rank].sizes(),
        outputs[rank].sizes()
    );
    with_bytes_mut(&outputs[rank], |bytes| write(bytes, &own))?;
    call.peers().try_for_each(|peer| {
        let received = call.receive(peer, outputs[peer].nbytes())?;
        with_bytes_mut(&outputs[peer], |bytes| write(bytes, &received))
    })
}

/// Rank 0 waits for all others, which then wait for it; so it can name all that are late.
pub(super) fn barrier(call: &Call<'_>) -> Result<()> {
    if call.rank() != 0 {
        call.send(0, &[])?;
        return call.receive_answer(0, 0).map(drop);
    }
    call.receive_from_all(&buffer(0)?, 0)?;
    call.peers().try_for_each(|peer| call.send(peer, &[]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_all_elements_once() {
        for (count, size) in [(0, 3), (1, 3), (7, 3), (9, 3), (10, 4), (1000, 7)] {
            let chunks: Vec<Range<usize>> = (0..size).map(|rank| chunk(count, 4, size, rank)).collect();
            assert_eq!((chunks[0].start, chunks[size - 1].end), (0, 4 * count));
            assert!(
                chunks.windows(2).all(|pair| pair[0].end == pair[1].start && pair[0].len().is_multiple_of(4))
            );
        }
    }
}
