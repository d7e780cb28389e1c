//! Tensors of a device as tensors of the host: each storage is copied once and whole, so that views stay views of each other.

use crate::Tensor;
use flambeau_core::{Device, Result, Storage, TensorImpl};

/// Storages of a device beside their copies on the host.
#[derive(Default)]
pub(crate) struct HostCopies {
    pairs: Vec<Pair>,
}

struct Pair {
    there: Storage,
    here: Storage,
    /// That of the copy when it was made.
    version: u32,
}

impl HostCopies {
    /// A tensor of the host with the elements and the geometry of `tensor`; itself if it is there.
    pub(crate) fn on_host(&mut self, tensor: &Tensor) -> Result<Tensor> {
        if tensor.device().is_cpu() {
            return Ok(tensor.clone());
        }
        let found = self.pairs.iter().find(|pair| Storage::ptr_eq(&pair.there, tensor.storage()));
        let here = match found {
            Some(pair) => pair.here.clone(),
            None => {
                let (there, here) = (tensor.storage().clone(), tensor.storage().copied_to(Device::CPU)?);
                self.pairs.push(Pair { there, here: here.clone(), version: here.version() });
                here
            }
        };
        on_storage(here, tensor)
    }

    /// Brings back what was written to the copies, as their versions tell. Counts as one write.
    pub(crate) fn write_back(&self) -> Result<()> {
        for Pair { there, here, version } in &self.pairs {
            if here.version() == *version {
                continue;
            }
            if here.nbytes() > there.nbytes() {
                there.grow(here.nbytes())?;
            }
            Storage::copy_range((here, 0), (there, 0), here.nbytes())?;
        }
        Ok(())
    }

    /// Gives a tensor the geometry that its copy was given; after [`write_back`](Self::write_back), which makes room.
    pub(crate) fn reshape_back(here: &Tensor, there: &Tensor) -> Result<()> {
        match here.geometry() == there.geometry() {
            true => Ok(()),
            false => there.impl_().set_geometry(here.geometry().clone()),
        }
    }

    /// A result on `device`: a view of the argument whose copy it looks at, or a copy that others which share its storage share.
    pub(crate) fn on_device(&mut self, tensor: &Tensor, device: Device) -> Result<Tensor> {
        if tensor.device() == device {
            return Ok(tensor.clone());
        }
        let found = self.pairs.iter().find(|pair| Storage::ptr_eq(&pair.here, tensor.storage()));
        let there = match found {
            Some(pair) => pair.there.clone(),
            None => {
                let (here, there) = (tensor.storage().clone(), tensor.storage().copied_to(device)?);
                let version = here.version();
                self.pairs.push(Pair { there: there.clone(), here, version });
                there
            }
        };
        on_storage(there, tensor)
    }
}

/// `tensor`, looking at another storage.
fn on_storage(storage: Storage, tensor: &Tensor) -> Result<Tensor> {
    TensorImpl::new(storage, tensor.geometry().clone(), tensor.dtype()).map(Tensor::from_impl)
}
