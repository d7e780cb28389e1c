//! The engine by NCCL: tensors on GPUs are moved from device to device by groups of `ncclSend` and `ncclRecv`, and reduced on the device by
//! operators, in the tree of all engines. All else, such as signatures, errors and tensors on the host, is sent by the engine over TCP.

mod library;

use super::{Setup, tcp};
use crate::transport::{Communicator, Engine, Members};
use flambeau_core::{Device, DeviceType, Result, error};
use flambeau_cuda::Stream;
use library::Library;
use std::time::Duration;

/// The name of the engine.
pub(super) const NAME: &str = "nccl";

/// Whether there is a library of NCCL with the functions that are called.
pub fn is_available() -> bool {
    library::open().is_ok()
}

struct Nccl {
    library: &'static Library,
    messages: Box<dyn Engine>,
}

/// Opens the library, and connects this rank to all others by TCP.
///
/// # Errors
/// `Io` where there is no library, naming where it was looked for; those of the engine over TCP.
pub(super) fn connect(setup: &Setup<'_>) -> Result<Box<dyn Engine>> {
    let library = library::open()?;
    Ok(Box::new(Nccl { library, messages: tcp::connect(setup)? }))
}

impl Engine for Nccl {
    fn name(&self) -> &'static str {
        NAME
    }

    fn send(&self, to: usize, header: &[u8], payload: &[u8], timeout: Duration) -> Result<()> {
        self.messages.send(to, header, payload, timeout)
    }

    fn try_send(&self, to: usize, header: &[u8], patience: Duration) {
        self.messages.try_send(to, header, patience);
    }

    fn moves(&self, device: Device) -> bool {
        device.device_type() == DeviceType::Cuda
    }

    fn communicator(&self, members: &Members<'_>) -> Result<Box<dyn Communicator>> {
        let device = members.device;
        let index = device.index().ok_or_else(|| {
            error!(Device, "expected a tensor on a device with a number but got one on {device}")
        })?;
        let stream = Stream::new(index)?;
        // The library joins with the device that is current.
        let _current = stream.enter()?;
        let key = format!("nccl/{}", members.name);
        let id = match members.rank {
            0 => {
                let made = self.library.unique_id();
                // The others get the text of an error instead.
                let told = made.as_ref().map_or_else(|e| e.message().as_bytes(), |id| &id[..]);
                members.store.set(&key, told)?;
                made?.to_vec()
            }
            _ => members.store.get(&key, members.timeout)?,
        };
        Ok(Box::new(self.library.join(&id, members.rank, members.size, stream)?))
    }
}
