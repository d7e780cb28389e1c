//! Messages that have arrived: those that nobody has received yet, and the calls that wait for one.

use super::frame::{Channel, Frame};
use flambeau_core::{Error, ErrorKind, Result, error};
use parking_lot::{Condvar, Mutex};
use std::collections::{HashMap, VecDeque};
use std::time::Instant;

/// How many bytes of messages that nobody has received a process holds. Above it no more are read, and senders wait.
const ROOM: usize = 256 << 20;

/// Messages of all groups.
pub(crate) struct Mailbox {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    queues: HashMap<(u64, usize, Channel), VecDeque<Frame>>,
    /// Calls that wait for a message of a tag, in the order in which they were made.
    receives: VecDeque<Receive>,
    /// Why a rank sends nothing any more.
    lost: Vec<Option<String>>,
    /// Why groups are broken.
    broken: HashMap<u64, String>,
    /// How many bytes the queues have.
    held: usize,
}

/// What a message is delivered to.
type Deliver = Box<dyn FnOnce(Result<(usize, Frame)>) + Send>;

/// A call that waits for a message of a tag.
pub(crate) struct Receive {
    pub(crate) id: u64,
    pub(crate) group: u64,
    /// From which rank; from any of them with `None`.
    pub(crate) source: Option<usize>,
    pub(crate) tag: i64,
    pub(crate) deliver: Deliver,
}

impl Receive {
    fn takes(&self, group: u64, source: usize, channel: Channel) -> bool {
        self.group == group
            && self.source.is_none_or(|expected| expected == source)
            && channel == Channel::Message(self.tag)
    }
}

impl State {
    fn pop(&mut self, group: u64, source: usize, channel: Channel) -> Option<Frame> {
        let frame = self.queues.get_mut(&(group, source, channel))?.pop_front()?;
        self.held = self.held.saturating_sub(frame.payload.nbytes());
        Some(frame)
    }
}

impl Mailbox {
    pub(super) fn new(size: usize) -> Self {
        let state = State {
            queues: HashMap::new(),
            receives: VecDeque::new(),
            lost: vec![None; size],
            broken: HashMap::new(),
            held: 0,
        };
        Mailbox { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Gives a message to the call that waits for it, or stores it.
    pub(super) fn deliver(&self, source: usize, frame: Frame) {
        let mut state = self.state.lock();
        let (group, channel) = (frame.signature.group, frame.channel);
        if let Some(index) = state.receives.iter().position(|receive| receive.takes(group, source, channel)) {
            let receive = state.receives.remove(index);
            drop(state);
            if let Some(receive) = receive {
                (receive.deliver)(Ok((source, frame)));
            }
            return;
        }
        state.held += frame.payload.nbytes();
        state.queues.entry((group, source, channel)).or_default().push_back(frame);
        self.changed.notify_all();
    }

    /// Waits until there is room for more messages, or the rank is lost.
    pub(super) fn wait_for_room(&self, peer: usize) {
        let mut state = self.state.lock();
        while state.held > ROOM && state.lost[peer].is_none() {
            self.changed.wait(&mut state);
        }
    }

    /// Whether there is room for more messages.
    pub(super) fn has_room(&self) -> bool {
        self.state.lock().held <= ROOM
    }

    /// The next message of a rank in a channel.
    ///
    /// # Errors
    /// `Io` where the group is broken, the rank has ended, or the deadline has passed.
    pub(crate) fn next(
        &self,
        group: u64,
        source: usize,
        channel: Channel,
        end: Option<Instant>,
    ) -> Result<Frame> {
        let mut state = self.state.lock();
        loop {
            if let Some(frame) = state.pop(group, source, channel) {
                self.changed.notify_all();
                return Ok(frame);
            }
            let reason = state.broken.get(&group).or(state.lost[source].as_ref());
            if let Some(reason) = reason {
                return Err(Error::new(ErrorKind::Io, reason.clone()));
            }
            match end {
                None => self.changed.wait(&mut state),
                Some(end) if Instant::now() >= end => return Err(error!(Io, "timeout")),
                Some(end) => drop(self.changed.wait_until(&mut state, end)),
            }
        }
    }

    /// Whether the rank has sent a message to the channel that nobody has received.
    pub(crate) fn has_message(&self, group: u64, source: usize, channel: Channel) -> bool {
        let state = self.state.lock();
        state.queues.get(&(group, source, channel)).is_some_and(|queue| !queue.is_empty())
    }

    /// Delivers the first message that fits, now or when it arrives.
    pub(crate) fn receive(&self, receive: Receive, ranks: &[usize]) {
        let mut state = self.state.lock();
        let channel = Channel::Message(receive.tag);
        let sources: &[usize] = match &receive.source {
            Some(source) => std::slice::from_ref(source),
            None => ranks,
        };
        let found =
            sources.iter().find_map(|source| Some((*source, state.pop(receive.group, *source, channel)?)));
        let reason = || {
            let lost =
                || sources.iter().map(|source| state.lost[*source].as_ref()).collect::<Option<Vec<_>>>();
            state.broken.get(&receive.group).or_else(|| lost()?.first().copied()).cloned()
        };
        let outcome = match found {
            Some(found) => Some(Ok(found)),
            None => reason().map(|reason| Err(Error::new(ErrorKind::Io, reason))),
        };
        let Some(outcome) = outcome else {
            state.receives.push_back(receive);
            return;
        };
        self.changed.notify_all();
        drop(state);
        (receive.deliver)(outcome);
    }

    /// Removes a call that no longer waits.
    pub(crate) fn cancel(&self, id: u64) {
        self.state.lock().receives.retain(|receive| receive.id != id);
    }

    /// Says that a rank sends nothing any more.
    pub(super) fn lose(&self, peer: usize, reason: String) {
        let mut state = self.state.lock();
        state.lost[peer].get_or_insert(reason.clone());
        let waiting = take(&mut state.receives, |receive| receive.source == Some(peer));
        self.changed.notify_all();
        drop(state);
        fail(waiting, &reason);
    }

    /// Says that a group is broken.
    pub(crate) fn break_group(&self, group: u64, reason: String) {
        let mut state = self.state.lock();
        state.broken.entry(group).or_insert(reason.clone());
        let waiting = take(&mut state.receives, |receive| receive.group == group);
        self.changed.notify_all();
        drop(state);
        fail(waiting, &reason);
    }

    /// Why a group is broken.
    pub(crate) fn broken(&self, group: u64) -> Option<String> {
        self.state.lock().broken.get(&group).cloned()
    }

    /// Why a rank sends nothing any more.
    pub(crate) fn reason(&self, peer: usize) -> Option<String> {
        self.state.lock().lost.get(peer)?.clone()
    }
}

/// Removes the calls that fulfil a condition.
fn take(receives: &mut VecDeque<Receive>, condition: impl Fn(&Receive) -> bool) -> Vec<Receive> {
    let (taken, kept) = std::mem::take(receives).into_iter().partition(condition);
    *receives = Vec::into(kept);
    taken
}

fn fail(receives: Vec<Receive>, reason: &str) {
    for receive in receives {
        (receive.deliver)(Err(Error::new(ErrorKind::Io, reason.to_owned())));
    }
}
