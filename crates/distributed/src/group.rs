//! Process groups: collectives and messages, which run in the background in the order in which they were called. PyTorch's
//! `ProcessGroup`.

mod call;
mod collectives;
mod interface;
mod messages;
mod on_device;
mod queue;

use crate::bytes;
use crate::engine::{self, FaultInjection, SendHook, Setup};
use crate::rendezvous::Environment;
use crate::simulate::Network;
use crate::store::{HashStore, PrefixStore, Store};
use crate::transport::{Communicator, Signature, Transport};
use crate::work::Work;
use call::Call;
use flambeau_core::{Device, Error, ErrorKind, Result, ScalarType, bail, ensure};
use flambeau_ops::Tensor;
use parking_lot::Mutex;
use queue::Queue;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a call may take by default. PyTorch's 30 minutes.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// How a group is made.
#[derive(Clone)]
pub struct ProcessGroupOptions {
    /// The name of the engine that moves messages: `tcp`, `mpi`, `nccl` (with the feature `cuda`), or one that [`register_engine`](crate::engine::register_engine) has added.
    pub engine: String,
    /// How long a call may take, from the time when the calls before it have ended.
    pub timeout: Duration,
    /// The address of this process, by which the others reach it.
    pub host: IpAddr,
    /// Whether each collective compares its signature with those of all ranks before it begins. Errors are found without that too, but
    /// in calls that exchange no elements between two ranks only by the timeout.
    pub debug: bool,
    /// A slower network than there is, for tests and measurements: each message is delayed by it.
    pub network: Option<Network>,
    /// A function that is called before each message to another rank, on the thread that sends it: tests inject faults by it.
    pub before_send: Option<SendHook>,
}

impl Default for ProcessGroupOptions {
    /// The timeout is PyTorch's. The variable `FLAMBEAU_DISTRIBUTED_ENGINE` names the engine, by default `tcp`, and
    /// `FLAMBEAU_DISTRIBUTED_DEBUG` switches `debug` on.
    fn default() -> Self {
        ProcessGroupOptions {
            engine: std::env::var("FLAMBEAU_DISTRIBUTED_ENGINE").unwrap_or_else(|_| "tcp".to_owned()),
            timeout: DEFAULT_TIMEOUT,
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            debug: std::env::var_os("FLAMBEAU_DISTRIBUTED_DEBUG")
                .is_some_and(|value| value != "0" && value != "OFF"),
            network: None,
            before_send: None,
        }
    }
}

impl fmt::Debug for ProcessGroupOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessGroupOptions")
            .field("engine", &self.engine)
            .field("timeout", &self.timeout)
            .field("host", &self.host)
            .field("debug", &self.debug)
            .field("network", &self.network)
            .finish_non_exhaustive()
    }
}

/// Ranks that call collectives together. All of them call the same ones in the same order.
///
/// The calls return at once, and their tensors have the results after [`Work::wait`]. When the last handle is dropped, it waits for the
/// calls that are still running.
#[derive(Clone)]
pub struct ProcessGroup(Arc<Owner>);

struct Owner {
    core: Arc<Core>,
    collectives: Queue,
    /// Messages to single ranks, which must not wait behind a collective.
    sends: Queue,
    receives: AtomicU64,
}

/// What calls need while they run.
struct Core {
    transport: Arc<Transport>,
    id: u64,
    /// The number of this process in the group.
    rank: usize,
    /// Which processes the group has, by their numbers in the whole job.
    ranks: Vec<usize>,
    options: ProcessGroupOptions,
    /// What moves tensors of a device, from the first collective of such tensors on.
    communicator: Mutex<Option<(Device, Box<dyn Communicator>)>>,
}

/// What the tensors of a call have in common.
struct Kind {
    dtype: ScalarType,
    sizes: Vec<i64>,
    device: Device,
}

impl Kind {
    fn of(tensor: &Tensor) -> Self {
        Kind { dtype: tensor.dtype(), sizes: tensor.sizes().to_vec(), device: tensor.device() }
    }
}

impl Core {
    /// Breaks the group, here and on the other ranks.
    fn fail(&self, e: &Error) {
        let rank = self.ranks[self.rank];
        let message = e.message();
        self.transport.mailbox.break_group(self.id, message.to_owned());
        let others: Vec<usize> = self.ranks.iter().copied().filter(|other| *other != rank).collect();
        self.transport.abort(self.id, &others, &format!("rank {rank} reports an error: {message}"));
    }

    /// Refuses calls of a group that is broken.
    fn ensure_whole(&self, operation: &str) -> Result<()> {
        match self.transport.mailbox.broken(self.id) {
            None => Ok(()),
            Some(reason) => Err(Error::new(
                ErrorKind::Io,
                format!("{operation}: the process group is broken since an earlier call failed: {reason}"),
            )),
        }
    }
}

impl ProcessGroup {
    /// The group of all `size` processes that use the store. Each calls this once, with its own rank.
    ///
    /// # Errors
    /// `Io` naming the ranks that did not arrive in time, `InvalidArgument` where two processes have the same rank.
    pub fn new(
        store: Arc<dyn Store>,
        rank: usize,
        size: usize,
        options: ProcessGroupOptions,
    ) -> Result<Self> {
        let connect = |store: &dyn Store, inbox| {
            let setup = Setup { store, rank, size, host: options.host, timeout: options.timeout, inbox };
            let engine = engine::connect(&options.engine, &setup)?;
            Ok(FaultInjection::around(engine, options.network, options.before_send.clone()))
        };
        let transport = Transport::new(store, rank, size, connect)?;
        let id = transport.next_group();
        Self::of(Core {
            transport,
            id,
            rank,
            ranks: (0..size).collect(),
            options,
            communicator: Mutex::default(),
        })
    }

    /// The group of all processes that a launcher started, by the variables of [`Environment`]. With the engine `mpi` the library of MPI
    /// says which rank this is.
    ///
    /// # Errors
    /// `InvalidArgument` naming a variable that is missing, and those of [`new`](Self::new).
    pub fn from_env() -> Result<Self> {
        Self::with_options(ProcessGroupOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env).
    pub fn with_options(mut options: ProcessGroupOptions) -> Result<Self> {
        if options.engine != engine::MPI {
            return Self::from_environment(&Environment::from_env()?, options);
        }
        let world = engine::World::join()?;
        let store = world.store(options.timeout)?;
        options.host = store.local_address()?;
        Self::new(Arc::new(store), world.rank, world.size, options)
    }

    /// The same with options, and an environment that was read before.
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env).
    pub fn from_environment(environment: &Environment, mut options: ProcessGroupOptions) -> Result<Self> {
        let store = environment.store(options.timeout)?;
        options.host = store.local_address()?;
        let prefix = format!("default/{}", environment.restarts);
        let store = PrefixStore::new(prefix, Arc::new(store));
        Self::new(Arc::new(store), environment.rank, environment.world_size, options)
    }

    /// A group of this process alone, for programs that no launcher started.
    ///
    /// # Errors
    /// `Io` where no thread can be started.
    pub fn single() -> Result<Self> {
        Self::new(Arc::new(HashStore::default()), 0, 1, ProcessGroupOptions::default())
    }

    fn of(core: Core) -> Result<Self> {
        let core = Arc::new(core);
        let collectives = Queue::start("collectives", &core)?;
        let sends = Queue::start("sends", &core)?;
        Ok(ProcessGroup(Arc::new(Owner { core, collectives, sends, receives: AtomicU64::new(0) })))
    }

    /// A group of some of the ranks of this one, which are in ascending order in it. All ranks of this group call it, in the same order,
    /// also those that the new group does not have, which get `None`.
    ///
    /// # Errors
    /// `InvalidArgument` for ranks out of range or given twice, and where the ranks called it with different lists.
    pub fn new_group(&self, ranks: &[usize]) -> Result<Option<Self>> {
        let core = &self.0.core;
        let mut members = Vec::new();
        for rank in ranks {
            let Some(global) = core.ranks.get(*rank) else {
                bail!(
                    InvalidArgument("new_group", "ranks"),
                    "expected ranks below {} but got {rank}",
                    core.ranks.len()
                );
            };
            members.push(*global);
        }
        members.sort_unstable();
        members.dedup();
        ensure!(
            members.len() == ranks.len() && !members.is_empty(),
            InvalidArgument("new_group", "ranks"),
            "expected ranks that differ, at least one, but got {ranks:?}"
        );
        let id = core.transport.next_group();
        self.agree(id, &members)?;
        let Some(rank) = members.iter().position(|member| *member == core.transport.rank) else {
            return Ok(None);
        };
        let (transport, options) = (core.transport.clone(), core.options.clone());
        let communicator = Mutex::default();
        Self::of(Core { transport, id, rank, ranks: members, options, communicator }).map(Some)
    }

    /// Compares the ranks of a new group with those that the other processes gave.
    fn agree(&self, id: u64, members: &[usize]) -> Result<()> {
        let mine = format!("{members:?}");
        let first = self.0.core.transport.store.compare_set(&format!("group/{id}"), b"", mine.as_bytes())?;
        ensure!(
            first == mine.as_bytes(),
            InvalidArgument("new_group", "ranks"),
            "expected the same ranks on all processes, which create groups in the same order, but this one gave {mine} and another {}",
            String::from_utf8_lossy(&first)
        );
        Ok(())
    }

    /// The number of this process in the group.
    pub fn rank(&self) -> usize {
        self.0.core.rank
    }

    /// How many processes the group has.
    pub fn size(&self) -> usize {
        self.0.core.ranks.len()
    }

    /// The processes of the group by their numbers in the whole job.
    pub fn ranks(&self) -> &[usize] {
        &self.0.core.ranks
    }

    /// The name of the engine that moves messages.
    pub fn engine(&self) -> &str {
        self.0.core.transport.engine()
    }

    /// How long a call may take.
    pub fn timeout(&self) -> Duration {
        self.0.core.options.timeout
    }

    /// The store by which the processes found each other.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.core.transport.store
    }

    /// Breaks the group: calls that run fail on all ranks, and so do later ones.
    pub fn abort(&self, reason: &str) {
        self.0.core.fail(&Error::new(ErrorKind::Io, format!("aborted: {reason}")));
    }

    /// Waits for all calls and ends the threads of the group. Later calls are errors.
    pub fn shutdown(&self) {
        self.0.collectives.finish();
        self.0.sends.finish();
    }

    fn check_rank(&self, operation: &str, argument: &str, rank: usize) -> Result<()> {
        ensure!(
            rank < self.size(),
            InvalidArgument(operation, argument),
            "expected a rank below {} but got {rank}",
            self.size()
        );
        Ok(())
    }

    /// Starts a collective.
    fn start(
        &self,
        operation: &str,
        kind: Kind,
        mut detail: String,
        body: impl FnOnce(&Call<'_>) -> Result<()> + Send + 'static,
    ) -> Result<Work> {
        let core = &self.0.core;
        core.ensure_whole(operation)?;
        let operation = operation.to_owned();
        let Kind { dtype, sizes, device } = kind;
        let on_device = core.transport.moves(device).then_some(device);
        if on_device.is_some() {
            // A rank with tensors elsewhere makes another call.
            let separator = if detail.is_empty() { "" } else { ", " };
            detail = format!("{detail}{separator}on {}", device.device_type().name());
        }
        self.0.collectives.push(move |sequence| {
            let signature = Signature { group: core.id, sequence, operation, dtype, sizes, detail };
            let work = Work::new(signature.to_string());
            let done = work.clone();
            let job = move |core: &Core| {
                let call = Call::new(core, signature, on_device);
                let outcome = call.run(body);
                if let Err(e) = &outcome {
                    core.fail(e);
                }
                done.complete(outcome.map(|()| None));
            };
            (Box::new(job), work)
        })
    }
}

/// Checks of arguments.
impl ProcessGroup {
    fn check_count(&self, operation: &str, argument: &str, list: &[Tensor]) -> Result<()> {
        ensure!(
            list.len() == self.size(),
            InvalidArgument(operation, argument),
            "expected {} tensors, one for each rank, but got {}",
            self.size(),
            list.len()
        );
        Ok(())
    }

    /// One tensor like `one` for each rank.
    fn check_list(&self, operation: &str, argument: &str, list: &[Tensor], one: &Tensor) -> Result<()> {
        bytes::check(operation, argument, one)?;
        self.check_count(operation, argument, list)?;
        for tensor in list {
            bytes::check(operation, argument, tensor)?;
            ensure!(
                tensor.dtype() == one.dtype() && tensor.sizes() == one.sizes(),
                Shape(operation, argument),
                "expected tensors of {} {:?} but got one of {} {:?}",
                one.dtype(),
                one.sizes(),
                tensor.dtype(),
                tensor.sizes()
            );
            check_device(operation, argument, tensor, one.device())?;
        }
        Ok(())
    }

    /// The same on one rank, and no tensor on the others.
    fn check_rooted(
        &self,
        operation: &str,
        argument: &str,
        list: &[Tensor],
        one: &Tensor,
        root: usize,
    ) -> Result<()> {
        if self.rank() == root {
            return self.check_list(operation, argument, list, one);
        }
        bytes::check(operation, argument, one)?;
        ensure!(
            list.is_empty(),
            InvalidArgument(operation, argument),
            "expected no tensors on rank {}, since rank {root} has them, but got {}",
            self.rank(),
            list.len()
        );
        Ok(())
    }

    /// The part of each rank in a tensor that has the elements of `one` for each rank.
    fn split(&self, operation: &str, argument: &str, whole: &Tensor, one: &Tensor) -> Result<Vec<Tensor>> {
        let (size, count) = (self.size() as i64, one.numel());
        ensure!(
            whole.is_contiguous() && Some(whole.numel()) == count.checked_mul(size),
            Shape(operation, argument),
            "expected a contiguous tensor of {size} times {count} elements but got sizes {:?} with strides {:?}",
            whole.sizes(),
            whole.strides()
        );
        let whole = flat(whole)?;
        (0..size).map(|rank| whole.narrow(0, rank * count, count)).collect()
    }
}

fn check_device(operation: &str, argument: &str, tensor: &Tensor, device: Device) -> Result<()> {
    ensure!(
        tensor.device() == device,
        Device(operation, argument),
        "expected tensors on one device but got {device} and {}",
        tensor.device()
    );
    Ok(())
}

/// All elements in one dimension, without history.
fn flat(tensor: &Tensor) -> Result<Tensor> {
    let tensor = tensor.detach()?;
    match tensor.is_contiguous() {
        true => tensor.view(&[tensor.numel()]),
        false => bail!(Shape, "expected a contiguous tensor but got strides {:?}", tensor.strides()),
    }
}

/// Messages between two ranks.
impl ProcessGroup {
    /// Sends a tensor to rank `dst`, which receives it with the same tag.
    ///
    /// # Errors
    /// `InvalidArgument` for a rank out of range or this rank itself.
    pub fn send(&self, tensor: &Tensor, dst: usize, tag: i64) -> Result<Work> {
        bytes::check("send", "tensor", tensor)?;
        self.check_rank("send", "dst", dst)?;
        ensure!(
            dst != self.rank(),
            InvalidArgument("send", "dst"),
            "expected another rank but got {dst}, this one"
        );
        self.0.core.ensure_whole("send")?;
        let tensor = tensor.clone();
        self.0.sends.push(|sequence| {
            let work = Work::new(format!("send to rank {dst} with tag {tag}"));
            let done = work.clone();
            let job = move |core: &Core| {
                done.complete(messages::send(core, &tensor, dst, tag, sequence).map(|()| None))
            };
            (Box::new(job), work)
        })
    }

    /// Receives a tensor from rank `src`, or from any rank without one; [`Work::source_rank`] says which it was.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn recv(&self, tensor: &Tensor, src: Option<usize>, tag: i64) -> Result<Work> {
        bytes::check("recv", "tensor", tensor)?;
        if let Some(src) = src {
            self.check_rank("recv", "src", src)?;
            ensure!(
                src != self.rank(),
                InvalidArgument("recv", "src"),
                "expected another rank but got {src}, this one"
            );
        }
        self.0.core.ensure_whole("recv")?;
        let id = self.0.receives.fetch_add(1, Ordering::Relaxed);
        Ok(messages::receive(&self.0.core, tensor, src, tag, id))
    }
}
