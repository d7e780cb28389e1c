//! What a process knows of shared memory: the segments that it carves, those that it has opened, and its storages in both.

#![expect(unsafe_code, reason = "hands chunks out as memory with a deleter")]

use super::mapping::Mapping;
use super::members::{MAKER, Member, NONE};
use super::message::Message;
use super::records::Layout;
use super::segment::{Segment, taken_by};
use crate::allocator;
use crate::fork::{HeldAcross, Hooks};
use crate::storage::{Storage, WeakStorage};
use crate::{DataPtr, Result, bail, ensure};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, LazyLock, MutexGuard, Weak};
use std::time::{Duration, Instant};

/// The length of the first segment; each further one is as long as all there are, up to the second number.
const FIRST_SEGMENT: usize = 2 << 20;
const LARGEST_SEGMENT: usize = 64 << 20;
/// How many opened segments stay open when nothing in them is in use, since the next message may be of the same.
const RECENT: usize = 8;
/// How long what others may have let go is not looked for again, while there is room.
const PAUSE: Duration = Duration::from_millis(100);

/// The number of a segment, and that of a record in it.
type Id = (u64, u32);

/// A chunk that this process holds.
struct Held {
    mapping: Arc<Mapping>,
    start: usize,
    nbytes: usize,
    /// How many [`Chunk`]s there are of it: more than one for as long as it takes to find that there is a storage already.
    chunks: usize,
    /// Its storage, once there is one.
    storage: Option<WeakStorage>,
}

pub(super) struct State {
    process: u32,
    /// The segments that this process made and carves.
    made: Vec<Segment>,
    allocated_since_sweep: usize,
    last_sweep: Instant,
    /// Every segment that is mapped here.
    mapped: HashMap<u64, Weak<Mapping>>,
    recent: VecDeque<Arc<Mapping>>,
    held: HashMap<Id, Held>,
    /// The same chunks by their addresses.
    addresses: BTreeMap<usize, Id>,
    /// How a child that is being forked takes part in the segments that something is held in.
    for_child: Vec<(Arc<Mapping>, Option<Member>)>,
}

static STATE: LazyLock<HeldAcross<State>> = LazyLock::new(|| {
    // Taken while this lock is held.
    allocator::AT_FORK.register();
    AT_FORK.register();
    HeldAcross::new(State::new())
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
            made: vec![],
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
        self.allocated_since_sweep += taken_by(nbytes);
        let (mapping, record) = match self.carve(nbytes) {
            Some(carved) => carved,
            None => self.carve_after_sweep(nbytes)?,
        };
        let Some((start, nbytes)) = mapping.chunk(record) else {
            bail!(Internal, "shared memory: another process has spoilt a segment");
        };
        Ok(self.add((mapping.number, record), mapping, start, nbytes))
    }

    fn carve(&mut self, nbytes: usize) -> Option<(Arc<Mapping>, u32)> {
        let carve = |segment: &mut Segment| Some((segment.mapping.clone(), segment.allocate(nbytes)?));
        self.made.iter_mut().rev().find_map(carve)
    }

    /// Sweeps, unless that has been done a short while ago, and makes another segment if need be. Where there can be none, every
    /// byte counts.
    fn carve_after_sweep(&mut self, nbytes: usize) -> Result<(Arc<Mapping>, u32)> {
        if self.allocated_since_sweep >= self.made_bytes() / 2 {
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

    fn made_bytes(&self) -> usize {
        self.made.iter().map(Segment::bytes).sum()
    }

    fn add_segment(&mut self, nbytes: usize) -> Result<()> {
        let needed = length_for(taken_by(nbytes));
        let wanted = self.made_bytes().clamp(FIRST_SEGMENT, LARGEST_SEGMENT).max(needed);
        let segment = match Segment::create(wanted) {
            Err(_) if wanted > needed => Segment::create(needed)?,
            made => made?,
        };
        self.register(&segment.mapping);
        self.made.push(segment);
        Ok(())
    }

    /// Finds what is free again. Segments in which nothing is held go back to the system, but for as many bytes as are held.
    fn sweep(&mut self) {
        (self.allocated_since_sweep, self.last_sweep) = (0, Instant::now());
        self.made.iter_mut().for_each(Segment::sweep);
        self.give_back();
    }

    /// The same, in case that processes have ended of which nobody hears.
    fn sweep_now_and_then(&mut self) {
        if self.made.iter().any(Segment::has_left) && self.last_sweep.elapsed() >= PAUSE {
            self.sweep();
        }
    }

    fn give_back(&mut self) {
        let mut allowed = FIRST_SEGMENT + self.made.iter().map(Segment::used_bytes).sum::<usize>();
        self.made.retain(|segment| {
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

    fn made_by_number(&mut self, number: u64) -> Option<&mut Segment> {
        self.made.iter_mut().find(|segment| segment.mapping.number == number)
    }

    /// Notes a chunk that this process has begun to hold.
    fn add(&mut self, id: Id, mapping: Arc<Mapping>, start: usize, nbytes: usize) -> Chunk {
        let chunk = Chunk { id, data: mapping.at(start), nbytes };
        self.addresses.insert(chunk.data.addr(), id);
        self.held.insert(id, Held { mapping, start, nbytes, chunks: 1, storage: None });
        chunk
    }

    /// Remembers the storage of a chunk.
    pub(super) fn note(&mut self, chunk: &Chunk, storage: &Storage) {
        self.note_as(chunk.id, storage);
    }

    pub(super) fn note_as(&mut self, id: Id, storage: &Storage) {
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

    /// A message of a storage, which holds its chunk from now on; `None` if it owns none.
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

    /// Takes a message back that was never sent.
    pub(super) fn withdraw(&mut self, mapping: &Arc<Mapping>, process: u32, message: &Message) {
        if process == self.process && mapping.claim(message.record, message.ticket) {
            mapping.release_message(message.record);
        }
    }

    /// The chunk of a message that nobody has opened, and the storage that there is of it.
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

    /// The same of a chunk that this process does not hold yet. Its hold is there before the message's ends.
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
            self.ensure_apart(&mapping, record)
        });
        match claimed {
            Ok((start, nbytes)) => {
                if let Some(segment) = self.made_by_number(id.0) {
                    segment.hold_again(record);
                }
                Ok(self.add(id, mapping, start, nbytes))
            }
            Err(error) => {
                if takes_part {
                    mapping.let_go(record, slot);
                }
                Err(error)
            }
        }
    }

    /// Where a chunk is. What another process may have written there must not lead out of the segment, or to bytes that a
    /// storage has here.
    fn ensure_apart(&self, mapping: &Mapping, record: u32) -> Result<(usize, usize)> {
        let chunk = mapping.chunk(record).filter(|&(start, nbytes)| {
            let first = mapping.at(start).addr();
            let end = first + taken_by(nbytes);
            let before = self.addresses.range(..end).next_back();
            before
                .and_then(|(_, id)| self.held.get(id))
                .is_none_or(|held| held.mapping.at(held.start).addr() + taken_by(held.nbytes) <= first)
        });
        match chunk {
            Some(chunk) => Ok(chunk),
            None => bail!(InvalidArgument, "shared memory: another process has spoilt a segment"),
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

    /// Gives up one of the [`Chunk`]s there are of a chunk, and with the last the hold on it.
    fn let_go(&mut self, id: Id) {
        let Some(held) = self.held.get_mut(&id) else { return };
        held.chunks -= 1;
        if held.chunks > 0 {
            return;
        }
        let Some(Held { mapping, start, .. }) = self.held.remove(&id) else { return };
        self.addresses.remove(&mapping.at(start).addr());
        let (slot, (number, record)) = (mapping.slot(), id);
        if slot != NONE {
            mapping.let_go(record, slot);
        }
        if slot == MAKER
            && let Some(segment) = self.made_by_number(number)
        {
            segment.let_go(record);
            if !segment.is_used() {
                self.give_back();
            }
        }
        self.sweep_now_and_then();
    }

    /// Before a fork: what the child will hold it holds already, by slots of its own; where there are none, for ever.
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

    /// In the parent: the descriptors are the child's alone from now on.
    fn end_fork(&mut self) {
        self.for_child.clear();
    }

    /// In the child: segments are carved by the parent, and what is held is held by other slots.
    fn begin_child(&mut self) {
        self.process = std::process::id();
        for mapping in self.mapped.values().filter_map(Weak::upgrade) {
            // The parent's lock must not outlive the parent.
            drop(mapping.leave());
        }
        for (mapping, member) in self.for_child.drain(..) {
            member.into_iter().for_each(|member| mapping.enter(member));
        }
        self.made.clear();
        self.recent.clear();
    }
}

/// The length of a segment that has room for so many bytes.
fn length_for(bytes: usize) -> usize {
    let mut length = FIRST_SEGMENT;
    while Layout::of(length).is_none_or(|layout| layout.room() < bytes) {
        // What stands beside elements is less than a quarter.
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

/// A hold on a chunk; given up when dropped.
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

    /// Its bytes as memory that gives the hold up in the end.
    pub(super) fn into_data(self) -> DataPtr {
        let (data, nbytes) = (self.data, self.nbytes);
        // SAFETY: (valid) the mapping stays as long as the chunk is held, and the bytes are in it: `Mapping::chunk` has looked.
        unsafe { DataPtr::with_closure(data, nbytes, Box::new(move || drop(self))) }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        State::lock().let_go(self.id);
    }
}
