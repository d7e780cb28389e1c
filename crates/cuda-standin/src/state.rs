//! The driver's objects: devices, modules, streams and events. Work of a stream is queued, and runs when something waits for it.
//!
//! That is as late as a device may be. With a seed other than 0 each wait also runs work of other streams, in an order that is drawn, so
//! that what is not ordered by an event happens in many orders.

use crate::exec::{self, Environment, Launch, RegisterFile};
use crate::fault::{Fault, Status};
use crate::instruction::Program;
#[cfg(target_os = "linux")]
use crate::link::{Link, Part};
use crate::memory::Memory;
use crate::product::Product;
use crate::ptx;
use crate::settings::{Order, Settings};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

mod captures;

use captures::{Capture, Graphs};

/// Numbers of streams, events, modules and functions, which are the handles that programs get.
pub(crate) type Handle = u64;

/// The answer to a call.
pub(crate) type Answer<T> = Result<T, Status>;

/// Work that a stream may hold before it is run.
const MAX_QUEUED: usize = 1024;

/// One device.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) memory: Memory,
    /// What a kernel did wrong; every later call on the device fails with it.
    fault: Option<Status>,
    /// The stream of calls that name none.
    pub(crate) legacy: Handle,
}

/// A loaded module.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) device: usize,
    program: Program,
    /// Registers of warps, from one launch to the next.
    files: Mutex<Vec<RegisterFile>>,
    /// Addresses and sizes of its variables, by name.
    pub(crate) variables: HashMap<String, (u64, u64)>,
}

/// A kernel of a module.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) module: Arc<Module>,
    pub(crate) kernel: usize,
}

impl Function {
    /// Offsets and sizes of the parameters.
    pub(crate) fn parameters(&self) -> Vec<(usize, usize)> {
        let kernel = self.module.program.kernels.get(self.kernel);
        let all = kernel.map(|kernel| kernel.parameters.as_slice()).unwrap_or_default();
        all.iter().map(|parameter| (parameter.offset as usize, parameter.bytes as usize)).collect()
    }

    pub(crate) fn parameter_bytes(&self) -> usize {
        self.module.program.kernels.get(self.kernel).map_or(0, |kernel| kernel.parameter_bytes as usize)
    }

    pub(crate) fn max_threads(&self) -> u32 {
        let kernel = self.module.program.kernels.get(self.kernel);
        kernel.and_then(|kernel| kernel.max_threads).unwrap_or(exec::MAX_THREADS)
    }

    /// Whether a device can run a launch.
    pub(crate) fn check(&self, launch: &Launch) -> Result<(), Fault> {
        let program = &self.module.program;
        program.kernels.get(self.kernel).map_or(Ok(()), |kernel| launch.check(program, kernel))
    }

    pub(crate) fn shared_bytes(&self) -> u32 {
        self.module.program.shared_bytes
    }
}

/// Bytes of the host that are copied when the work runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostRange {
    pub(crate) address: usize,
    pub(crate) bytes: usize,
}

/// Work in a stream.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Launch {
        function: Function,
        launch: Launch,
    },
    /// Bytes that were read at the call.
    Write {
        to: u64,
        content: Vec<u8>,
    },
    /// Bytes of pinned memory, which are read when the work runs.
    CopyIn {
        to: u64,
        from: HostRange,
    },
    CopyOut {
        from: u64,
        to: HostRange,
    },
    Copy {
        from: (usize, u64),
        to: u64,
        bytes: u64,
    },
    /// A value of 1, 2 or 4 bytes, so many times.
    Fill {
        to: u64,
        value: u32,
        width: usize,
        count: u64,
    },
    Free {
        address: u64,
    },
    Product(Box<Product>),
    /// Messages to other processes.
    #[cfg(target_os = "linux")]
    Send {
        link: Arc<Link>,
        parts: Vec<Part>,
    },
    /// Messages of other processes, for which the device waits.
    #[cfg(target_os = "linux")]
    Receive {
        link: Arc<Link>,
        parts: Vec<Part>,
    },
    Record {
        event: Handle,
        ticket: u64,
    },
    Wait {
        event: Handle,
        ticket: u64,
    },
}

#[derive(Debug)]
struct Stream {
    device: usize,
    queue: VecDeque<Work>,
    /// What is recorded instead of run.
    capture: Option<Capture>,
}

#[derive(Debug, Default)]
struct Event {
    /// The number of its last record, and of the last that was reached; 0 for none.
    recorded: u64,
    passed: u64,
    time: Option<Instant>,
    /// The program has given it back. It exists until its last record is reached, since work may wait for that.
    is_destroyed: bool,
}

/// What a wait waits for.
#[derive(Clone, Copy, Debug)]
enum Goal {
    Stream(Handle),
    Event(Handle, u64),
}

/// All objects of the process.
#[derive(Debug)]
pub(crate) struct State {
    settings: Settings,
    order: Order,
    pub(crate) devices: Vec<Device>,
    modules: BTreeMap<Handle, Arc<Module>>,
    functions: BTreeMap<Handle, Function>,
    streams: BTreeMap<Handle, Stream>,
    events: BTreeMap<Handle, Event>,
    graphs: Graphs,
    /// Pinned memory: address and bytes.
    pub(crate) pinned: BTreeMap<usize, usize>,
    next_handle: Handle,
    next_ticket: u64,
}

impl State {
    pub(crate) fn new(settings: Settings) -> Self {
        let mut state = State {
            order: Order::new(settings.seed),
            devices: Vec::new(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            graphs: Graphs::default(),
            pinned: BTreeMap::new(),
            next_handle: 0x1_0000,
            next_ticket: 1,
            settings,
        };
        for device in 0..state.settings.devices.max(0) as usize {
            let legacy = state.create_stream(device);
            let memory = Memory::new(state.settings.memory, device as u64);
            state.devices.push(Device { memory, fault: None, legacy });
        }
        state
    }

    fn handle(&mut self) -> Handle {
        self.next_handle += 16;
        self.next_handle
    }

    /// A device, unless a kernel has done something wrong on it.
    pub(crate) fn device(&mut self, index: usize) -> Answer<&mut Device> {
        let device = self.devices.get_mut(index).ok_or(Status::ERROR_INVALID_DEVICE)?;
        device.fault.map_or(Ok(device), Err)
    }

    /// How many streams, modules, events and graphs there are that the program has not given back.
    pub(crate) fn objects(&self) -> usize {
        let events = self.events.values().filter(|event| !event.is_destroyed);
        self.streams.len() + self.modules.len() + events.count() + self.graphs.count()
    }

    // ---- modules

    /// Decodes a program, and gives its variables memory.
    pub(crate) fn load(&mut self, device: usize, source: &str) -> Answer<Handle> {
        let memory = &mut self.device(device)?.memory;
        let mut variables = HashMap::new();
        let mut allocate = |variable: &ptx::GlobalVariable| {
            let bytes = variable.content.len() as u64;
            let address = memory.allocate(bytes).ok_or("no memory for a variable")?;
            let target = memory.bytes_mut(address, bytes).map_err(|fault| fault.text)?;
            target.copy_from_slice(&variable.content);
            variables.insert(variable.name.clone(), (address, bytes));
            Ok(address)
        };
        let program = ptx::parse(source, &mut allocate);
        let program = match program {
            Ok(program) => program,
            Err(text) => {
                variables.values().for_each(|(address, _)| _ = memory.free(*address));
                return Err(report(&Fault::new(Status::ERROR_INVALID_PTX, text)));
            }
        };
        let handle = self.handle();
        self.modules.insert(handle, Arc::new(Module { device, program, files: Mutex::default(), variables }));
        Ok(handle)
    }

    pub(crate) fn module(&self, module: Handle) -> Answer<&Arc<Module>> {
        self.modules.get(&module).ok_or(Status::ERROR_INVALID_HANDLE)
    }

    pub(crate) fn unload(&mut self, module: Handle) -> Answer<()> {
        let module = self.modules.remove(&module).ok_or(Status::ERROR_INVALID_HANDLE)?;
        self.synchronize_device(module.device)?;
        self.functions.retain(|_, function| !Arc::ptr_eq(&function.module, &module));
        let memory = &mut self.device(module.device)?.memory;
        for (address, _) in module.variables.values() {
            memory.free(*address).map_err(|fault| report(&fault))?;
        }
        Ok(())
    }

    pub(crate) fn find_function(&mut self, module: Handle, name: &str) -> Answer<Handle> {
        let module = Arc::clone(self.module(module)?);
        let position = module.program.kernels.iter().position(|kernel| kernel.name == name);
        let kernel = position.ok_or(Status::ERROR_NOT_FOUND)?;
        let handle = self.handle();
        self.functions.insert(handle, Function { module, kernel });
        Ok(handle)
    }

    pub(crate) fn function(&self, function: Handle) -> Answer<&Function> {
        self.functions.get(&function).ok_or(Status::ERROR_INVALID_HANDLE)
    }

    // ---- streams and events

    pub(crate) fn create_stream(&mut self, device: usize) -> Handle {
        let handle = self.handle();
        self.streams.insert(handle, Stream { device, queue: VecDeque::new(), capture: None });
        handle
    }

    /// The stream ends when its work has, and with it what it captures.
    pub(crate) fn destroy_stream(&mut self, stream: Handle) -> Answer<()> {
        self.abandon_capture(stream);
        self.synchronize_stream(stream)?;
        self.streams.remove(&stream);
        Ok(())
    }

    pub(crate) fn stream_device(&self, stream: Handle) -> Answer<usize> {
        self.streams.get(&stream).map(|stream| stream.device).ok_or(Status::ERROR_INVALID_HANDLE)
    }

    pub(crate) fn is_idle(&self, stream: Handle) -> Answer<bool> {
        self.streams.get(&stream).map(|stream| stream.queue.is_empty()).ok_or(Status::ERROR_INVALID_HANDLE)
    }

    pub(crate) fn create_event(&mut self) -> Handle {
        let handle = self.handle();
        self.events.insert(handle, Event::default());
        handle
    }

    /// An event that the program may use.
    fn event(&self, event: Handle) -> Answer<&Event> {
        self.events.get(&event).filter(|event| !event.is_destroyed).ok_or(Status::ERROR_INVALID_HANDLE)
    }

    pub(crate) fn destroy_event(&mut self, event: Handle) -> Answer<()> {
        self.event(event)?;
        if let Some(destroyed) = self.events.get_mut(&event) {
            destroyed.is_destroyed = true;
        }
        self.forget_if_done(event);
        Ok(())
    }

    /// Forgets an event that the program has given back, and that nothing waits for any more.
    fn forget_if_done(&mut self, event: Handle) {
        if self.events.get(&event).is_some_and(|event| event.is_destroyed && event.passed >= event.recorded) {
            self.events.remove(&event);
        }
    }

    pub(crate) fn record(&mut self, event: Handle, stream: Handle) -> Answer<()> {
        let ticket = self.next_ticket;
        self.event(event)?;
        self.refuse_in_capture(stream)?;
        let recorded = self.events.get_mut(&event).ok_or(Status::ERROR_INVALID_HANDLE)?;
        recorded.recorded = ticket;
        self.next_ticket += 1;
        self.submit(stream, Work::Record { event, ticket })
    }

    /// Has a stream wait for what an event was recorded after; an event that was not recorded is no reason to wait.
    pub(crate) fn wait_event(&mut self, stream: Handle, event: Handle) -> Answer<()> {
        let ticket = self.event(event)?.recorded;
        self.submit(stream, Work::Wait { event, ticket })
    }

    pub(crate) fn has_passed(&self, event: Handle) -> Answer<bool> {
        let event = self.event(event)?;
        Ok(event.passed >= event.recorded)
    }

    pub(crate) fn milliseconds(&self, start: Handle, end: Handle) -> Answer<f32> {
        let time = |event| self.event(event).map(|event| event.time);
        match (time(start)?, time(end)?) {
            (Some(start), Some(end)) => Ok(end.saturating_duration_since(start).as_secs_f32() * 1e3),
            _ => Err(Status::ERROR_NOT_READY),
        }
    }

    /// Puts work into a stream. Work in the stream of calls that name none waits for all other streams of its device, and they for it.
    pub(crate) fn submit(&mut self, stream: Handle, work: Work) -> Answer<()> {
        let device = self.stream_device(stream)?;
        self.device(device)?;
        if self.is_capturing(stream) {
            return self.record_in_capture(stream, work);
        }
        let is_legacy = self.devices[device].legacy == stream;
        if is_legacy {
            self.synchronize_device(device)?;
        }
        let queue = &mut self.streams.get_mut(&stream).ok_or(Status::ERROR_INVALID_HANDLE)?.queue;
        queue.push_back(work);
        if is_legacy || queue.len() > MAX_QUEUED {
            self.run(Goal::Stream(stream))?;
        }
        Ok(())
    }

    // ---- waits

    pub(crate) fn synchronize_stream(&mut self, stream: Handle) -> Answer<()> {
        let device = self.stream_device(stream)?;
        self.refuse_in_capture(stream)?;
        self.run(Goal::Stream(stream))?;
        self.device(device).map(drop)
    }

    pub(crate) fn synchronize_event(&mut self, event: Handle) -> Answer<()> {
        let ticket = self.event(event)?.recorded;
        self.run(Goal::Event(event, ticket))
    }

    pub(crate) fn synchronize_device(&mut self, device: usize) -> Answer<()> {
        let of_device = |(handle, stream): (&Handle, &Stream)| (stream.device == device).then_some(*handle);
        let mut streams: Vec<Handle> = self.streams.iter().filter_map(of_device).collect();
        while !streams.is_empty() {
            let at = self.order.below(streams.len() as u64) as usize;
            self.run(Goal::Stream(streams.swap_remove(at)))?;
        }
        self.device(device).map(drop)
    }

    /// Does one piece of work of a stream, so that a program that polls proceeds.
    pub(crate) fn poll(&mut self, stream: Handle) -> Answer<()> {
        self.refuse_in_capture(stream)?;
        self.poll_goal(Goal::Stream(stream))
    }

    fn poll_goal(&mut self, goal: Goal) -> Answer<()> {
        match self.needed(goal) {
            Some(stream) if !self.waits_for_others(stream) => self.run_front(stream),
            _ => Ok(()),
        }
    }

    /// Whether the first work of a stream waits for another process.
    fn waits_for_others(&self, stream: Handle) -> bool {
        match self.streams.get(&stream).and_then(|stream| stream.queue.front()) {
            #[cfg(target_os = "linux")]
            Some(Work::Receive { link, parts }) => !link.is_ready(parts),
            _ => false,
        }
    }

    /// As [`poll`](Self::poll), towards an event.
    pub(crate) fn poll_event(&mut self, event: Handle) -> Answer<()> {
        let ticket = self.event(event)?.recorded;
        self.poll_goal(Goal::Event(event, ticket))
    }

    fn is_blocked(&self, stream: &Stream) -> Option<(Handle, u64)> {
        match stream.queue.front() {
            Some(Work::Wait { event, ticket }) => {
                let passed = self.events.get(event).is_none_or(|event| event.passed >= *ticket);
                (!passed).then_some((*event, *ticket))
            }
            _ => None,
        }
    }

    /// The stream whose first work has to run for a goal; `None` if the goal is reached.
    fn needed(&self, goal: Goal) -> Option<Handle> {
        let mut goal = goal;
        loop {
            let handle = match goal {
                Goal::Stream(handle) => handle,
                Goal::Event(event, ticket) => {
                    if self.events.get(&event).is_none_or(|event| event.passed >= ticket) {
                        return None;
                    }
                    let records = |work: &Work| matches!(work, Work::Record { event: e, ticket: t } if (*e, *t) == (event, ticket));
                    let found = self.streams.iter().find(|(_, stream)| stream.queue.iter().any(records));
                    *found?.0
                }
            };
            let stream = self.streams.get(&handle).filter(|stream| !stream.queue.is_empty())?;
            match self.is_blocked(stream) {
                Some((event, ticket)) => goal = Goal::Event(event, ticket),
                None => return Some(handle),
            }
        }
    }

    /// Runs work until a goal is reached: only what it needs, or, if an order is drawn, other work in between.
    fn run(&mut self, goal: Goal) -> Answer<()> {
        while let Some(needed) = self.needed(goal) {
            let mut next = needed;
            if self.order.is_drawn {
                let can_run = |(handle, stream): &(&Handle, &Stream)| {
                    !stream.queue.is_empty()
                        && self.is_blocked(stream).is_none()
                        && !self.waits_for_others(**handle)
                };
                let ready: Vec<Handle> =
                    self.streams.iter().filter(can_run).map(|(handle, _)| *handle).collect();
                let at = self.order.below(ready.len() as u64) as usize;
                next = ready.get(at).copied().unwrap_or(needed);
            }
            self.run_front(next)?;
        }
        Ok(())
    }

    /// Runs the first work of a stream. After a fault the device does no more.
    fn run_front(&mut self, stream: Handle) -> Answer<()> {
        let Some(stream) = self.streams.get_mut(&stream) else { return Ok(()) };
        let device = stream.device;
        let Some(work) = stream.queue.pop_front() else { return Ok(()) };
        let is_broken = self.devices.get(device).is_some_and(|device| device.fault.is_some());
        match work {
            Work::Record { event, ticket } => {
                if let Some(recorded) = self.events.get_mut(&event) {
                    (recorded.passed, recorded.time) = (recorded.passed.max(ticket), Some(Instant::now()));
                }
                self.forget_if_done(event);
            }
            Work::Wait { .. } => {}
            _ if is_broken => {}
            work => {
                if let Err(fault) = self.perform(device, work) {
                    let status = report(&fault);
                    self.devices[device].fault = Some(status);
                    return Err(status);
                }
            }
        }
        Ok(())
    }

    fn perform(&mut self, device: usize, work: Work) -> Result<(), Fault> {
        if let Work::Copy { from: (source, from), to, bytes } = work {
            let content = self.devices[source].memory.bytes(from, bytes)?.to_vec();
            self.devices[device].memory.bytes_mut(to, bytes)?.copy_from_slice(&content);
            return Ok(());
        }
        let memory = &mut self.devices[device].memory;
        match work {
            Work::Launch { function, launch } => {
                let program = &function.module.program;
                let mut files = function.module.files.lock().unwrap_or_else(PoisonError::into_inner);
                let order = &mut self.order;
                let Settings { races, steps, .. } = self.settings;
                let on = Environment { memory, order, races, steps, files: &mut files };
                exec::run(program, &program.kernels[function.kernel], &launch, on)?;
            }
            Work::Write { to, content } => {
                memory.bytes_mut(to, content.len() as u64)?.copy_from_slice(&content);
            }
            Work::CopyIn { to, from } => from.read(memory.bytes_mut(to, from.bytes as u64)?),
            Work::CopyOut { from, to } => to.write(memory.bytes(from, to.bytes as u64)?),
            Work::Fill { to, value, width, count } => {
                let target = memory.bytes_mut(to, count * width as u64)?;
                let value = &value.to_le_bytes()[..width];
                target.chunks_exact_mut(width).for_each(|element| element.copy_from_slice(value));
            }
            Work::Free { address } => memory.free(address)?,
            Work::Product(product) => product.run(memory)?,
            #[cfg(target_os = "linux")]
            Work::Send { link, parts } => {
                for Part { peer, address, bytes } in parts {
                    link.send(peer, memory.bytes(address, bytes)?.to_vec());
                }
            }
            #[cfg(target_os = "linux")]
            Work::Receive { link, parts } => {
                for Part { peer, address, bytes } in parts {
                    // After an abort, and where the rank has ended, the memory stays as it is.
                    let Some(message) = link.receive(peer) else { return Ok(()) };
                    receive(memory.bytes_mut(address, bytes)?, &message, peer)?;
                }
            }
            Work::Copy { .. } | Work::Record { .. } | Work::Wait { .. } => {}
        }
        Ok(())
    }
}

/// Stores a message, which has to have the length that its receiver gave.
#[cfg(target_os = "linux")]
fn receive(to: &mut [u8], message: &[u8], peer: usize) -> Result<(), Fault> {
    if to.len() != message.len() {
        let text = format!("NCCL: expected {} bytes but rank {peer} sent {}", to.len(), message.len());
        return Err(Fault::new(Status::ERROR_ILLEGAL_ADDRESS, text));
    }
    to.copy_from_slice(message);
    Ok(())
}

/// Tells the developer what went wrong, and gives the status for the program.
pub(crate) fn report(fault: &Fault) -> Status {
    eprintln!("stand-in: {fault}");
    fault.status
}

#[cfg(test)]
mod tests;
