//! Loads, stores and atomic operations, and what is checked at each: bounds, alignment, and the order of accesses to shared memory.

use super::lanes::{LANES, RegisterFile, Row, lanes_of};
use crate::fault::{Fault, Status};
use crate::instruction::{Access, Address, Atomic, AtomicOp, Base, FloatType, Mode, Number, Space, window};
use crate::memory::{Memory, read_number, write_number};
use crate::rounding;

/// All memory that the threads of a block reach, but for local memory.
pub(crate) struct Spaces<'a> {
    pub(crate) memory: &'a mut Memory,
    pub(crate) parameters: &'a [u8],
    pub(crate) shared: Shared,
}

/// The shared memory of a block.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) bytes: Vec<u8>,
    /// For each byte, who has accessed it since the last barrier; empty if that is not checked.
    shadow: Vec<Shadow>,
    /// Grows with each barrier; from 1 on.
    epoch: u32,
}

/// The warps that accessed a byte: their numbers, and the epochs in which they did.
#[derive(Clone, Copy, Debug, Default)]
struct Shadow {
    writer: u32,
    written: u32,
    reader: u32,
    read: u32,
}

/// More than one warp.
const MANY: u32 = u32::MAX;

impl Shared {
    /// Memory that nobody has written.
    pub(crate) fn reset(&mut self, bytes: usize, checks: bool) {
        self.bytes.clear();
        self.bytes.resize(bytes, 0xff);
        self.shadow.clear();
        self.shadow.resize(if checks { bytes } else { 0 }, Shadow::default());
        self.epoch = 1;
    }

    /// All threads have waited for each other.
    pub(crate) fn pass_barrier(&mut self) {
        self.epoch += 1;
    }

    fn range(&self, address: u64, bytes: u64) -> Result<std::ops::Range<usize>, Fault> {
        let length = self.bytes.len() as u64;
        if address > length || bytes > length - address {
            let text = format!("{bytes} bytes at {address:#x} of shared memory, which has {length} bytes");
            return Err(Fault::new(Status::ERROR_ILLEGAL_ADDRESS, text));
        }
        Ok(address as usize..(address + bytes) as usize)
    }

    fn note(&mut self, range: std::ops::Range<usize>, warp: u32, writes: bool) -> Result<(), Fault> {
        let epoch = self.epoch;
        let start = range.start;
        for shadow in self.shadow.get_mut(range).unwrap_or_default() {
            let written_by_other = shadow.written == epoch && shadow.writer != warp;
            let read_by_other = shadow.read == epoch && shadow.reader != warp;
            let problem = match () {
                () if !writes && shadow.written == 0 => Some("that no thread has written"),
                () if written_by_other => Some("that another warp has written since the last barrier"),
                () if writes && read_by_other => Some("that another warp has read since the last barrier"),
                () => None,
            };
            if let Some(problem) = problem {
                let text = format!("shared memory at {start:#x} {problem}");
                return Err(Fault::new(Status::ERROR_LAUNCH_FAILED, text));
            }
            if writes {
                (shadow.writer, shadow.written) = (warp, epoch);
            } else {
                shadow.reader = if read_by_other { MANY } else { warp };
                shadow.read = epoch;
            }
        }
        Ok(())
    }
}

/// What of a warp an access needs beside its registers.
pub(crate) struct Owner<'a> {
    pub(crate) warp: u32,
    /// Local memory, lane after lane.
    pub(crate) local: &'a mut [u8],
    pub(crate) local_bytes: u32,
}

impl Owner<'_> {
    fn range(&self, address: u64, bytes: u64, lane: usize) -> Result<std::ops::Range<usize>, Fault> {
        let length = u64::from(self.local_bytes);
        if address > length || bytes > length - address {
            let text = format!("{bytes} bytes at {address:#x} of local memory, which has {length} bytes");
            return Err(Fault::new(Status::ERROR_ILLEGAL_ADDRESS, text));
        }
        let start = lane * length as usize + address as usize;
        Ok(start..start + bytes as usize)
    }
}

/// The kind of memory of a generic address, and the address in it.
#[inline(always)]
fn resolve(space: Space, address: u64) -> (Space, u64) {
    if space != Space::Generic {
        return (space, address);
    }
    let windows = [Space::Shared, Space::Local, Space::Param];
    let found = windows.into_iter().find(|space| address >> 60 == window(*space) >> 60);
    found.map_or((Space::Global, address), |space| (space, address - window(space)))
}

#[inline(always)]
fn addresses(file: &RegisterFile, address: &Address) -> Row<u64> {
    let offset = address.offset as u64;
    match address.base {
        Base::None => [offset; LANES],
        Base::Narrow(register) => {
            std::array::from_fn(|i| u64::from(file.get::<u32>(register)[i].wrapping_add(offset as u32)))
        }
        Base::Wide(register) => std::array::from_fn(|i| file.get::<u64>(register)[i].wrapping_add(offset)),
    }
}

#[inline(always)]
fn check_alignment(address: u64, bytes: u64) -> Result<(), Fault> {
    if address & (bytes - 1) == 0 {
        return Ok(());
    }
    let text = format!("{bytes} bytes at {address:#x}, which is no multiple of {bytes}");
    Err(Fault::new(Status::ERROR_MISALIGNED_ADDRESS, text))
}

/// A failure of one lane.
pub(crate) type LaneFault = (usize, Fault);

impl Spaces<'_> {
    #[inline(always)]
    fn read(
        &mut self,
        owner: &Owner<'_>,
        lane: usize,
        (space, address): (Space, u64),
        bytes: u64,
    ) -> Result<u64, Fault> {
        let content = match space {
            Space::Global | Space::Generic => self.memory.bytes(address, bytes)?,
            Space::Shared => {
                let range = self.shared.range(address, bytes)?;
                self.shared.note(range.clone(), owner.warp, false)?;
                &self.shared.bytes[range]
            }
            Space::Local => &owner.local[owner.range(address, bytes, lane)?],
            Space::Param => {
                let end = address.saturating_add(bytes).min(usize::MAX as u64) as usize;
                self.parameters.get(address as usize..end).ok_or_else(|| {
                    let text = format!(
                        "{bytes} bytes at {address} of {} bytes of parameters",
                        self.parameters.len()
                    );
                    Fault::new(Status::ERROR_ILLEGAL_ADDRESS, text)
                })?
            }
        };
        Ok(read_number(content))
    }

    #[inline(always)]
    fn write(
        &mut self,
        owner: &mut Owner<'_>,
        lane: usize,
        (space, address): (Space, u64),
        bytes: u64,
        value: u64,
    ) -> Result<(), Fault> {
        let content = match space {
            Space::Global | Space::Generic => self.memory.bytes_mut(address, bytes)?,
            Space::Shared => {
                let range = self.shared.range(address, bytes)?;
                self.shared.note(range.clone(), owner.warp, true)?;
                &mut self.shared.bytes[range]
            }
            Space::Local => {
                let range = owner.range(address, bytes, lane)?;
                &mut owner.local[range]
            }
            Space::Param => {
                let text = format!("a store of {bytes} bytes at {address} of the parameters");
                return Err(Fault::new(Status::ERROR_ILLEGAL_ADDRESS, text));
            }
        };
        write_number(content, value);
        Ok(())
    }

    #[inline(always)]
    pub(super) fn load(
        &mut self,
        file: &mut RegisterFile,
        owner: &Owner<'_>,
        access: &Access,
        mask: u32,
    ) -> Result<(), LaneFault> {
        let bytes = u64::from(access.bytes);
        let all = addresses(file, &access.address);
        let total = bytes * access.registers.len() as u64;
        let (above, unused) = (64 - 8 * u32::from(access.bytes), 64 - u32::from(access.register_bits));
        for lane in lanes_of(mask) {
            let (space, address) = resolve(access.address.space, all[lane]);
            check_alignment(address, total).map_err(|fault| (lane, fault))?;
            for (k, register) in access.registers.iter().enumerate() {
                let at = (space, address + k as u64 * bytes);
                let value = self.read(owner, lane, at, bytes).map_err(|fault| (lane, fault))?;
                let Some(register) = register else { continue };
                let value = if access.is_signed { ((value << above) as i64 >> above) as u64 } else { value };
                let value = value << unused >> unused;
                if access.register_bits > 32 {
                    file.wide[usize::from(*register)][lane] = value;
                } else {
                    file.narrow[usize::from(*register)][lane] = value as u32;
                }
            }
        }
        Ok(())
    }

    #[inline(always)]
    pub(super) fn store(
        &mut self,
        file: &RegisterFile,
        owner: &mut Owner<'_>,
        access: &Access,
        mask: u32,
    ) -> Result<(), LaneFault> {
        let bytes = u64::from(access.bytes);
        let all = addresses(file, &access.address);
        let total = bytes * access.registers.len() as u64;
        for lane in lanes_of(mask) {
            let (space, address) = resolve(access.address.space, all[lane]);
            check_alignment(address, total).map_err(|fault| (lane, fault))?;
            for (k, register) in access.registers.iter().enumerate() {
                let Some(register) = register else { continue };
                let value = match access.register_bits > 32 {
                    true => file.wide[usize::from(*register)][lane],
                    false => u64::from(file.narrow[usize::from(*register)][lane]),
                };
                let at = (space, address + k as u64 * bytes);
                self.write(owner, lane, at, bytes, value).map_err(|fault| (lane, fault))?;
            }
        }
        Ok(())
    }

    pub(super) fn atomic(
        &mut self,
        file: &mut RegisterFile,
        owner: &mut Owner<'_>,
        of: &Atomic,
        mask: u32,
    ) -> Result<(), LaneFault> {
        let bits = of.number.bits();
        let (is_wide, bytes) = (bits > 32, u64::from(bits / 8));
        let all = addresses(file, &of.address);
        let (values, replacements) = (file.bits(of.value, is_wide), file.bits(of.replacement, is_wide));
        let mut old = [0u64; LANES];
        for lane in lanes_of(mask) {
            let at = resolve(of.address.space, all[lane]);
            let mut step = || {
                check_alignment(at.1, bytes)?;
                let before = self.read_unordered(owner, lane, at, bytes)?;
                let after = combined(of, before, values[lane], replacements[lane]);
                self.write_unordered(owner, lane, at, bytes, after)?;
                Ok(before)
            };
            old[lane] = step().map_err(|fault| (lane, fault))?;
        }
        if let Some(result) = of.result {
            file.put_bits(result, is_wide, mask, old);
        }
        Ok(())
    }

    /// Atomic operations need no barrier between them.
    fn read_unordered(
        &mut self,
        owner: &Owner<'_>,
        lane: usize,
        at: (Space, u64),
        bytes: u64,
    ) -> Result<u64, Fault> {
        match at.0 {
            Space::Shared => Ok(read_number(&self.shared.bytes[self.shared.range(at.1, bytes)?])),
            _ => self.read(owner, lane, at, bytes),
        }
    }

    fn write_unordered(
        &mut self,
        owner: &mut Owner<'_>,
        lane: usize,
        at: (Space, u64),
        bytes: u64,
        value: u64,
    ) -> Result<(), Fault> {
        if at.0 != Space::Shared {
            return self.write(owner, lane, at, bytes, value);
        }
        let range = self.shared.range(at.1, bytes)?;
        write_number(&mut self.shared.bytes[range], value);
        Ok(())
    }
}

/// What an atomic operation stores.
fn combined(of: &Atomic, old: u64, value: u64, replacement: u64) -> u64 {
    match (of.op, of.number) {
        (AtomicOp::Exchange, _) => value,
        (AtomicOp::CompareAndSwap, _) => {
            if old == value {
                replacement
            } else {
                old
            }
        }
        (AtomicOp::And, _) => old & value,
        (AtomicOp::Or, _) => old | value,
        (AtomicOp::Xor, _) => old ^ value,
        (AtomicOp::Increment, _) => {
            if old >= value {
                0
            } else {
                old + 1
            }
        }
        (AtomicOp::Decrement, _) => {
            if old == 0 || old > value {
                value
            } else {
                old - 1
            }
        }
        (op, Number::Float(ty)) => float_combined(op, ty, old, value),
        (AtomicOp::Add, Number::Int { bits, .. }) => {
            old.wrapping_add(value) & (u64::MAX >> (64 - u32::from(bits)))
        }
        (AtomicOp::Min | AtomicOp::Max, Number::Int { bits, is_signed }) => {
            let above = 64 - u32::from(bits);
            let key = |x: u64| if is_signed { i128::from((x << above) as i64) } else { i128::from(x) };
            let is_value_less = key(value) < key(old);
            if is_value_less == (of.op == AtomicOp::Min) { value } else { old }
        }
    }
}

fn float_combined(op: AtomicOp, ty: FloatType, old: u64, value: u64) -> u64 {
    let (a, b) = (rounding::decode(ty, old), rounding::decode(ty, value));
    let result = match (op, ty) {
        (AtomicOp::Min, _) => a.min(b),
        (AtomicOp::Max, _) => a.max(b),
        (_, FloatType::F64) => a + b,
        _ => rounding::finish(ty, rounding::add(a, b, Mode::PLAIN.rounding), Mode::PLAIN),
    };
    rounding::encode(ty, result)
}
