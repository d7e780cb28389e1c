//! Numbers and bytes in messages: little-endian numbers, and lists preceded by their lengths.

use flambeau_core::{Result, bail, ensure};
use std::io::{Read, Write};

/// The longest list that a decoder accepts: keys, values and headers are short, and a length above this is damage.
pub(crate) const LONGEST: usize = 64 << 20;

/// Builds a message.
#[derive(Default)]
pub(crate) struct Encoder(Vec<u8>);

impl Encoder {
    pub(crate) fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    pub(crate) fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn i64(self, value: i64) -> Self {
        self.u64(value as u64)
    }

    pub(crate) fn bytes(self, bytes: &[u8]) -> Self {
        let mut encoder = self.u64(bytes.len() as u64);
        encoder.0.extend_from_slice(bytes);
        encoder
    }

    /// The message.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Reads a message.
pub(crate) struct Decoder<'a>(&'a [u8]);

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Decoder(bytes)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.0.split_at_checked(count) else {
            bail!(Io, "a message ends early: {count} more bytes expected, {} left", self.0.len());
        };
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(bytes))
    }

    pub(crate) fn i64(&mut self) -> Result<i64> {
        Ok(self.u64()? as i64)
    }

    /// The number of elements of a list that follows, each of which takes at least one byte.
    pub(crate) fn count(&mut self) -> Result<usize> {
        let count = self.u64()?;
        ensure!(
            count <= self.0.len() as u64,
            Io,
            "a message ends early: {count} elements expected, {} bytes left",
            self.0.len()
        );
        Ok(count as usize)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let count = self.count()?;
        self.take(count)
    }

    pub(crate) fn text(&mut self) -> Result<String> {
        Ok(String::from_utf8_lossy(self.bytes()?).into_owned())
    }
}

/// Writes a message preceded by its length.
pub(crate) fn write_message(stream: &mut impl Write, message: &[u8]) -> Result<()> {
    let mut whole = Vec::with_capacity(message.len() + 8);
    whole.extend_from_slice(&(message.len() as u64).to_le_bytes());
    whole.extend_from_slice(message);
    stream.write_all(&whole)?;
    Ok(())
}

/// Reads a message that [`write_message`] wrote.
pub(crate) fn read_message(stream: &mut impl Read) -> Result<Vec<u8>> {
    let length = read_length(stream)?;
    ensure!(
        length <= LONGEST as u64,
        Io,
        "a message of {length} bytes is longer than {LONGEST}: not a message of Flambeau"
    );
    let mut message = vec![0; length as usize];
    stream.read_exact(&mut message)?;
    Ok(message)
}

/// Reads a length.
pub(crate) fn read_length(stream: &mut impl Read) -> Result<u64> {
    let mut length = [0; 8];
    stream.read_exact(&mut length)?;
    Ok(u64::from_le_bytes(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_encoded_is_decoded() {
        let message = Encoder::default().u8(7).i64(-3).bytes(b"key").finish();
        let mut decoder = Decoder::new(&message);
        assert_eq!((decoder.u8().unwrap(), decoder.i64().unwrap()), (7, -3));
        assert_eq!(decoder.text().unwrap(), "key");
        assert!(decoder.u8().is_err());
    }

    #[test]
    fn damaged_messages_are_errors() {
        let message = Encoder::default().u64(u64::MAX).finish();
        assert!(Decoder::new(&message).bytes().is_err());
        assert!(read_message(&mut &message[..]).is_err());
        for length in 0..8 {
            assert!(read_message(&mut &message[..length]).is_err());
        }
    }
}
