//! Copies of a device's tensors on the host: each storage is copied once and whole, so that views stay views of each other.

use crate::Tensor;
use flambeau_core::{Device, Result, Storage, TensorImpl};

/// Storages of a device and their copies on the host.
#[derive(Default)]
pub(crate) struct HostCopies {
    pairs: Vec<Pair>,
}

struct Pair {
    /// The storage on the device.
    there: Storage,
    /// Its copy on the host.
    here: Storage,
    /// The version counters of both when the copy was made.
    versions: [u32; 2],
}

impl HostCopies {
    /// A tensor of the host with the elements and the geometry of `tensor`; itself if it is on the host.
    pub(crate) fn on_host(&mut self, tensor: &Tensor) -> Result<Tensor> {
        if tensor.device().is_cpu() {
            return Ok(tensor.clone());
        }
        let found = self.pairs.iter().find(|pair| Storage::ptr_eq(&pair.there, tensor.storage()));
        let here = match found {
            Some(pair) => pair.here.clone(),
            None => {
                let (there, version) = (tensor.storage().clone(), tensor.storage().version());
                let here = there.copied_to(Device::CPU)?;
                let versions = [version, here.version()];
                self.pairs.push(Pair { there, here: here.clone(), versions });
                here
            }
        };
        on_storage(here, tensor)
    }

    /// Copies back the copies that were written, by their version counters. Counts as one write, or two where the storage grows.
    ///
    /// # Errors
    /// `Busy` where another thread has written to the same storage since it was copied: one of both writes would be lost.
    pub(crate) fn write_back(&self) -> Result<()> {
        for Pair { there, here, versions } in &self.pairs {
            if here.version() == versions[1] {
                continue;
            }
            let mut version = versions[0];
            if here.nbytes() > there.nbytes() {
                there.grow(here.nbytes())?;
                version = version.wrapping_add(1);
            }
            Storage::write_back((here, 0), (there, 0), here.nbytes(), version)?;
        }
        Ok(())
    }

    /// Gives a tensor the geometry that its copy was given; after [`write_back`](Self::write_back), which grows the storage.
    pub(crate) fn reshape_back(here: &Tensor, there: &Tensor) -> Result<()> {
        match here.impl_().was_resized() {
            true => there.impl_().set_geometry(here.geometry().clone()),
            false => Ok(()),
        }
    }

    /// A result on `device`: a view of the argument whose copy it is a view of, or else a copy, one for all results of its storage.
    pub(crate) fn on_device(&mut self, tensor: &Tensor, device: Device) -> Result<Tensor> {
        if tensor.device() == device {
            return Ok(tensor.clone());
        }
        let found = self.pairs.iter().find(|pair| Storage::ptr_eq(&pair.here, tensor.storage()));
        let there = match found {
            Some(pair) => pair.there.clone(),
            None => {
                let (here, there) = (tensor.storage().clone(), tensor.storage().copied_to(device)?);
                let versions = [there.version(), here.version()];
                self.pairs.push(Pair { there: there.clone(), here, versions });
                there
            }
        };
        on_storage(there, tensor)
    }
}

/// A tensor like `tensor` on another storage.
fn on_storage(storage: Storage, tensor: &Tensor) -> Result<Tensor> {
    TensorImpl::new(storage, tensor.geometry().clone(), tensor.dtype()).map(Tensor::from_impl)
}
