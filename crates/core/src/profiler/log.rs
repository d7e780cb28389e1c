//! The log of one thread, and the result of a session.

use crate::ScalarType;
use std::borrow::Cow;
use std::mem::take;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// No event, no node.
pub(super) const NONE: u64 = u64::MAX;
const NO_EVENT: u32 = u32::MAX;

/// What an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A call of an operator.
    Operator,
    /// A node of a backward pass.
    Backward,
    /// A part of a program that was given a name.
    Range,
}

/// A tensor that an operator got.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Input {
    /// Its sizes.
    pub sizes: Vec<i64>,
    /// The type of its elements.
    pub dtype: ScalarType,
}

/// Something that took time. Times are in nanoseconds.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Event {
    /// `add.Tensor`, `AddBackward0`, or the name of a range.
    pub name: Cow<'static, str>,
    /// What it is.
    pub kind: Kind,
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// The event inside which it began, by its index in the thread's list.
    pub parent: Option<usize>,
    /// Its tensor arguments, if shapes are recorded.
    pub inputs: Option<Box<[Input]>>,
    /// Of a backward node its number; of an operator that of the first node recorded while it ran.
    pub sequence: Option<u64>,
    /// Bytes that it allocated minus those that it freed, without the events inside it.
    pub bytes: i64,
    is_open: bool,
    key: u8,
    nodes: u64,
}

impl Event {
    pub(super) fn new(kind: Kind, name: Cow<'static, str>, nodes: u64) -> Self {
        Event {
            name,
            kind,
            start: 0,
            end: 0,
            parent: None,
            inputs: None,
            sequence: None,
            bytes: 0,
            is_open: true,
            key: 0,
            nodes,
        }
    }

    /// An operator has a `sequence` only if nodes were recorded meanwhile.
    fn close(&mut self, end: u64, nodes: u64) {
        (self.end, self.is_open) = (end, false);
        let is_number = match self.kind {
            Kind::Operator => nodes != self.nodes,
            Kind::Backward | Kind::Range => true,
        };
        self.sequence = Some(self.nodes).filter(|number| is_number && *number != NONE);
    }
}

/// An allocation, or a freeing, which has a negative number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// When it was.
    pub time: u64,
    /// How many bytes.
    pub bytes: i64,
}

/// What one thread recorded.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ThreadLog {
    /// A number of its own.
    pub thread: usize,
    /// What the thread is called, if it has a name.
    pub name: Option<String>,
    /// In the order in which they began.
    pub events: Vec<Event>,
    /// In order of time.
    pub memory: Vec<Memory>,
}

/// What all threads recorded in one session.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Recording {
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// Bytes in tensors when it began.
    pub live_bytes: u64,
    /// The threads that recorded something.
    pub threads: Vec<ThreadLog>,
}

/// A thread's log while it is written.
pub(super) struct Log {
    session: u32,
    innermost: u32,
    kept: ThreadLog,
}

impl Log {
    pub(super) fn new() -> Self {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        let thread = THREADS.fetch_add(1, Ordering::Relaxed);
        let name = thread::current().name().map(str::to_owned);
        Log {
            session: 0,
            innermost: NO_EVENT,
            kept: ThreadLog { thread, name, events: Vec::new(), memory: Vec::new() },
        }
    }

    /// Makes the log that of a session. Events of a former session, recorded after its end, are dropped.
    pub(super) fn belong_to(&mut self, session: u32) {
        if self.session != session {
            self.session = session;
            self.innermost = NO_EVENT;
            self.kept.events.clear();
            self.kept.memory.clear();
        }
    }

    fn last_open(&mut self) -> Option<&mut Event> {
        self.kept.events.get_mut(self.innermost as usize)
    }

    /// Whether the innermost event is this operator behind a higher key.
    pub(super) fn is_inside(&mut self, name: &'static str, key: u8) -> bool {
        let same = |event: &Event| matches!(event.name, Cow::Borrowed(other) if std::ptr::eq(other, name));
        self.last_open().is_some_and(|event| event.kind == Kind::Operator && event.key > key && same(event))
    }

    /// Begins an event. The clock is read last, so that the event's time does not include its own recording.
    pub(super) fn open(&mut self, event: Event, key: u8, clock: fn() -> u64) -> u32 {
        let parent = Some(self.innermost as usize).filter(|_| self.innermost != NO_EVENT);
        let at = self.kept.events.len() as u32;
        self.kept.events.push(Event { parent, key, ..event });
        self.innermost = at;
        if let Some(event) = self.last_open() {
            event.start = clock();
        }
        at
    }

    /// Ends the event at this index, and those inside it that are still open.
    pub(super) fn close(&mut self, at: u32, end: u64, nodes: u64) {
        while self.innermost != NO_EVENT && self.innermost >= at {
            let Some(event) = self.last_open() else { return };
            event.close(end, nodes);
            self.innermost = event.parent.map_or(NO_EVENT, |parent| parent as u32);
        }
    }

    pub(super) fn remember(&mut self, bytes: i64, time: u64) {
        if let Some(event) = self.last_open() {
            event.bytes += bytes;
        }
        self.kept.memory.push(Memory { time, bytes });
    }

    /// Takes what the session has recorded; the log is empty afterwards.
    pub(super) fn take(&mut self, session: u32, clock: fn() -> u64) -> Option<ThreadLog> {
        if self.session != session {
            return None;
        }
        let end = clock();
        for event in self.kept.events.iter_mut().filter(|event| event.is_open) {
            let nodes = event.nodes;
            event.close(end, nodes);
        }
        self.session = 0;
        self.innermost = NO_EVENT;
        let ThreadLog { thread, name, events, memory } = &mut self.kept;
        let taken =
            ThreadLog { thread: *thread, name: name.clone(), events: take(events), memory: take(memory) };
        (!taken.events.is_empty() || !taken.memory.is_empty()).then_some(taken)
    }
}
