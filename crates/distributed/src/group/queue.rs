//! A thread that runs the calls of a group one after another.

use super::Core;
use crate::work::Work;
use flambeau_core::{Result, bail};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

type Job = Box<dyn FnOnce(&Core) + Send>;

/// Calls in the order in which they were pushed.
pub(super) struct Queue {
    /// The number of the next call, and where it is pushed; nothing after the end.
    sender: Mutex<Option<(u64, Sender<Job>)>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Queue {
    pub(super) fn start(name: &str, core: &Arc<Core>) -> Result<Self> {
        let (sender, receiver) = channel::<Job>();
        let core = core.clone();
        let run = move || receiver.into_iter().for_each(|job| job(&core));
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Queue { sender: Mutex::new(Some((0, sender))), thread: Mutex::new(Some(thread)) })
    }

    /// Pushes the call that `make` returns for its number.
    pub(super) fn push(&self, make: impl FnOnce(u64) -> (Job, Work)) -> Result<Work> {
        let mut sender = self.sender.lock();
        let Some((next, sender)) = &mut *sender else {
            bail!(InvalidArgument, "the process group was destroyed, and takes no more calls");
        };
        let (job, work) = make(*next);
        *next += 1;
        if sender.send(job).is_err() {
            bail!(Internal, "the thread of the process group has ended");
        }
        Ok(work)
    }

    /// Waits until all calls have run, and ends the thread.
    pub(super) fn finish(&self) {
        drop(self.sender.lock().take());
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.thread().id() != thread::current().id()
        {
            // A call cannot panic: it is caught and becomes its error.
            drop(thread.join());
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.finish();
    }
}
