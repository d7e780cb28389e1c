//! Allocations of a device. Addresses are none of the host, are never used again, and have gaps between them, so that every access outside
//! a live allocation is found.

use crate::fault::{Fault, Status};
use std::cell::Cell;
use std::collections::BTreeMap;

/// Addresses of allocations are multiples of this.
const ALIGN: u64 = 512;
/// Unused bytes after each allocation.
const GAP: u64 = 4096;
/// What memory holds before anything is stored.
const UNSET: u8 = 0xff;

/// The memory of one device.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Live allocations, by address.
    regions: Vec<Region>,
    /// Freed ones: address and bytes.
    freed: BTreeMap<u64, u64>,
    next: u64,
    used: u64,
    total: u64,
    /// The allocation that was accessed last.
    last: Cell<usize>,
}

#[derive(Debug)]
struct Region {
    base: u64,
    bytes: Vec<u8>,
}

impl Region {
    /// The position of an access in the allocation; `None` if it is not inside.
    #[inline(always)]
    fn position(&self, address: u64, bytes: u64) -> Option<usize> {
        let position = address.wrapping_sub(self.base);
        let length = self.bytes.len() as u64;
        (position <= length && bytes <= length - position).then_some(position as usize)
    }
}

impl Memory {
    /// The memory of a device: so many bytes, and its number, from which its addresses follow.
    pub(crate) fn new(total: u64, device: u64) -> Self {
        // No process of x86-64 or AArch64 has such addresses, so the host faults if it follows one.
        let next = (0xd0 + device) << 48;
        Memory { regions: Vec::new(), freed: BTreeMap::new(), next, used: 0, total, last: Cell::new(0) }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.total - self.used
    }

    /// How many allocations are live.
    pub(crate) fn count(&self) -> usize {
        self.regions.len()
    }

    /// An allocation; `None` if there is no memory for it.
    pub(crate) fn allocate(&mut self, bytes: u64) -> Option<u64> {
        let length = usize::try_from(bytes).ok()?;
        let mut content = Vec::new();
        if bytes > self.free_bytes() || content.try_reserve_exact(length).is_err() {
            return None;
        }
        content.resize(length, UNSET);
        let base = self.next;
        self.next += bytes.next_multiple_of(ALIGN) + GAP.next_multiple_of(ALIGN);
        self.used += bytes;
        self.regions.push(Region { base, bytes: content });
        Some(base)
    }

    /// Takes an allocation back.
    pub(crate) fn free(&mut self, address: u64) -> Result<(), Fault> {
        match self.regions.binary_search_by_key(&address, |region| region.base) {
            Ok(at) => {
                let region = self.regions.remove(at);
                self.used -= region.bytes.len() as u64;
                self.freed.insert(address, region.bytes.len() as u64);
                Ok(())
            }
            Err(_) if self.freed.contains_key(&address) => {
                Err(Fault::new(Status::ERROR_INVALID_VALUE, format!("{address:#x} is freed twice")))
            }
            Err(_) => Err(Fault::new(
                Status::ERROR_INVALID_VALUE,
                format!("{address:#x} was not allocated, but is freed"),
            )),
        }
    }

    #[inline(always)]
    fn find(&self, address: u64, bytes: u64) -> Option<(usize, usize)> {
        let last = self.last.get();
        if let Some(position) = self.regions.get(last).and_then(|region| region.position(address, bytes)) {
            return Some((last, position));
        }
        let at = self.regions.partition_point(|region| region.base <= address).checked_sub(1)?;
        let position = self.regions[at].position(address, bytes)?;
        self.last.set(at);
        Some((at, position))
    }

    #[cold]
    fn fault(&self, address: u64, bytes: u64) -> Fault {
        let before = |(base, length): (u64, u64)| {
            let end = base + length;
            match address >= end {
                true => format!("{} bytes past the end of", address - end),
                false => format!("{} bytes before the end of", end - address),
            }
        };
        let live = self.regions.iter().rev().find(|region| region.base <= address);
        let live = live.map(|region| (region.base, region.bytes.len() as u64));
        let freed = self.freed.range(..=address).next_back().map(|(base, length)| (*base, *length));
        let text = match (live, freed) {
            (Some((base, _)), Some((freed, length))) if freed > base && address < freed + length => {
                format!("in an allocation of {length} bytes that was freed")
            }
            (None, Some((freed, length))) if address < freed + length => {
                format!("in an allocation of {length} bytes that was freed")
            }
            (Some((base, length)), _) if address - base < length + GAP => {
                format!("{} an allocation of {length} bytes", before((base, length)))
            }
            _ => "in no allocation".to_owned(),
        };
        Fault::new(Status::ERROR_ILLEGAL_ADDRESS, format!("{bytes} bytes at {address:#x}, which is {text}"))
    }

    /// Bytes of an allocation.
    #[inline(always)]
    pub(crate) fn bytes(&self, address: u64, bytes: u64) -> Result<&[u8], Fault> {
        match self.find(address, bytes) {
            Some((at, position)) => Ok(&self.regions[at].bytes[position..position + bytes as usize]),
            None => Err(self.fault(address, bytes)),
        }
    }

    #[inline(always)]
    pub(crate) fn bytes_mut(&mut self, address: u64, bytes: u64) -> Result<&mut [u8], Fault> {
        match self.find(address, bytes) {
            Some((at, position)) => Ok(&mut self.regions[at].bytes[position..position + bytes as usize]),
            None => Err(self.fault(address, bytes)),
        }
    }
}

/// A number of 1, 2, 4 or 8 bytes.
#[inline(always)]
pub(crate) fn read_number(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_le_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

/// Stores a number of 1, 2, 4 or 8 bytes.
#[inline(always)]
pub(crate) fn write_number(bytes: &mut [u8], value: u64) {
    match bytes.len() {
        1 => bytes.copy_from_slice(&(value as u8).to_le_bytes()),
        2 => bytes.copy_from_slice(&(value as u16).to_le_bytes()),
        4 => bytes.copy_from_slice(&(value as u32).to_le_bytes()),
        _ => bytes.copy_from_slice(&value.to_le_bytes()[..bytes.len().min(8)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_access_outside_a_live_allocation_is_found() {
        let mut memory = Memory::new(1 << 20, 0);
        let (a, b) = (memory.allocate(100).unwrap(), memory.allocate(8).unwrap());
        assert_eq!(memory.bytes(a, 100).unwrap(), [UNSET; 100]);
        let text = |fault: Result<&[u8], Fault>| fault.unwrap_err().text;
        assert!(
            text(memory.bytes(a + 97, 4)).contains("3 bytes before the end of an allocation of 100 bytes")
        );
        assert!(
            text(memory.bytes(a + 100, 4)).contains("0 bytes past the end of an allocation of 100 bytes")
        );
        assert!(text(memory.bytes(0, 4)).contains("in no allocation"));
        assert!(text(memory.bytes(u64::MAX - 1, 4)).contains("in no allocation"));
        memory.free(a).unwrap();
        assert!(text(memory.bytes(a + 4, 4)).contains("100 bytes that was freed"));
        assert!(memory.free(a).unwrap_err().text.contains("freed twice"));
        assert!(memory.free(b + 4).unwrap_err().text.contains("was not allocated"));
        assert!(memory.allocate(1 << 20).is_none());
        assert_eq!((memory.count(), memory.free_bytes()), (1, (1 << 20) - 8));
    }
}
