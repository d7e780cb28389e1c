//! The handle of a collective that runs in the background. PyTorch's `Work`.

use flambeau_core::{Error, ErrorKind, Result, error};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A collective or a message that runs in the background. Dropping the handle does not stop it.
#[derive(Clone)]
#[must_use = "the tensors have their results only after `wait`"]
pub struct Work(Arc<Shared>);

struct Shared {
    name: String,
    outcome: Mutex<Option<Outcome>>,
    completed: Condvar,
    /// When the call has failed if nothing has completed it, and what is done then.
    deadline: Option<(Instant, Box<dyn Fn() + Send + Sync>)>,
}

/// From which rank a message was received, if it was, or the kind and text of an error.
type Outcome = std::result::Result<Option<usize>, (ErrorKind, String)>;

impl Work {
    /// A call that has not completed.
    pub(crate) fn new(name: String) -> Self {
        Work(Arc::new(Shared { name, outcome: Mutex::new(None), completed: Condvar::new(), deadline: None }))
    }

    /// The same, which fails if it is not completed at `end`; `cancel` is called then.
    pub(crate) fn until(name: String, end: Instant, cancel: impl Fn() + Send + Sync + 'static) -> Self {
        let deadline = Some((end, Box::new(cancel) as Box<dyn Fn() + Send + Sync>));
        Work(Arc::new(Shared { name, outcome: Mutex::new(None), completed: Condvar::new(), deadline }))
    }

    /// Completes it, unless that has happened.
    pub(crate) fn complete(&self, outcome: Result<Option<usize>>) {
        let outcome = outcome.map_err(|e| (e.kind(), e.message().to_owned()));
        self.0.outcome.lock().get_or_insert(outcome);
        self.0.completed.notify_all();
    }

    /// Whether it has completed, with or without an error.
    pub fn is_completed(&self) -> bool {
        self.0.outcome.lock().is_some()
    }

    /// Whether it has completed without an error.
    pub fn is_success(&self) -> bool {
        matches!(&*self.0.outcome.lock(), Some(Ok(_)))
    }

    /// Waits until it has completed; every call has a deadline, the timeout of its group.
    ///
    /// # Errors
    /// `Io` where a rank has ended or is late, `InvalidArgument` where the ranks made different calls.
    pub fn wait(&self) -> Result<()> {
        self.wait_until(None).map(drop)
    }

    /// Waits at most for `timeout`. The call goes on if it has not completed then.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), and `Io` where it has not completed.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<()> {
        match self.poll(timeout)? {
            true => Ok(()),
            false => Err(error!(Io, "{}: not completed after {timeout:?}", self.0.name)),
        }
    }

    /// Waits at most for `timeout`, and says whether it has completed.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn poll(&self, timeout: Duration) -> Result<bool> {
        Ok(self.wait_until(Instant::now().checked_add(timeout))?.is_some())
    }

    /// The rank from which a message was received; `None` before, and for other calls.
    pub fn source_rank(&self) -> Option<usize> {
        self.0.outcome.lock().as_ref()?.as_ref().ok().copied().flatten()
    }

    /// The outcome, or `None` if the call has not completed at `end`.
    fn wait_until(&self, end: Option<Instant>) -> Result<Option<Option<usize>>> {
        let mut outcome = self.0.outcome.lock();
        loop {
            match &*outcome {
                Some(Ok(source)) => return Ok(Some(*source)),
                Some(Err((kind, message))) => return Err(Error::new(*kind, message.clone())),
                None => {}
            }
            let deadline = self.0.deadline.as_ref().map(|(end, _)| *end);
            let next = [end, deadline].into_iter().flatten().min();
            match next {
                None => self.0.completed.wait(&mut outcome),
                Some(next) if Instant::now() < next => drop(self.0.completed.wait_until(&mut outcome, next)),
                Some(_) if deadline.is_some_and(|deadline| Instant::now() >= deadline) => {
                    let message = format!("{}: the timeout of the group has passed", self.0.name);
                    outcome.get_or_insert(Err((ErrorKind::Io, message)));
                    if let Some((_, cancel)) = &self.0.deadline {
                        cancel();
                    }
                }
                Some(_) => return Ok(None),
            }
        }
    }
}
