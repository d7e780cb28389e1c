//! A process's state of shared memory: the segments that it has created, those that it has opened, and its storages in both.

#![expect(unsafe_code, reason = "hands chunks out as memory with a deleter")]

use super::mapping::Mapping;
use super::members::{CREATOR, Member, NONE};
use super::message::Message;
use super::records::Layout;
use super::segment::{Segment, chunk_bytes};
use crate::allocator;
use crate::fork::{ForkSafeMutex, Hooks};
use crate::storage::{Storage, WeakStorage};
use crate::{DataPtr, Result, bail, ensure};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, LazyLock, MutexGuard, Weak};
use std::time::{Duration, Instant};

/// The length of the first segment; each further one is as long as all before together, up to [`LARGEST_SEGMENT`].
const FIRST_SEGMENT: usize = 2 << 20;
const LARGEST_SEGMENT: usize = 64 << 20;
/// How many opened segments stay open when no chunk in them is in use, since the next message may be of the same.
const RECENT: usize = 8;
/// The minimum time between two searches for chunks that others have released, while there is room.
const PAUSE: Duration = Duration::from_millis(100);

/// The number of a segment, and that of a record in it.
type Id = (u64, u32);

/// A chunk that this process holds.
struct Held {
    mapping: Arc<Mapping>,
    start: usize,
    nbytes: usize,
    /// How many [`Chunk`]s there are of it: more than one only until it is found that there is a storage already.
    chunks: usize,
    /// Its storage, if there is one yet.
    storage: Option<WeakStorage>,
}

pub(super) struct State {
    process: u32,
    /// The segments that this process has created, in which it allocates.
    created: Vec<Segment>,
    allocated_since_sweep: usize,
    last_sweep: Instant,
    /// Every segment that is mapped here.
    mapped: HashMap<u64, Weak<Mapping>>,
    recent: VecDeque<Arc<Mapping>>,
    held: HashMap<Id, Held>,
    /// The same chunks by their addresses.
    addresses: BTreeMap<usize, Id>,
    /// The segments in which a child that is being forked will hold chunks, with its slots.
    for_child: Vec<(Arc<Mapping>, Option<Member>)>,
}

static STATE: LazyLock<ForkSafeMutex<State>> = LazyLock::new(|| {
    // First, since the allocator's locks are taken while this lock is held.
    allocator::AT_FORK.register();
    AT_FORK.register();
    ForkSafeMutex::new(State::new())
});

static AT_FORK: Hooks = Hooks::new(
    |forking| STATE.hold(forking, State::prepare_child),
    |forking| STATE.release(forking, State::end_fork),
    |forking| STATE.release(forking, State::begin_child),
);

impl State {
    pub(super) fn lock() -> MutexGuard<'static, State> {
        STATE.lock()
    }

    pub(super) fn new() -> Self {
        State {
            process: std::process::id(),
            created: vec![],
            allocated_since_sweep: 0,
            last_sweep: Instant::now(),
            mapped: HashMap::new(),
            recent: VecDeque::new(),
            held: HashMap::new(),
            addresses: BTreeMap::new(),
            for_child: vec![],
        }
    }

    pub(super) fn process(&self) -> u32 {
        self.process
    }

    /// A chunk of `nbytes` bytes.
    pub(super) fn allocate(&mut self, nbytes: usize) -> Result<Chunk> {
        ensure!(nbytes <= isize::MAX as usize / 2, OutOfMemory, "expected fewer than {nbytes} shared bytes");
        self.sweep_now_and_then();
        self.allocated_since_sweep += chunk_bytes(nbytes);
        let (mapping, record) = match self.carve(nbytes) {
            Some(carved) => carved,
            None => self.carve_after_sweep(nbytes)?,
        };
        let Some((start, nbytes)) = mapping.chunk(record) else {
            bail!(Internal, "shared memory: another process has corrupted a segment");
        };
        Ok(self.add((mapping.number, record), mapping, start, nbytes))
    }

    fn carve(&mut self, nbytes: usize) -> Option<(Arc<Mapping>, u32)> {
        let carve = |segment: &mut Segment| Some((segment.mapping.clone(), segment.allocate(nbytes)?));
        self.created.iter_mut().rev().find_map(carve)
    }

    /// Allocates after a sweep, unless the last one was a short while ago, or in a new segment. If that cannot be created, it sweeps in
    /// any case.
    fn carve_after_sweep(&mut self, nbytes: usize) -> Result<(Arc<Mapping>, u32)> {
        if self.allocated_since_sweep >= self.created_bytes() / 2 {
            self.sweep();
            if let Some(carved) = self.carve(nbytes) {
                return Ok(carved);
            }
        }
        if let Err(error) = self.add_segment(nbytes) {
            self.sweep();
            return self.carve(nbytes).ok_or(error);
        }
        match self.carve(nbytes) {
            Some(carved) => Ok(carved),
            None => bail!(Internal, "shared memory: a new segment has no room"),
        }
    }

    fn created_bytes(&self) -> usize {
        self.created.iter().map(Segment::bytes).sum()
    }

    fn add_segment(&mut self, nbytes: usize) -> Result<()> {
        let needed = length_for(chunk_bytes(nbytes));
        let nbytes = self.created_bytes().clamp(FIRST_SEGMENT, LARGEST_SEGMENT).max(needed);
        let segment = match Segment::create(nbytes) {
            Err(_) if nbytes > needed => Segment::create(needed)?,
            made => made?,
        };
        self.register(&segment.mapping);
        self.created.push(segment);
        Ok(())
    }

    /// Frees chunks that are no longer held. Segments without chunks are returned to the system, except for as many bytes as are held.
    fn sweep(&mut self) {
        (self.allocated_since_sweep, self.last_sweep) = (0, Instant::now());
        self.created.iter_mut().for_each(Segment::sweep);
        self.free_unused_segments();
    }

    /// The same at intervals, since no one reports that a process has ended.
    fn sweep_now_and_then(&mut self) {
        if self.created.iter().any(Segment::has_chunks_held_elsewhere) && self.last_sweep.elapsed() >= PAUSE {
            self.sweep();
        }
    }

    fn free_unused_segments(&mut self) {
        let mut allowed = FIRST_SEGMENT + self.created.iter().map(Segment::used_bytes).sum::<usize>();
        self.created.retain(|segment| {
            let keeps = segment.is_used() || segment.bytes() <= allowed;
            if !segment.is_used() && keeps {
                allowed -= segment.bytes();
            }
            keeps
        });
    }

    fn register(&mut self, mapping: &Arc<Mapping>) {
        self.mapped.retain(|_, segment| segment.strong_count() > 0);
        self.mapped.insert(mapping.number, Arc::downgrade(mapping));
    }

    fn created_by_number(&mut self, number: u64) -> Option<&mut Segment> {
        self.created.iter_mut().find(|segment| segment.mapping.number == number)
    }

    /// Adds a chunk that this process has begun to hold.
    fn add(&mut self, id: Id, mapping: Arc<Mapping>, start: usize, nbytes: usize) -> Chunk {
        let chunk = Chunk { id, data: mapping.at(start), nbytes };
        self.addresses.insert(chunk.data.addr(), id);
        self.held.insert(id, Held { mapping, start, nbytes, chunks: 1, storage: None });
        chunk
    }

    /// Records the storage of a chunk.
    pub(super) fn set_storage(&mut self, chunk: &Chunk, storage: &Storage) {
        self.set_storage_of(chunk.id, storage);
    }

    pub(super) fn set_storage_of(&mut self, id: Id, storage: &Storage) {
        if let Some(held) = self.held.get_mut(&id) {
            held.storage = Some(storage.downgrade());
        }
    }

    /// The chunk that a storage owns.
    fn chunk_of(&self, storage: &Storage) -> Option<Id> {
        let id = *self.addresses.get(&storage.data_ptr().addr())?;
        let owner = self.held.get(&id)?.storage.as_ref()?;
        owner.ptr_eq(&storage.downgrade()).then_some(id)
    }

    pub(super) fn is_shared(&self, storage: &Storage) -> bool {
        self.chunk_of(storage).is_some()
    }

    /// A message for a storage, which holds its chunk from now on; `None` if the storage owns none.
    pub(super) fn send(&mut self, storage: &Storage) -> Option<Result<(Message, Arc<Mapping>)>> {
        let id @ (segment, record) = self.chunk_of(storage)?;
        let mapping = self.held.get(&id)?.mapping.clone();
        let message = |ticket| Message {
            segment,
            bytes: mapping.layout.bytes as u64,
            opened: mapping.opened(),
            record,
            ticket,
        };
        Some(match mapping.issue(record).map(message) {
            Some(message) => Ok((message, mapping)),
            None => too_many(&mapping),
        })
    }

    /// Withdraws a message that was never sent.
    pub(super) fn withdraw(&mut self, mapping: &Arc<Mapping>, process: u32, message: &Message) {
        if process == self.process && mapping.claim(message.record, message.ticket) {
            mapping.release_message(message.record);
        }
    }

    /// The chunk of a message that was not opened yet, and its storage if this process has one.
    pub(super) fn open(&mut self, message: &Message) -> Result<(Chunk, Option<Storage>)> {
        let mapping = match self.mapped.get(&message.segment).and_then(Weak::upgrade) {
            Some(mapping) => mapping,
            None => self.map(message)?,
        };
        let id = (message.segment, message.record);
        if let Some(held) = self.held.get_mut(&id) {
            ensure_claimed(&mapping, message)?;
            mapping.release_message(message.record);
            held.chunks += 1;
            let chunk = Chunk { id, data: mapping.at(held.start), nbytes: held.nbytes };
            return Ok((chunk, held.storage.as_ref().and_then(WeakStorage::upgrade).map(Storage::from)));
        }
        self.open_first(mapping, id, message).map(|chunk| (chunk, None))
    }

    /// The same for a chunk that this process does not hold yet. It holds the chunk before the message releases it.
    fn open_first(&mut self, mapping: Arc<Mapping>, id: Id, message: &Message) -> Result<Chunk> {
        let (record, slot) = (message.record, mapping.slot());
        let takes_part = slot != NONE;
        if takes_part {
            mapping.hold(record, slot);
        }
        let claimed = ensure_claimed(&mapping, message).and_then(|()| {
            if takes_part {
                mapping.release_message(record);
            }
            self.ensure_disjoint(&mapping, record)
        });
        match claimed {
            Ok((start, nbytes)) => {
                if let Some(segment) = self.created_by_number(id.0) {
                    segment.hold_again(record);
                }
                Ok(self.add(id, mapping, start, nbytes))
            }
            Err(error) => {
                if takes_part {
                    mapping.release(record, slot);
                }
                Err(error)
            }
        }
    }

    /// The offset and length of a chunk. Another process may have written them, so they are checked: they must not lead out of the
    /// segment, nor overlap with a storage of this process.
    fn ensure_disjoint(&self, mapping: &Mapping, record: u32) -> Result<(usize, usize)> {
        let chunk = mapping.chunk(record).filter(|&(start, nbytes)| {
            let first = mapping.at(start).addr();
            let end = first + chunk_bytes(nbytes);
            let before = self.addresses.range(..end).next_back();
            before
                .and_then(|(_, id)| self.held.get(id))
                .is_none_or(|held| held.mapping.at(held.start).addr() + chunk_bytes(held.nbytes) <= first)
        });
        match chunk {
            Some(chunk) => Ok(chunk),
            None => bail!(InvalidArgument, "shared memory: another process has corrupted a segment"),
        }
    }

    fn map(&mut self, message: &Message) -> Result<Arc<Mapping>> {
        let mapping = Arc::new(Mapping::open(message)?);
        self.register(&mapping);
        self.recent.push_back(mapping.clone());
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        Ok(mapping)
    }

    /// Drops one of the [`Chunk`]s of a chunk, and with the last one releases it.
    fn release(&mut self, id: Id) {
        let Some(held) = self.held.get_mut(&id) else { return };
        held.chunks -= 1;
        if held.chunks > 0 {
            return;
        }
        let Some(Held { mapping, start, .. }) = self.held.remove(&id) else { return };
        self.addresses.remove(&mapping.at(start).addr());
        let (slot, (number, record)) = (mapping.slot(), id);
        if slot != NONE {
            mapping.release(record, slot);
        }
        if slot == CREATOR
            && let Some(segment) = self.created_by_number(number)
        {
            segment.release(record);
            if !segment.is_used() {
                self.free_unused_segments();
            }
        }
        self.sweep_now_and_then();
    }

    /// Before a fork: lets slots of the child hold what the parent holds; without a free slot, the child's holds are never released.
    fn prepare_child(&mut self) {
        let mut records: HashMap<u64, (Arc<Mapping>, Vec<u32>)> = HashMap::new();
        for ((number, record), held) in &self.held {
            let entry = records.entry(*number).or_insert_with(|| (held.mapping.clone(), vec![]));
            entry.1.push(*record);
        }
        for (mapping, records) in records.into_values() {
            let member = mapping.join_for_child();
            for record in records {
                match &member {
                    Some(member) => mapping.hold(record, member.slot),
                    None => mapping.hold_for_message(record),
                }
            }
            self.for_child.push((mapping, member));
        }
    }

    /// In the parent: closes the descriptors, which only the child needs.
    fn end_fork(&mut self) {
        self.for_child.clear();
    }

    /// In the child: only the parent allocates in its segments, and the child holds chunks by slots of its own.
    fn begin_child(&mut self) {
        self.process = std::process::id();
        for mapping in self.mapped.values().filter_map(Weak::upgrade) {
            // The parent's lock must not outlive the parent.
            drop(mapping.leave());
        }
        for (mapping, member) in self.for_child.drain(..) {
            member.into_iter().for_each(|member| mapping.enter(member));
        }
        self.created.clear();
        self.recent.clear();
    }
}

/// The length of a segment with room for so many bytes.
fn length_for(bytes: usize) -> usize {
    let mut length = FIRST_SEGMENT;
    while Layout::of(length).is_none_or(|layout| layout.room() < bytes) {
        // The metadata is less than a quarter.
        length = (length + length / 8).max(bytes).next_multiple_of(FIRST_SEGMENT);
    }
    length
}

fn ensure_claimed(mapping: &Mapping, message: &Message) -> Result<()> {
    ensure!(
        mapping.claim(message.record, message.ticket),
        InvalidArgument,
        "cannot open shared memory: the message has been received before, or is not one; each is received once"
    );
    Ok(())
}

fn too_many<T>(mapping: &Mapping) -> Result<T> {
    bail!(
        Busy,
        "cannot send shared memory: {} messages of tensors beside this one have not been received yet",
        mapping.layout.tickets
    )
}

/// A hold on a chunk; dropping it releases the chunk.
pub(super) struct Chunk {
    id: Id,
    data: *mut u8,
    nbytes: usize,
}

// SAFETY: the memory belongs to no thread, and the state has a lock.
unsafe impl Send for Chunk {}

impl Chunk {
    pub(super) fn id(&self) -> Id {
        self.id
    }

    pub(super) fn nbytes(&self) -> usize {
        self.nbytes
    }

    /// Its bytes as memory whose deleter drops the hold.
    pub(super) fn into_data(self) -> DataPtr {
        let (data, nbytes) = (self.data, self.nbytes);
        // SAFETY: (valid) the mapping lives as long as the chunk is held, and `Mapping::chunk` has checked that the bytes are inside.
        unsafe { DataPtr::with_closure(data, nbytes, Box::new(move || drop(self))) }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        State::lock().release(self.id);
    }
}
