//! Which chunks there are: carved from free runs, found again by a sweep, opened by handles.

#![expect(unsafe_code, reason = "hands chunks out as memory with a deleter")]

use super::mapping::{Mapping, UNIT};
use super::{Handle, fork};
use crate::storage::{Storage, WeakStorage};
use crate::{DataPtr, Result, ensure};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

/// The length of the first segment; each is twice as long as the one before, up to the second number.
const FIRST_SEGMENT: usize = 1 << 20;
const LARGEST_SEGMENT: usize = 64 << 20;
/// How many opened segments stay open when nothing in them is in use, since the next message may be of the same.
const RECENT: usize = 8;
/// How many free runs are tried for one allocation.
const TRIED: usize = 64;

/// A part of a segment that nobody holds.
struct Run {
    mapping: Arc<Mapping>,
    start: usize,
    end: usize,
}

/// What this process knows of shared memory.
pub(super) struct State {
    process: u32,
    /// Segments that this process made and carves. None is shared with a process that was forked since: what such a one sees
    /// is not counted, so nothing there is used again.
    segments: Vec<Arc<Mapping>>,
    /// Those it made before its last fork.
    sealed: Vec<Arc<Mapping>>,
    runs: Vec<Run>,
    next_segment: usize,
    allocated_since_sweep: usize,
    /// Every segment that is mapped here, by its first address and by its number.
    by_address: BTreeMap<usize, Weak<Mapping>>,
    by_number: HashMap<u64, Weak<Mapping>>,
    recent: VecDeque<Arc<Mapping>>,
    /// The storages here, by the address of their bytes.
    storages: HashMap<usize, WeakStorage>,
}

/// A lock of the standard library's, which is one word: a fork copies it whole.
static STATE: LazyLock<Mutex<State>> = LazyLock::new(|| Mutex::new(State::new()));

/// The state under its lock.
pub(super) type Locked = MutexGuard<'static, State>;

impl State {
    pub(super) fn lock() -> Locked {
        fork::watch();
        STATE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn new() -> Self {
        State {
            process: std::process::id(),
            segments: vec![],
            sealed: vec![],
            runs: vec![],
            next_segment: FIRST_SEGMENT,
            allocated_since_sweep: 0,
            by_address: BTreeMap::new(),
            by_number: HashMap::new(),
            recent: VecDeque::new(),
            storages: HashMap::new(),
        }
    }

    /// A chunk for `nbytes` bytes.
    pub(super) fn allocate(&mut self, nbytes: usize) -> Result<Chunk> {
        ensure!(nbytes <= isize::MAX as usize / 2, OutOfMemory, "expected fewer than {nbytes} shared bytes");
        let bytes = nbytes.next_multiple_of(UNIT) + UNIT;
        self.allocated_since_sweep += bytes;
        let total: usize = self.segments.iter().map(|segment| segment.bytes()).sum();
        let at = match self.fitting(bytes) {
            Some(at) => at,
            None => {
                if self.allocated_since_sweep >= total / 2 {
                    self.sweep();
                }
                match self.fitting(bytes) {
                    Some(at) => at,
                    None => self.add_segment(bytes)?,
                }
            }
        };
        Ok(self.carve(at, bytes))
    }

    /// A run that is long enough, looking at the latest.
    fn fitting(&self, bytes: usize) -> Option<usize> {
        let from = self.runs.len().saturating_sub(TRIED);
        (from..self.runs.len()).rev().find(|at| self.runs[*at].end - self.runs[*at].start >= bytes)
    }

    /// The beginning of a run as a chunk. What is left has a header of its own, so that a sweep can walk on.
    fn carve(&mut self, at: usize, bytes: usize) -> Chunk {
        let run = &mut self.runs[at];
        let (mapping, offset) = (run.mapping.clone(), run.start);
        run.start += bytes;
        mapping.write_header(offset, bytes, 1);
        if run.start < run.end {
            mapping.write_header(run.start, run.end - run.start, 0);
        } else {
            self.runs.swap_remove(at);
        }
        Chunk { mapping, offset, process: self.process }
    }

    fn add_segment(&mut self, bytes: usize) -> Result<usize> {
        let length = (bytes + UNIT).next_multiple_of(FIRST_SEGMENT).max(self.next_segment);
        self.next_segment = (self.next_segment * 2).min(LARGEST_SEGMENT);
        let mapping = Arc::new(Mapping::create(length)?);
        mapping.write_header(UNIT, length - UNIT, 0);
        self.register(&mapping);
        self.segments.push(mapping.clone());
        self.runs.push(Run { mapping, start: UNIT, end: length });
        Ok(self.runs.len() - 1)
    }

    /// Finds what is free again. Segments in which nothing is held go back to the system, but for as many bytes as are held.
    fn sweep(&mut self) {
        self.allocated_since_sweep = 0;
        self.runs.clear();
        self.sealed.retain(|segment| free_runs(segment).1 > 0);
        let mut found: Vec<(Arc<Mapping>, Vec<Run>, usize)> = Vec::new();
        for segment in self.segments.drain(..) {
            let (runs, held) = free_runs(&segment);
            found.push((segment, runs, held));
        }
        let mut allowed = FIRST_SEGMENT + found.iter().map(|(_, _, held)| held).sum::<usize>();
        for (segment, runs, held) in found {
            if held == 0 && segment.bytes() > allowed {
                continue;
            }
            if held == 0 {
                allowed -= segment.bytes();
            }
            self.segments.push(segment);
            self.runs.extend(runs);
        }
    }

    fn register(&mut self, mapping: &Arc<Mapping>) {
        self.by_address.retain(|_, segment| segment.strong_count() > 0);
        self.by_number.retain(|_, segment| segment.strong_count() > 0);
        self.by_address.insert(mapping.start(), Arc::downgrade(mapping));
        self.by_number.insert(mapping.number, Arc::downgrade(mapping));
    }

    /// The segment of an address.
    pub(super) fn find(&self, address: *const u8) -> Option<Arc<Mapping>> {
        let (_, segment) = self.by_address.range(..=address.addr()).next_back()?;
        segment.upgrade().filter(|segment| segment.contains(address))
    }

    /// Remembers the storage of a chunk.
    pub(super) fn note(&mut self, address: usize, storage: WeakStorage) {
        self.storages.insert(address, storage);
    }

    /// The chunk of a handle, of which it takes over the hold, and the storage that there is of it.
    pub(super) fn open(&mut self, handle: &Handle) -> Result<(Chunk, Option<Storage>)> {
        let mapping = match self.by_number.get(&handle.segment).and_then(Weak::upgrade) {
            Some(mapping) => mapping,
            None => self.map(handle)?,
        };
        ensure!(
            handle.offset >= 2 * UNIT
                && handle.offset.is_multiple_of(UNIT)
                && handle.offset.checked_add(handle.nbytes).is_some_and(|end| end <= mapping.bytes()),
            InvalidArgument,
            "expected a handle inside a segment of {} bytes but got {handle:?}",
            mapping.bytes()
        );
        let chunk = Chunk { mapping, offset: handle.offset - UNIT, process: self.process };
        let known = self.storages.get(&chunk.address()).and_then(WeakStorage::upgrade).map(Storage::from);
        Ok((chunk, known))
    }

    fn map(&mut self, handle: &Handle) -> Result<Arc<Mapping>> {
        let mapping = Arc::new(Mapping::open(handle)?);
        self.register(&mapping);
        self.recent.push_back(mapping.clone());
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        Ok(mapping)
    }

    /// Before a fork: nothing that the child will see is ever used again.
    pub(super) fn seal(&mut self) {
        self.runs.clear();
        self.sealed.append(&mut self.segments);
        let process = self.process;
        for address in self.storages.keys() {
            let mapping = self.find(std::ptr::without_provenance(*address));
            if let Some(mapping) = mapping.filter(|mapping| mapping.owner() != process) {
                // The child holds it too, and cannot be relied on to let it go.
                mapping.header(address - mapping.start() - UNIT).holders.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// In the child: the segments are the parent's.
    pub(super) fn begin_child(&mut self) {
        self.process = std::process::id();
        self.segments.clear();
        self.sealed.clear();
        self.next_segment = FIRST_SEGMENT;
    }

    fn forget(&mut self, chunk: &Chunk) {
        let address = chunk.address();
        // A storage that was opened meanwhile has the place.
        if self.storages.get(&address).is_some_and(|storage| storage.strong_count() == 0) {
            self.storages.remove(&address);
        }
    }

    /// Gives a segment that holds one large thing back to the system, now that nobody holds that.
    fn release_large(&mut self, mapping: &Arc<Mapping>) {
        if mapping.bytes() > LARGEST_SEGMENT
            && self.segments.iter().any(|segment| Arc::ptr_eq(segment, mapping))
        {
            self.runs.retain(|run| !Arc::ptr_eq(&run.mapping, mapping));
            self.segments.retain(|segment| !Arc::ptr_eq(segment, mapping));
        }
    }
}

/// What nobody holds in a segment, neighbours joined, and how many bytes somebody does.
fn free_runs(mapping: &Arc<Mapping>) -> (Vec<Run>, usize) {
    let (mut runs, mut held, mut offset) = (Vec::<Run>::new(), 0, UNIT);
    while offset < mapping.bytes() {
        let header = mapping.header(offset);
        // A header that another process spoilt must not lead out of the segment.
        let bytes = header.bytes().clamp(UNIT, mapping.bytes() - offset);
        if header.holders.load(Ordering::Acquire) > 0 {
            held += bytes;
        } else {
            match runs.last_mut().filter(|run| run.end == offset) {
                Some(run) => run.end += bytes,
                None => runs.push(Run { mapping: mapping.clone(), start: offset, end: offset + bytes }),
            }
        }
        offset += bytes;
    }
    for run in &runs {
        mapping.write_header(run.start, run.end - run.start, 0);
    }
    (runs, held)
}

/// A hold on a chunk; given up when dropped.
pub(super) struct Chunk {
    mapping: Arc<Mapping>,
    offset: usize,
    /// Who holds it. A forked child's copy holds nothing.
    process: u32,
}

impl Chunk {
    /// The address of its bytes.
    pub(super) fn address(&self) -> usize {
        self.mapping.start() + self.offset + UNIT
    }

    /// Its bytes as memory that gives the hold up in the end.
    pub(super) fn into_data(self, nbytes: usize) -> DataPtr {
        let data = self.mapping.at(self.offset + UNIT);
        // SAFETY: (valid) the mapping stays as long as the chunk, and the bytes are in it: `allocate` carved so many, and
        // `open` has looked.
        unsafe { DataPtr::with_closure(data, nbytes, Box::new(move || drop(self))) }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let mut state = State::lock();
        state.forget(self);
        if self.process != state.process {
            return;
        }
        let header = self.mapping.header(self.offset);
        if header.holders.fetch_sub(1, Ordering::AcqRel) == 1 && self.mapping.owner() == self.process {
            state.release_large(&self.mapping);
        }
    }
}
