//! One collective while it runs: messages of its signature, with a deadline.

use super::Core;
use crate::bytes::{copied, elements, with_bytes};
use crate::reduce::{ReduceOp, slices};
use crate::transport::{Channel, Communicator, Frame, Members, Message, Signature};
use flambeau_core::{Device, Error, ErrorKind, Result, ScalarType, bail, ensure, error};
use flambeau_ops::Tensor;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// How much longer a rank waits for the answer of one that waits for others, and for the messages of one that has ended.
const GRACE: Duration = Duration::from_millis(500);

/// A collective that runs on this rank.
pub(super) struct Call<'a> {
    core: &'a Core,
    signature: Signature,
    end: Option<Instant>,
    /// The device of its tensors, where the engine moves them.
    on_device: Option<Device>,
}

impl<'a> Call<'a> {
    pub(super) fn new(core: &'a Core, signature: Signature, on_device: Option<Device>) -> Self {
        Call { core, signature, end: Instant::now().checked_add(core.options.timeout), on_device }
    }

    /// Runs it. Its errors say which call and which rank it was.
    pub(super) fn run(&self, body: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        let checked = || {
            self.core.ensure_whole(&self.signature.operation)?;
            if self.core.options.debug || self.is_on_device() {
                self.compare_signatures()?;
            }
            body(self)
        };
        let outcome = catch_unwind(AssertUnwindSafe(checked));
        let outcome = outcome.unwrap_or_else(|_| bail!(Internal, "the call panicked"));
        outcome.map_err(|e| self.describe(e))
    }

    fn describe(&self, e: Error) -> Error {
        let here = format!("{} on rank {}", self.signature, self.name(self.rank()));
        e.context(here).with_operator(&self.signature.operation)
    }

    pub(super) fn rank(&self) -> usize {
        self.core.rank
    }

    pub(super) fn size(&self) -> usize {
        self.core.ranks.len()
    }

    /// All other ranks, beginning with the next one, so that not all send to the same rank at once.
    pub(super) fn peers(&self) -> impl Iterator<Item = usize> + use<> {
        let (rank, size) = (self.rank(), self.size());
        (1..size).map(move |step| (rank + step) % size)
    }

    /// The number of a rank in the whole job, which messages of errors have.
    fn name(&self, rank: usize) -> usize {
        self.core.ranks[rank]
    }

    pub(super) fn send(&self, to: usize, bytes: &[u8]) -> Result<()> {
        let to = self.name(to);
        self.core.transport.send(to, Channel::Collective, &self.signature, bytes, self.core.options.timeout)
    }

    /// The next message of a rank, which must have so many bytes.
    ///
    /// # Errors
    /// `InvalidArgument` where it belongs to another call; `Io` where the rank has ended or is late.
    pub(super) fn receive(&self, from: usize, count: usize) -> Result<Tensor> {
        self.receive_one_of(from, &[from], count, self.end)
    }

    /// The same from a rank that itself waits for others. It has more time, so that it can name those that are late.
    pub(super) fn receive_answer(&self, from: usize, count: usize) -> Result<Tensor> {
        self.receive_one_of(from, &[from], count, self.end.and_then(|end| end.checked_add(GRACE)))
    }

    /// The same where this rank waits for several, all of which an error names if they are late.
    fn receive_one_of(
        &self,
        from: usize,
        pending: &[usize],
        count: usize,
        end: Option<Instant>,
    ) -> Result<Tensor> {
        let mailbox = &self.core.transport.mailbox;
        let received = mailbox.next(self.core.id, self.name(from), Channel::Collective, end);
        let frame = received.map_err(|e| if e.message() == "timeout" { self.late(pending) } else { e })?;
        self.check(from, &frame)?;
        ensure!(
            frame.payload.numel() == count as i64,
            InvalidArgument,
            "expected {count} bytes from rank {} but got {}: the tensors of the ranks have different sizes",
            self.name(from),
            frame.payload.numel()
        );
        Ok(frame.payload)
    }

    fn late(&self, pending: &[usize]) -> Error {
        let has_sent = |rank: usize| {
            self.core.transport.mailbox.has_message(self.core.id, self.name(rank), Channel::Collective)
        };
        let missing: Vec<usize> =
            pending.iter().filter(|rank| !has_sent(**rank)).map(|rank| self.name(*rank)).collect();
        let timeout = self.core.options.timeout;
        error!(Io, "timeout: after {timeout:?} nothing has arrived from ranks {missing:?}")
    }

    fn check(&self, from: usize, frame: &Frame) -> Result<()> {
        ensure!(
            frame.signature == self.signature,
            InvalidArgument,
            expected = self.signature,
            got = frame.signature,
            "rank {} made another call, {got}: all ranks must make the same calls in the same order, with tensors of the same sizes and \
             dtypes",
            self.name(from)
        );
        Ok(())
    }

    /// The messages of all other ranks, each of so many bytes, in the order of ranks; `None` for this one.
    fn receive_from_others(&self, count: usize) -> Result<Vec<Option<Tensor>>> {
        let size = self.size();
        let receive = |rank: usize| {
            let pending: Vec<usize> = (rank..size).filter(|other| *other != self.rank()).collect();
            let is_other = rank != self.rank();
            is_other.then(|| self.receive_one_of(rank, &pending, count, self.end)).transpose()
        };
        (0..size).map(receive).collect()
    }

    /// The messages of all ranks, each of so many bytes, in the order of ranks; `own` stands for that of this rank.
    pub(super) fn receive_from_all(&self, own: &Tensor, count: usize) -> Result<Vec<Tensor>> {
        let others = self.receive_from_others(count)?;
        Ok(others.into_iter().map(|part| part.unwrap_or_else(|| own.clone())).collect())
    }

    /// Replaces the elements of this rank by the reduction of the messages of all ranks.
    pub(super) fn reduce(&self, own: &mut [u8], dtype: ScalarType, op: ReduceOp) -> Result<()> {
        let parts = self.receive_from_others(own.len())?;
        if slices::reduce(own, &parts, dtype, op)? {
            return Ok(());
        }
        let copy = copied(own)?;
        let parts = parts.into_iter().map(|part| elements(&part.unwrap_or_else(|| copy.clone()), dtype));
        let result = op.reduce(parts.collect::<Result<_>>()?)?;
        with_bytes(&result, |result| {
            own.copy_from_slice(result);
            Ok(())
        })
    }

    /// Whether the engine moves its tensors from device to device.
    pub(super) fn is_on_device(&self) -> bool {
        self.on_device.is_some()
    }

    /// Moves tensors from and to the devices of other ranks, all at once. Those without elements are left out.
    pub(super) fn exchange(&self, sends: &[Message], receives: &[Message]) -> Result<()> {
        let with_elements = |messages: &[Message]| {
            messages.iter().filter(|(_, tensor)| tensor.numel() > 0).cloned().collect::<Vec<_>>()
        };
        let (sends, receives) = (with_elements(sends), with_elements(receives));
        if sends.is_empty() && receives.is_empty() {
            return Ok(());
        }
        let peers: Vec<usize> = sends.iter().chain(&receives).map(|(peer, _)| *peer).collect();
        let mut communicator = self.core.communicator.lock();
        if communicator.is_none() {
            *communicator = Some(self.join()?);
        }
        let ended = Cell::new(None);
        match &mut *communicator {
            Some((device, communicator)) if Some(*device) == self.on_device => {
                communicator.exchange(&sends, &receives, &|| self.check_peers(&peers, &ended))
            }
            other => bail!(
                Device,
                "expected tensors on {:?}, on which the group's calls before were, but got {:?}",
                other.as_ref().map(|(device, _)| device.to_string()),
                self.on_device.map(|device| device.to_string())
            ),
        }
    }

    /// Joins the ranks of the group, with the device of this call.
    fn join(&self) -> Result<(Device, Box<dyn Communicator>)> {
        let (transport, device) = (&self.core.transport, self.on_device.unwrap_or(Device::CPU));
        let members = Members {
            store: &*transport.store,
            name: &self.core.id.to_string(),
            rank: self.rank(),
            size: self.size(),
            device,
            timeout: self.core.options.timeout,
        };
        Ok((device, transport.communicator(&members)?))
    }

    /// Whether waiting for ranks has a purpose: the group is whole, they are there, and the time has not passed. What a rank sent before it
    /// ended may still arrive.
    fn check_peers(&self, peers: &[usize], ended: &Cell<Option<Instant>>) -> Result<()> {
        self.core.ensure_whole(&self.signature.operation)?;
        let now = Instant::now();
        if let Some(reason) =
            peers.iter().find_map(|peer| self.core.transport.mailbox.reason(self.name(*peer)))
        {
            let first = ended.get().unwrap_or(now);
            ended.set(Some(first));
            if now.duration_since(first) > GRACE {
                return Err(Error::new(ErrorKind::Io, reason));
            }
        }
        let timeout = self.core.options.timeout;
        ensure!(
            self.end.is_none_or(|end| now < end),
            Io,
            "timeout: after {timeout:?} the messages from and to ranks {peers:?} have not ended"
        );
        Ok(())
    }

    /// Sends the signature to all ranks, and compares it with theirs.
    fn compare_signatures(&self) -> Result<()> {
        self.peers().try_for_each(|peer| self.send(peer, &[]))?;
        self.receive_from_others(0).map(drop)
    }
}
