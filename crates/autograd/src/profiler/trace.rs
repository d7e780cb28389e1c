//! A profile in the trace event format of Chrome: <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>.

use super::{Event, Input, Kind, Profile, ThreadLog};
use flambeau_core::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::process;

impl Profile {
    /// The events as Chrome (`chrome://tracing`) and Perfetto read them: JSON with a row for each thread, arrows from operators to
    /// their backward nodes, and the bytes in tensors.
    pub fn chrome_trace(&self) -> String {
        write(self)
    }

    /// Writes that to a file.
    ///
    /// # Errors
    /// `Io` if it cannot be written.
    pub fn export_chrome_trace(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        std::fs::write(path, self.chrome_trace())
            .map_err(|error| Error::new(ErrorKind::Io, format!("{}: {error}", path.display())))
    }
}

fn write(profile: &Profile) -> String {
    let mut trace = Trace { text: String::new(), pid: process::id(), origin: profile.start() };
    for thread in profile.threads() {
        trace.thread(thread);
    }
    for (time, live) in profile.live_bytes() {
        trace.memory(time, live);
    }
    trace.flows(profile);
    format!(
        "{{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n{}\n]}}\n",
        trace.text.trim_end_matches(",\n")
    )
}

struct Trace {
    text: String,
    pid: u32,
    origin: u64,
}

/// Nanoseconds as the microseconds of the format.
fn micros(nanoseconds: u64) -> String {
    format!("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000)
}

impl Trace {
    fn push(&mut self, phase: &str, thread: usize, fields: &str) {
        let pid = self.pid;
        let _ = writeln!(self.text, "{{\"ph\": \"{phase}\", \"pid\": {pid}, \"tid\": {thread}, {fields}}},");
    }

    fn time(&self, time: u64) -> String {
        micros(time.saturating_sub(self.origin))
    }

    fn thread(&mut self, thread: &ThreadLog) {
        let name = thread.name.clone().unwrap_or_else(|| format!("thread {}", thread.thread));
        let fields = format!("\"name\": \"thread_name\", \"args\": {{\"name\": {}}}", quoted(&name));
        self.push("M", thread.thread, &fields);
        for event in &thread.events {
            let fields = format!(
                "\"name\": {}, \"cat\": \"{}\", \"ts\": {}, \"dur\": {}, \"args\": {{{}}}",
                quoted(&event.name),
                category(event.kind),
                self.time(event.start),
                micros(event.end - event.start),
                arguments(event)
            );
            self.push("X", thread.thread, &fields);
        }
    }

    fn memory(&mut self, time: u64, live: u64) {
        let time = self.time(time);
        let fields =
            format!("\"name\": \"memory\", \"ts\": {time}, \"args\": {{\"bytes in tensors\": {live}}}");
        self.push("C", 0, &fields);
    }

    /// An arrow from each operator that recorded a node to that node's backward. Each thread numbers its nodes on its own: the node
    /// belongs to the operator of the same thread, or else to that of another thread if only one has recorded this number.
    fn flows(&mut self, profile: &Profile) {
        let forward = operators(profile);
        let mut arrows = 0;
        for thread in profile.threads() {
            for event in thread.events.iter().filter(|event| event.kind == Kind::Backward) {
                let recorded = event.sequence.and_then(|number| forward.get(&number));
                let Some((from, operator)) = recorded.and_then(|all| operator_of(all, thread.thread)) else {
                    continue;
                };
                let start = format!("\"name\": \"fwdbwd\", \"cat\": \"fwdbwd\", \"id\": {arrows}, \"ts\": ");
                let (tail, head) = (self.time(operator.start), self.time(event.start));
                self.push("s", from, &format!("{start}{tail}"));
                self.push("f", thread.thread, &format!("{start}{head}, \"bp\": \"e\""));
                arrows += 1;
            }
        }
    }
}

/// The innermost operator of each thread that recorded the node of a number.
type Recorded<'p> = HashMap<u64, Vec<(usize, &'p Event)>>;

fn operators(profile: &Profile) -> Recorded<'_> {
    let mut recorded = Recorded::new();
    for thread in profile.threads() {
        for event in thread.events.iter().filter(|event| event.kind == Kind::Operator) {
            let Some(number) = event.sequence else { continue };
            let all = recorded.entry(number).or_default();
            // Events that come later in the list are nested deeper.
            all.retain(|(other, _)| *other != thread.thread);
            all.push((thread.thread, event));
        }
    }
    recorded
}

fn operator_of<'p>(all: &[(usize, &'p Event)], thread: usize) -> Option<(usize, &'p Event)> {
    let own = all.iter().find(|(other, _)| *other == thread);
    own.or(if let [only] = all { Some(only) } else { None }).copied()
}

fn category(kind: Kind) -> &'static str {
    match kind {
        Kind::Operator => "cpu_op",
        Kind::Backward => "backward",
        _ => "user_annotation",
    }
}

fn arguments(event: &Event) -> String {
    let mut arguments = Vec::new();
    if let Some(inputs) = &event.inputs {
        let list = |of: &dyn Fn(&Input) -> String| inputs.iter().map(of).collect::<Vec<_>>().join(", ");
        arguments.push(format!("\"Input Dims\": [{}]", list(&|input| format!("{:?}", input.sizes))));
        arguments.push(format!("\"Input type\": [{}]", list(&|input| quoted(&input.dtype.to_string()))));
    }
    if let Some(number) = event.sequence {
        arguments.push(format!("\"Sequence number\": {number}"));
    }
    if event.bytes != 0 {
        arguments.push(format!("\"Bytes\": {}", event.bytes));
    }
    arguments.join(", ")
}

/// A string of JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c < ' ' => _ = write!(quoted, "\\u{:04x}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
