//! The metadata in a segment beside elements: its number, a record for each chunk, and the tickets of messages.
//!
//! All of it is atomics, which any process that has the segment open may change, and its addresses are never used for elements. So
//! a late write, caused by an old or forged message, changes no element.
//!
//! A chunk is held by the processes whose bits are set in its record, and by messages, which are counted there. To pass a hold on, the
//! new one is set first, then a [`change`](Record::changes) is counted, and only then the old one is released: a process that finds no
//! hold, and no change between the beginning and the end of its search, knows that there was no hold at the beginning.

#![expect(unsafe_code, reason = "records are in the mapped memory of the segment")]

use super::mapping::Mapping;
use super::message::Ticket;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

/// The unit of chunks, to which elements are aligned, and the length of a record.
pub(super) const UNIT: usize = 64;
/// How many processes can have a slot in a segment; further ones never release what they open.
pub(super) const SLOTS: u32 = 256;

type Bits = [AtomicU64; SLOTS as usize / 64];

/// The beginning of a segment.
#[repr(C, align(64))]
pub(super) struct Header {
    /// The unique number of the segment.
    number: AtomicU64,
    /// The slots that processes, living or dead, have taken and not given back.
    taken: Bits,
    /// The records from this one on have never been used.
    used: AtomicU32,
}

/// The record of a chunk.
#[repr(C, align(64))]
pub(super) struct Record {
    start: AtomicU64,
    nbytes: AtomicU64,
    /// The processes that hold it, by their slots.
    holders: Bits,
    /// How many messages hold it.
    messages: AtomicU32,
    /// How often a hold has been passed on.
    changes: AtomicU32,
}

const _: () = assert!(size_of::<Header>() == UNIT && size_of::<Record>() == UNIT);

/// The layout of a segment: a function of its length alone, which is sealed.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// How many records there are.
    pub(super) records: u32,
    /// How many tickets.
    pub(super) tickets: u32,
    /// The offset of the elements.
    pub(super) data: usize,
    /// The length.
    pub(super) bytes: usize,
}

impl Layout {
    /// Records and tickets take pages only when they are used, so there are many: a record for each 512 bytes, as in a segment full of
    /// small tensors, and enough tickets to send each chunk to a few processes, or a few chunks to hundreds.
    pub(super) fn of(bytes: usize) -> Option<Self> {
        let records = (bytes / 512).clamp(1, 1 << 17);
        let tickets = (4 * records).max(1 << 16);
        let data = UNIT + records * UNIT + (tickets * 8).next_multiple_of(UNIT);
        let layout = Layout { records: records as u32, tickets: tickets as u32, data, bytes };
        (data < bytes && bytes <= isize::MAX as usize).then_some(layout)
    }

    /// How many bytes there are for chunks.
    pub(super) fn room(&self) -> usize {
        self.bytes - self.data
    }

    /// Whether a chunk can have this offset and length.
    fn holds(&self, start: u64, nbytes: u64) -> bool {
        let end = start.checked_add(nbytes);
        start >= self.data as u64
            && start.is_multiple_of(UNIT as u64)
            && start < self.bytes as u64
            && end.is_some_and(|end| end <= self.bytes as u64)
    }
}

fn word_and_bit(slot: u32) -> (usize, u64) {
    (slot as usize / 64, 1 << (slot % 64))
}

/// The slots whose bits are set.
fn slots_in(bits: &Bits) -> impl Iterator<Item = u32> {
    (0..SLOTS).filter(|slot| {
        let (word, bit) = word_and_bit(*slot);
        bits[word].load(SeqCst) & bit != 0
    })
}

impl Mapping {
    fn header(&self) -> &Header {
        // SAFETY: mapped as long as `self` lives, aligned to pages, and longer (`Layout`). All fields are atomics, which other processes
        // use as such too; a process that writes other values causes wrong numbers here, which are checked.
        unsafe { &*self.at(0).cast() }
    }

    /// The record of this number; `None` if that is not below [`Layout::records`].
    fn record(&self, record: u32) -> Option<&Record> {
        let at = UNIT + record as usize * UNIT;
        // SAFETY: as for `header`.
        (record < self.layout.records).then(|| unsafe { &*self.at(at).cast() })
    }

    fn ticket(&self, cell: u32) -> Option<&AtomicU64> {
        let at = UNIT + self.layout.records as usize * UNIT + cell as usize * 8;
        // SAFETY: as for `header`.
        (cell < self.layout.tickets).then(|| unsafe { &*self.at(at).cast() })
    }

    /// The number that is written in the segment.
    pub(super) fn written_number(&self) -> u64 {
        self.header().number.load(SeqCst)
    }

    pub(super) fn write_number(&self) {
        self.header().number.store(self.number, SeqCst);
    }

    /// The slots that are taken, by processes that may have died.
    pub(super) fn taken_slots(&self) -> impl Iterator<Item = u32> {
        slots_in(&self.header().taken)
    }

    /// Marks a slot as taken; true if it was marked already, by a process that died.
    pub(super) fn mark_taken(&self, slot: u32) -> bool {
        let (word, bit) = word_and_bit(slot);
        self.header().taken[word].fetch_or(bit, SeqCst) & bit != 0
    }

    /// Marks a slot as free, which holds nothing any more.
    pub(super) fn mark_free(&self, slot: u32) {
        let (word, bit) = word_and_bit(slot);
        self.header().taken[word].fetch_and(!bit, SeqCst);
    }

    /// Releases all that a slot holds. The caller has the lock of the slot, so no process is adding to it.
    pub(super) fn clear_slot(&self, slot: u32) {
        let (word, bit) = word_and_bit(slot);
        let used = self.header().used.load(SeqCst);
        for record in (0..used).map_while(|record| self.record(record)) {
            if record.holders[word].load(SeqCst) & bit != 0 {
                record.holders[word].fetch_and(!bit, SeqCst);
            }
        }
    }

    /// Writes the record of a new chunk. Only the process that created the segment calls this, for records that are
    /// [free](Self::is_free).
    pub(super) fn write_record(&self, record: u32, start: usize, nbytes: usize) {
        if let Some(chunk) = self.record(record) {
            chunk.start.store(start as u64, SeqCst);
            chunk.nbytes.store(nbytes as u64, SeqCst);
            self.header().used.fetch_max(record + 1, SeqCst);
        }
    }

    /// The offset and length of a chunk that is held, if they are possible.
    pub(super) fn chunk(&self, record: u32) -> Option<(usize, usize)> {
        let record = self.record(record)?;
        let (start, nbytes) = (record.start.load(SeqCst), record.nbytes.load(SeqCst));
        self.layout.holds(start, nbytes).then_some((start as usize, nbytes as usize))
    }

    /// Makes a slot hold a chunk.
    pub(super) fn hold(&self, record: u32, slot: u32) {
        if let Some(record) = self.record(record) {
            let (word, bit) = word_and_bit(slot);
            record.holders[word].fetch_or(bit, SeqCst);
            record.changes.fetch_add(1, SeqCst);
        }
    }

    /// Makes a slot release a chunk.
    pub(super) fn release(&self, record: u32, slot: u32) {
        if let Some(record) = self.record(record) {
            let (word, bit) = word_and_bit(slot);
            record.holders[word].fetch_and(!bit, SeqCst);
        }
    }

    /// Makes a message hold a chunk: for ever, if there is no message that will be received.
    pub(super) fn hold_for_message(&self, record: u32) {
        if let Some(record) = self.record(record) {
            record.messages.fetch_add(1, SeqCst);
            record.changes.fetch_add(1, SeqCst);
        }
    }

    /// Whether no process and no message holds a chunk. If the process that created the segment finds that, no other can hold the chunk
    /// again before it allocates the record anew.
    pub(super) fn is_free(&self, record: u32) -> bool {
        let Some(record) = self.record(record) else { return false };
        loop {
            let changes = record.changes.load(SeqCst);
            let held = record.holders.iter().any(|bits| bits.load(SeqCst) != 0);
            if held || record.messages.load(SeqCst) > 0 {
                return false;
            }
            if record.changes.load(SeqCst) == changes {
                return true;
            }
        }
    }

    /// A ticket for a message that holds a chunk from now on, which the caller holds too. `None` if all are in use.
    pub(super) fn issue(&self, record: u32) -> Option<Ticket> {
        let tickets = u64::from(self.layout.tickets);
        let value = ticket_value(record);
        let first = u64::from(record) * 4;
        self.hold_for_message(record);
        for cell in (0..tickets).map(|after| ((first + after) % tickets) as u32) {
            if self.ticket(cell)?.compare_exchange(0, value, SeqCst, SeqCst).is_ok() {
                return Some(Ticket { cell, value });
            }
        }
        self.release_message(record);
        None
    }

    /// Takes a ticket out of its cell, if it is there: the first process to do so has opened the message. The message's hold stays.
    pub(super) fn claim(&self, record: u32, ticket: Ticket) -> bool {
        is_ticket_of(ticket.value, record)
            && self
                .ticket(ticket.cell)
                .is_some_and(|cell| cell.compare_exchange(ticket.value, 0, SeqCst, SeqCst).is_ok())
    }

    /// Releases the hold of a message whose ticket the caller has taken out.
    pub(super) fn release_message(&self, record: u32) {
        if let Some(record) = self.record(record) {
            record.messages.fetch_sub(1, SeqCst);
        }
    }
}

/// The low bits of a ticket are the number of its record. The others are random, so that a message cannot open a chunk by another
/// message's ticket.
const RECORD_BITS: u32 = 20;

fn ticket_value(record: u32) -> u64 {
    loop {
        let value = unused_number() << RECORD_BITS | u64::from(record);
        if value >> RECORD_BITS != 0 {
            return value;
        }
    }
}

fn is_ticket_of(value: u64, record: u32) -> bool {
    value >> RECORD_BITS != 0 && value & ((1 << RECORD_BITS) - 1) == u64::from(record)
}

/// A unique number: hashers are seeded from the system's entropy.
pub(super) fn unused_number() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    RandomState::new().hash_one((std::process::id(), COUNT.fetch_add(1, SeqCst)))
}
