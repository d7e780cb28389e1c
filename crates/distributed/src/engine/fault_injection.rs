//! Fault injection: messages of another engine are delayed as by a slower network, and a function of the program is called before each.

use crate::simulate::Network;
use crate::transport::{Communicator, Engine, Members, SendHook};
use flambeau_core::{Device, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// An engine with a slower network, or with faults, for tests and measurements.
pub(crate) struct FaultInjection {
    inner: Box<dyn Engine>,
    network: Option<Network>,
    hook: Option<SendHook>,
    /// How many messages were sent.
    sent: AtomicU64,
}

impl FaultInjection {
    /// The engine itself where nothing is injected.
    pub(crate) fn around(
        inner: Box<dyn Engine>,
        network: Option<Network>,
        hook: Option<SendHook>,
    ) -> Box<dyn Engine> {
        if network.is_none() && hook.is_none() {
            return inner;
        }
        Box::new(FaultInjection { inner, network, hook, sent: AtomicU64::new(0) })
    }
}

impl Engine for FaultInjection {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn send(&self, to: usize, header: &[u8], payload: &[u8], timeout: Duration) -> Result<()> {
        let number = self.sent.fetch_add(1, Ordering::Relaxed);
        if let Some(hook) = &self.hook {
            hook(number, to, payload.len());
        }
        if let Some(network) = self.network {
            std::thread::sleep(network.message(payload.len()));
        }
        self.inner.send(to, header, payload, timeout)
    }

    fn try_send(&self, to: usize, header: &[u8], patience: Duration) {
        self.inner.try_send(to, header, patience);
    }

    fn moves(&self, device: Device) -> bool {
        self.inner.moves(device)
    }

    fn communicator(&self, members: &Members<'_>) -> Result<Box<dyn Communicator>> {
        self.inner.communicator(members)
    }
}
