//! The message by which a process sends a chunk: its segment, which processes have that open, the chunk's record, and a ticket.

use crate::{Error, ErrorKind, Result};

/// A process, and a descriptor of the segment's file there.
pub(super) type Opened = (u32, i32);

/// A message as it is sent. The receiver trusts none of its fields: a message may be damaged, forged, or an old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message {
    /// The unique number of the segment.
    pub(super) segment: u64,
    /// The length of the segment's file.
    pub(super) bytes: u64,
    /// Two processes that have it open: the one that created it, and the sender.
    pub(super) opened: [Opened; 2],
    /// The chunk's record.
    pub(super) record: u32,
    pub(super) ticket: Ticket,
}

/// A cell of the segment and the value that it holds until the message is received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) cell: u32,
    pub(super) value: u64,
}

const WORDS: usize = 6;

/// How many bytes a message has.
pub const MESSAGE_BYTES: usize = 8 * WORDS;

impl Message {
    pub(super) fn encode(&self) -> [u8; MESSAGE_BYTES] {
        let opened = |(process, descriptor): Opened| joined(process, descriptor.cast_unsigned());
        let [creator, sender] = self.opened.map(opened);
        let Ticket { cell, value } = self.ticket;
        let words: [u64; WORDS] =
            [self.segment, self.bytes, creator, sender, joined(self.record, cell), value];
        let mut encoded = [0; MESSAGE_BYTES];
        for (bytes, word) in encoded.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        encoded
    }

    pub(super) fn decode(encoded: &[u8]) -> Result<Self> {
        let (words, rest) = encoded.as_chunks::<8>();
        let &[segment, bytes, creator, sender, record_and_cell, value] = words else {
            return Err(length(encoded));
        };
        if !rest.is_empty() {
            return Err(length(encoded));
        }
        let opened = |(process, descriptor): (u32, u32)| (process, descriptor.cast_signed());
        let (record, cell) = parted(record_and_cell);
        Ok(Message {
            segment: u64::from_le_bytes(segment),
            bytes: u64::from_le_bytes(bytes),
            opened: [creator, sender].map(|word| opened(parted(word))),
            record,
            ticket: Ticket { cell, value: u64::from_le_bytes(value) },
        })
    }
}

fn joined(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn parted(word: [u8; 8]) -> (u32, u32) {
    let word = u64::from_le_bytes(word);
    (word as u32, (word >> 32) as u32)
}

#[cold]
fn length(encoded: &[u8]) -> Error {
    let message =
        format!("shared memory: expected a message of {MESSAGE_BYTES} bytes but got {}", encoded.len());
    Error::new(ErrorKind::InvalidArgument, message)
}
