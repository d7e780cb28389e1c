//! Messages from one rank to another.

use super::Core;
use crate::bytes::{with_bytes, with_bytes_mut};
use crate::transport::{Channel, Frame, Receive, Signature};
use crate::work::Work;
use flambeau_core::{Result, ensure};
use flambeau_ops::Tensor;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest deadline; a longer timeout is none in practice.
const LONGEST: Duration = Duration::from_secs(1 << 32);

pub(super) fn send(core: &Core, tensor: &Tensor, dst: usize, tag: i64, sequence: u64) -> Result<()> {
    let signature = Signature {
        group: core.id,
        sequence,
        operation: "send".to_owned(),
        dtype: tensor.dtype(),
        sizes: tensor.sizes().to_vec(),
        detail: String::new(),
    };
    let (channel, timeout, to) = (Channel::Message(tag), core.options.timeout, core.ranks[dst]);
    let sent = with_bytes(tensor, |bytes| core.transport.send(to, channel, &signature, bytes, timeout));
    sent.map_err(|e| {
        e.context(format_args!("send from rank {} to rank {to} with tag {tag}", core.ranks[core.rank]))
    })
}

pub(super) fn receive(core: &Arc<Core>, tensor: &Tensor, src: Option<usize>, tag: i64, id: u64) -> Work {
    let from = src.map_or_else(|| "any rank".to_owned(), |src| format!("rank {}", core.ranks[src]));
    let name = format!("recv on rank {} from {from} with tag {tag}", core.ranks[core.rank]);
    let end = Instant::now() + core.options.timeout.min(LONGEST);
    // The number is that of one group, and the mailbox serves all.
    let (id, mailbox) = ((core.id << 40) | id, core.transport.mailbox.clone());
    let cancelled = mailbox.clone();
    let work = Work::until(name.clone(), end, move || cancelled.cancel(id));
    let (done, tensor, ranks) = (work.clone(), tensor.clone(), core.ranks.clone());
    let deliver = move |received: Result<(usize, Frame)>| {
        let outcome = received.and_then(|(source, frame)| {
            store(&tensor, source, &frame)?;
            Ok(ranks.iter().position(|rank| *rank == source))
        });
        done.complete(outcome.map_err(|e| e.context(&name)));
    };
    let source = src.map(|src| core.ranks[src]);
    let receive = Receive { id, group: core.id, source, tag, deliver: Box::new(deliver) };
    mailbox.receive(receive, &core.ranks);
    work
}

/// Writes a message to the tensor that receives it.
fn store(tensor: &Tensor, source: usize, frame: &Frame) -> Result<()> {
    let signature = &frame.signature;
    ensure!(
        signature.dtype == tensor.dtype() && frame.payload.nbytes() == tensor.nbytes(),
        InvalidArgument,
        "expected a tensor of {} {:?} but rank {source} sent one of {} {:?}",
        tensor.dtype(),
        tensor.sizes(),
        signature.dtype,
        signature.sizes
    );
    with_bytes_mut(tensor, |to| {
        with_bytes(&frame.payload, |from| {
            to.copy_from_slice(from);
            Ok(())
        })
    })
}
