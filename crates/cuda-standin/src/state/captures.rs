//! Captures: a stream records work instead of running it, and the graph of it is run again and again. What a device does not record is an
//! error, after which the capture gives no graph.

use super::{Answer, Handle, State, Work};
use crate::fault::{Fault, Status};
use crate::state::report;
use std::collections::BTreeMap;

/// What a stream has recorded.
#[derive(Debug)]
pub(crate) struct Capture {
    work: Vec<Work>,
    /// Whether calls that may wait for the device, such as those that allocate, are no errors meanwhile.
    is_relaxed: bool,
    is_invalid: bool,
}

/// Work of a device that was captured.
#[derive(Clone, Debug)]
struct Graph {
    device: usize,
    work: Vec<Work>,
}

/// The graphs, and those that can be run.
#[derive(Debug, Default)]
pub(crate) struct Graphs {
    captured: BTreeMap<Handle, Graph>,
    executable: BTreeMap<Handle, Graph>,
}

impl Graphs {
    pub(crate) fn count(&self) -> usize {
        self.captured.len() + self.executable.len()
    }
}

fn refused(text: &str, status: Status) -> Status {
    report(&Fault::new(status, format!("a stream captures: {text}")))
}

impl State {
    pub(crate) fn is_capturing(&self, stream: Handle) -> bool {
        self.streams.get(&stream).is_some_and(|stream| stream.capture.is_some())
    }

    fn invalidate(&mut self, stream: Handle) {
        if let Some(capture) = self.streams.get_mut(&stream).and_then(|stream| stream.capture.as_mut()) {
            capture.is_invalid = true;
        }
    }

    /// An error if the stream captures, and then the capture is invalid.
    pub(crate) fn refuse_in_capture(&mut self, stream: Handle) -> Answer<()> {
        if !self.is_capturing(stream) {
            return Ok(());
        }
        self.invalidate(stream);
        Err(refused(
            "it cannot be waited for, or be recorded by an event",
            Status::ERROR_STREAM_CAPTURE_UNSUPPORTED,
        ))
    }

    /// An error if a stream of the device captures whose capture is affected by calls that may wait: `always`, or unless it is relaxed.
    pub(crate) fn refuse_waits(&mut self, device: usize, always: bool) -> Answer<()> {
        let mut status = Ok(());
        for stream in self.streams.values_mut().filter(|stream| stream.device == device) {
            if let Some(capture) = stream.capture.as_mut().filter(|capture| always || !capture.is_relaxed) {
                capture.is_invalid = true;
                status = Err(Status::ERROR_STREAM_CAPTURE_UNSUPPORTED);
            }
        }
        status.map_err(|status| refused("calls that may wait for the device are refused", status))
    }

    pub(crate) fn begin_capture(&mut self, stream: Handle, is_relaxed: bool) -> Answer<()> {
        let device = self.stream_device(stream)?;
        if self.device(device)?.legacy == stream {
            return Err(Status::ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        if self.is_capturing(stream) {
            return Err(Status::ERROR_ILLEGAL_STATE);
        }
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.capture = Some(Capture { work: Vec::new(), is_relaxed, is_invalid: false });
        }
        Ok(())
    }

    /// Records work, unless it is of a kind that a device does not record.
    pub(crate) fn record_in_capture(&mut self, stream: Handle, work: Work) -> Answer<()> {
        let refusal = match &work {
            Work::Wait { .. } => {
                Some(("it waits for work that is not captured", Status::ERROR_STREAM_CAPTURE_ISOLATION))
            }
            // More than a device does: the bytes of a copy from memory that is not pinned are those of the call.
            Work::Write { .. } | Work::Free { .. } | Work::Record { .. } => Some((
                "memory that is not pinned, a free, or an event",
                Status::ERROR_STREAM_CAPTURE_UNSUPPORTED,
            )),
            _ => None,
        };
        if let Some((text, status)) = refusal {
            self.invalidate(stream);
            return Err(refused(text, status));
        }
        let capture = self.streams.get_mut(&stream).and_then(|stream| stream.capture.as_mut());
        let capture = capture.ok_or(Status::ERROR_ILLEGAL_STATE)?;
        if capture.is_invalid {
            return Err(Status::ERROR_STREAM_CAPTURE_INVALIDATED);
        }
        capture.work.push(work);
        Ok(())
    }

    /// The graph of what the stream has recorded.
    pub(crate) fn end_capture(&mut self, stream: Handle) -> Answer<Handle> {
        let device = self.stream_device(stream)?;
        let capture = self.streams.get_mut(&stream).and_then(|stream| stream.capture.take());
        let capture = capture.ok_or(Status::ERROR_ILLEGAL_STATE)?;
        if capture.is_invalid {
            return Err(Status::ERROR_STREAM_CAPTURE_INVALIDATED);
        }
        let handle = self.handle();
        self.graphs.captured.insert(handle, Graph { device, work: capture.work });
        Ok(handle)
    }

    pub(crate) fn abandon_capture(&mut self, stream: Handle) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.capture = None;
        }
    }

    pub(crate) fn instantiate(&mut self, graph: Handle) -> Answer<Handle> {
        let graph = self.graphs.captured.get(&graph).ok_or(Status::ERROR_INVALID_HANDLE)?.clone();
        let handle = self.handle();
        self.graphs.executable.insert(handle, graph);
        Ok(handle)
    }

    pub(crate) fn destroy_graph(&mut self, graph: Handle) -> Answer<()> {
        self.graphs.captured.remove(&graph).map(drop).ok_or(Status::ERROR_INVALID_HANDLE)
    }

    /// What is in a stream already runs to its end.
    pub(crate) fn destroy_executable(&mut self, graph: Handle) -> Answer<()> {
        self.graphs.executable.remove(&graph).map(drop).ok_or(Status::ERROR_INVALID_HANDLE)
    }

    /// Puts the work of a graph into a stream, in the order in which it was captured.
    pub(crate) fn launch_graph(&mut self, graph: Handle, stream: Handle) -> Answer<()> {
        let graph = self.graphs.executable.get(&graph).ok_or(Status::ERROR_INVALID_HANDLE)?.clone();
        if self.stream_device(stream)? != graph.device {
            return Err(Status::ERROR_INVALID_HANDLE);
        }
        // A device makes it a part of the other graph, which the library does not use.
        self.refuse_in_capture(stream)?;
        graph.work.into_iter().try_for_each(|work| self.submit(stream, work))
    }
}
