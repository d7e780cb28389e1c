//! Events summed by name: their number, and their time with and without the events inside them.

use flambeau_core::profiler::{Event, Input, Kind, ThreadLog};
use std::collections::HashMap;

/// All events of one name, or of one name and one list of inputs. Times are in nanoseconds.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Average {
    /// Their name.
    pub name: String,
    /// Their kind.
    pub kind: Kind,
    /// Their input tensors, if events are grouped by them.
    pub inputs: Option<Box<[Input]>>,
    /// How many there were.
    pub count: u64,
    /// How long they took, with the events inside them. An event inside another of the same name is not counted twice.
    pub total_time: u64,
    /// How long they took, without the events inside them.
    pub self_time: u64,
    /// Bytes allocated minus bytes freed, with the events inside them. An event inside another of the same name is not counted twice.
    pub total_bytes: i64,
    /// Bytes allocated minus bytes freed, without the events inside them.
    pub self_bytes: i64,
}

impl Average {
    /// The mean of the total time of one, in nanoseconds.
    pub fn mean_time(&self) -> f64 {
        self.total_time as f64 / self.count as f64
    }
}

/// Averages, sorted by the time without the events inside them, the longest first.
#[derive(Debug, Clone, Default)]
pub struct Averages {
    pub(super) all: Vec<Average>,
    pub(super) has_memory: bool,
}

impl std::ops::Deref for Averages {
    type Target = [Average];

    fn deref(&self) -> &[Average] {
        &self.all
    }
}

impl Averages {
    pub(super) fn of(threads: &[ThreadLog], by_inputs: bool) -> Self {
        let mut sums = Sums { by_inputs, ..Sums::default() };
        threads.iter().for_each(|thread| sums.add(thread));
        let mut all = sums.all;
        all.sort_by_key(|average| std::cmp::Reverse(average.self_time));
        Averages { all, has_memory: threads.iter().any(|thread| !thread.memory.is_empty()) }
    }

    /// The time of all events without the events inside them: on one thread, the time during which something was recorded.
    pub fn self_time(&self) -> u64 {
        self.all.iter().map(|average| average.self_time).sum()
    }
}

/// What the events of one average have in common.
type Key<'p> = (Kind, &'p str, Option<&'p [Input]>);

#[derive(Default)]
struct Sums<'p> {
    by_inputs: bool,
    indices: HashMap<Key<'p>, usize>,
    all: Vec<Average>,
}

impl<'p> Sums<'p> {
    fn key(&self, event: &'p Event) -> Key<'p> {
        let inputs = event.inputs.as_deref().filter(|_| self.by_inputs);
        (event.kind, &event.name, inputs)
    }

    fn add(&mut self, thread: &'p ThreadLog) {
        let within = Within::of(thread);
        for (at, event) in thread.events.iter().enumerate() {
            let key = self.key(event);
            let is_outermost = ancestors(thread, event).all(|outer| self.key(outer) != key);
            let duration = event.end - event.start;
            let average = self.average(key);
            average.count += 1;
            average.self_time += duration.saturating_sub(within.time[at]);
            average.self_bytes += event.bytes;
            if is_outermost {
                average.total_time += duration;
                average.total_bytes += event.bytes + within.bytes[at];
            }
        }
    }

    fn average(&mut self, key: Key<'p>) -> &mut Average {
        let next = self.all.len();
        let at = *self.indices.entry(key).or_insert(next);
        if at == next {
            let (kind, name, inputs) = key;
            self.all.push(Average {
                name: name.to_owned(),
                kind,
                inputs: inputs.map(Into::into),
                count: 0,
                total_time: 0,
                self_time: 0,
                total_bytes: 0,
                self_bytes: 0,
            });
        }
        &mut self.all[at]
    }
}

fn ancestors<'p>(thread: &'p ThreadLog, event: &'p Event) -> impl Iterator<Item = &'p Event> {
    std::iter::successors(Some(event), |event| thread.events.get(event.parent?)).skip(1)
}

/// For each event of a thread the time of the events directly inside it, and the bytes of all inside it.
struct Within {
    time: Vec<u64>,
    bytes: Vec<i64>,
}

impl Within {
    /// An event comes after the one that contains it. So in reverse order each is complete when it is added to its parent.
    fn of(thread: &ThreadLog) -> Self {
        let count = thread.events.len();
        let mut within = Within { time: vec![0; count], bytes: vec![0; count] };
        for (at, event) in thread.events.iter().enumerate().rev() {
            if let Some(parent) = event.parent {
                within.time[parent] += event.end - event.start;
                within.bytes[parent] += event.bytes + within.bytes[at];
            }
        }
        within
    }
}
