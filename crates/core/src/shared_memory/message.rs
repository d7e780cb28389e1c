//! What is sent for a chunk: which segment it is in, who has that open, which record is the chunk's, and a ticket.

use crate::{Error, ErrorKind, Result};

/// A process, and a descriptor of the segment's file there.
pub(super) type Opened = (u32, i32);

/// A message as it is sent. Nothing here is believed: a message may be damaged, forged, or an old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message {
    /// The number that the segment has and no other.
    pub(super) segment: u64,
    /// The length of the segment's file.
    pub(super) bytes: u64,
    /// Who has it open: the process that made it, and the sender.
    pub(super) opened: [Opened; 2],
    /// The chunk's record.
    pub(super) record: u32,
    pub(super) ticket: Ticket,
}

/// Which cell says that a message has not been received, and what stands in it until then.
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
        let [maker, sender] = self.opened.map(opened);
        let Ticket { cell, value } = self.ticket;
        let words: [u64; WORDS] = [self.segment, self.bytes, maker, sender, joined(self.record, cell), value];
        let mut encoded = [0; MESSAGE_BYTES];
        for (place, word) in encoded.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        encoded
    }

    pub(super) fn decode(encoded: &[u8]) -> Result<Self> {
        let (words, rest) = encoded.as_chunks::<8>();
        let &[segment, bytes, maker, sender, names, value] = words else { return Err(length(encoded)) };
        if !rest.is_empty() {
            return Err(length(encoded));
        }
        let opened = |(process, descriptor): (u32, u32)| (process, descriptor.cast_signed());
        let (record, cell) = parted(names);
        Ok(Message {
            segment: u64::from_le_bytes(segment),
            bytes: u64::from_le_bytes(bytes),
            opened: [maker, sender].map(|word| opened(parted(word))),
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
