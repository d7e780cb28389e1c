//! Messages between ranks: a header with the signature of the call that sent it, and elements as bytes.

use crate::bytes::copied;
use crate::wire::{Decoder, Encoder};
use flambeau_core::{Result, ScalarType, bail};
use flambeau_ops::Tensor;
use std::fmt;

/// To which queue of its group a message belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Channel {
    /// Collectives, in the order in which they were called.
    Collective,
    /// Messages from one rank to another, by their tags.
    Message(i64),
}

/// Which call a message is part of. The ranks of a group must call the same collectives in the same order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Signature {
    pub(crate) group: u64,
    pub(crate) sequence: u64,
    pub(crate) operation: String,
    pub(crate) dtype: ScalarType,
    /// Sizes of the tensor of one rank; empty where ranks may have tensors of different sizes.
    pub(crate) sizes: Vec<i64>,
    /// The reduction, or the rank that sends or receives, in words; empty where there is none.
    pub(crate) detail: String,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} number {} of {} {:?}", self.operation, self.sequence, self.dtype, self.sizes)?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, " ({})", self.detail) }
    }
}

/// A message that has arrived.
pub(crate) struct Frame {
    pub(crate) channel: Channel,
    pub(crate) signature: Signature,
    /// A tensor of bytes.
    pub(crate) payload: Tensor,
}

impl Frame {
    /// A message of this rank to itself.
    pub(super) fn local(channel: Channel, signature: &Signature, payload: &[u8]) -> Result<Self> {
        Ok(Frame { channel, signature: signature.clone(), payload: copied(payload)? })
    }
}

const COLLECTIVE: u8 = 0;
const MESSAGE: u8 = 1;
const ABORT: u8 = 2;
const GOODBYE: u8 = 3;

pub(super) fn header(channel: Channel, signature: &Signature) -> Vec<u8> {
    let (kind, tag) = match channel {
        Channel::Collective => (COLLECTIVE, 0),
        Channel::Message(tag) => (MESSAGE, tag),
    };
    let encoder = Encoder::default()
        .u8(kind)
        .i64(tag)
        .u64(signature.group)
        .u64(signature.sequence)
        .bytes(signature.operation.as_bytes())
        .bytes(signature.dtype.name().as_bytes())
        .bytes(signature.detail.as_bytes())
        .u64(signature.sizes.len() as u64);
    signature.sizes.iter().fold(encoder, |encoder, size| encoder.i64(*size)).finish()
}

pub(super) fn abort(group: u64, message: &str) -> Vec<u8> {
    Encoder::default().u8(ABORT).u64(group).bytes(message.as_bytes()).finish()
}

pub(super) fn goodbye() -> Vec<u8> {
    Encoder::default().u8(GOODBYE).finish()
}

/// A message that a rank has sent.
pub(super) enum Arrived {
    Frame(Frame),
    /// A group is broken, and why.
    Abort(u64, String),
    /// The rank leaves.
    Goodbye,
}

/// Reads a message.
pub(super) fn read(header: &[u8], payload: Tensor) -> Result<Arrived> {
    let mut decoder = Decoder::new(header);
    match decoder.u8()? {
        GOODBYE => Ok(Arrived::Goodbye),
        ABORT => Ok(Arrived::Abort(decoder.u64()?, decoder.text()?)),
        kind @ (COLLECTIVE | MESSAGE) => decode(kind, &mut decoder, payload).map(Arrived::Frame),
        other => bail!(Io, "it sent a message of the unknown kind {other}"),
    }
}

fn decode(kind: u8, decoder: &mut Decoder<'_>, payload: Tensor) -> Result<Frame> {
    let tag = decoder.i64()?;
    let channel = if kind == MESSAGE { Channel::Message(tag) } else { Channel::Collective };
    let (group, sequence, operation) = (decoder.u64()?, decoder.u64()?, decoder.text()?);
    let dtype = decoder.text()?.parse()?;
    let detail = decoder.text()?;
    let count = decoder.count()?;
    let sizes: Result<Vec<i64>> = (0..count).map(|_| decoder.i64()).collect();
    Ok(Frame {
        channel,
        signature: Signature { group, sequence, operation, dtype, sizes: sizes?, detail },
        payload,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::buffer;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let signature = Signature {
            group: 3,
            sequence: 9,
            operation: "all_reduce".into(),
            dtype: ScalarType::BF16,
            sizes: vec![2, 0, 5],
            detail: "SUM".into(),
        };
        let bytes = header(Channel::Message(-4), &signature);
        let mut decoder = Decoder::new(&bytes);
        let kind = decoder.u8().unwrap();
        let frame = decode(kind, &mut decoder, buffer(0).unwrap()).unwrap();
        assert_eq!((frame.channel, frame.signature), (Channel::Message(-4), signature));
        for length in 1..bytes.len() {
            assert!(decode(kind, &mut Decoder::new(&bytes[1..length]), buffer(0).unwrap()).is_err());
        }
    }
}
