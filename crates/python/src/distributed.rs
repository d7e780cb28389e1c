//! Stores, process groups, reducers and checkpoints: what the package `flambeau.distributed` is made of.

mod checkpoint;
mod reducer;

use crate::call::detached_owning;
use crate::errors::raise;
use crate::tensor::{PyTensor, wrap};
use flambeau_core::{Error, ErrorKind, Result};
use flambeau_distributed::simulate::Network;
use flambeau_distributed::store::TcpStoreOptions;
use flambeau_distributed::{
    FileStore, HashStore, PrefixStore, ProcessGroup, ProcessGroupOptions, ReduceOp, Store, TcpStore, Work,
};
use flambeau_ops::Tensor;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

type TensorObject<'py> = Bound<'py, PyTensor>;

/// How often a call that waits looks for signals, such as that of Ctrl-C.
const INTERVAL: Duration = Duration::from_millis(100);

/// A failed communication as the exception of PyTorch's name; other errors as everywhere.
fn raise_as(class: &str, error: Error) -> PyErr {
    if error.kind() != ErrorKind::Io {
        return raise(error);
    }
    Python::attach(|py| {
        let made = || py.import("flambeau.distributed.errors")?.getattr(class)?.call1((error.message(),));
        made().map_or_else(|raised| raised, PyErr::from_value)
    })
}

fn of_store(error: Error) -> PyErr {
    raise_as("DistStoreError", error)
}

fn of_group(error: Error) -> PyErr {
    raise_as("DistBackendError", error)
}

/// Seconds as a time; those that no clock can measure are the longest one.
fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}

/// Calls without the interpreter's lock.
fn without_lock<R: Send>(py: Python<'_>, work: impl FnOnce() -> Result<R> + Send) -> PyResult<R> {
    detached_owning(py, work).map_err(of_store)
}

fn tensors(objects: &[TensorObject<'_>]) -> Vec<Tensor> {
    objects.iter().map(|object| object.get().tensor().clone()).collect()
}

/// Keys and values that all processes see.
#[pyclass(name = "_Store", module = "flambeau", frozen)]
struct PyStore {
    store: Arc<dyn Store>,
    /// The port of a store over TCP.
    #[pyo3(get)]
    port: Option<u16>,
}

#[pymethods]
impl PyStore {
    #[staticmethod]
    #[pyo3(signature = (host, port, is_master, timeout, world_size))]
    fn tcp(
        py: Python<'_>,
        host: String,
        port: u16,
        is_master: bool,
        timeout: f64,
        world_size: Option<usize>,
    ) -> PyResult<Self> {
        let options = TcpStoreOptions { is_master, timeout: duration(timeout), world_size };
        let opened = detached_owning(py, || TcpStore::new(&host, port, &options));
        let store = opened.map_err(|e| raise_as("DistNetworkError", e))?;
        Ok(PyStore { port: Some(store.port()), store: Arc::new(store) })
    }

    #[staticmethod]
    fn file(path: String) -> PyResult<Self> {
        Ok(PyStore { store: Arc::new(FileStore::new(path).map_err(of_store)?), port: None })
    }

    #[staticmethod]
    fn hash() -> Self {
        PyStore { store: Arc::new(HashStore::default()), port: None }
    }

    fn prefixed(&self, prefix: String) -> Self {
        PyStore { store: Arc::new(PrefixStore::new(prefix, self.store.clone())), port: self.port }
    }

    fn set(&self, py: Python<'_>, key: String, value: Vec<u8>) -> PyResult<()> {
        without_lock(py, || self.store.set(&key, &value))
    }

    /// Waits in short intervals, between which Ctrl-C has its effect.
    fn get<'py>(&self, py: Python<'py>, key: String, timeout: f64) -> PyResult<Bound<'py, PyBytes>> {
        let (begin, timeout) = (Instant::now(), duration(timeout));
        while !without_lock(py, || self.store.check(&[&key]))? && begin.elapsed() < timeout {
            py.check_signals()?;
            let left = timeout.saturating_sub(begin.elapsed()).min(INTERVAL);
            // A key that is not set yet is no error before the end.
            drop(detached_owning(py, || self.store.get(&key, left)));
        }
        let value = without_lock(py, || match self.store.check(&[&key])? {
            true => self.store.get(&key, INTERVAL),
            false => Err(Error::new(
                ErrorKind::Io,
                format!("wait timeout after {timeout:?}: no process has set the key {key:?} of the store"),
            )),
        })?;
        Ok(PyBytes::new(py, &value))
    }

    fn add(&self, py: Python<'_>, key: String, amount: i64) -> PyResult<i64> {
        without_lock(py, || self.store.add(&key, amount))
    }

    fn compare_set<'py>(
        &self,
        py: Python<'py>,
        key: String,
        expected: Vec<u8>,
        desired: Vec<u8>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let value = without_lock(py, || self.store.compare_set(&key, &expected, &desired))?;
        Ok(PyBytes::new(py, &value))
    }

    fn delete_key(&self, py: Python<'_>, key: String) -> PyResult<bool> {
        without_lock(py, || self.store.delete_key(&key))
    }

    fn check(&self, py: Python<'_>, keys: Vec<String>) -> PyResult<bool> {
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        without_lock(py, || self.store.check(&keys))
    }

    fn num_keys(&self, py: Python<'_>) -> PyResult<usize> {
        without_lock(py, || self.store.num_keys())
    }
}

/// A call that runs in the background, and the tensors that have its results afterwards.
#[pyclass(name = "Work", module = "flambeau.distributed", frozen)]
struct PyWork(Work, Vec<Tensor>);

#[pymethods]
impl PyWork {
    /// Waits until the call has completed, and raises its error. `timeout` is a time or seconds.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<Bound<'_, PyAny>>) -> PyResult<bool> {
        let seconds = |timeout: Bound<'_, PyAny>| match timeout.extract::<f64>() {
            Ok(seconds) => Ok(seconds),
            Err(_) => timeout.call_method0("total_seconds")?.extract::<f64>(),
        };
        let (begin, timeout) = (Instant::now(), timeout.map(seconds).transpose()?.map(duration));
        loop {
            let left =
                timeout.map_or(INTERVAL, |timeout| timeout.saturating_sub(begin.elapsed()).min(INTERVAL));
            if detached_owning(py, || self.0.poll(left)).map_err(of_group)? {
                return Ok(true);
            }
            py.check_signals()?;
            if timeout.is_some_and(|timeout| begin.elapsed() >= timeout) {
                return detached_owning(py, || self.0.wait_timeout(Duration::ZERO))
                    .map_err(of_group)
                    .map(|()| true);
            }
        }
    }

    /// Whether the call has completed, with or without an error.
    fn is_completed(&self) -> bool {
        self.0.is_completed()
    }

    /// Whether the call has completed without an error.
    fn is_success(&self) -> bool {
        self.0.is_success()
    }

    /// The tensors that have the results of a call that has completed.
    fn result(&self) -> Vec<Wrapped> {
        self.1.iter().cloned().map(Wrapped).collect()
    }

    /// A future of these tensors.
    fn get_future<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let class = slf.py().import("flambeau.distributed.futures")?.getattr("WorkFuture")?;
        class.call1((slf, slf.get().result()))
    }

    /// The rank from which a message was received.
    fn source_rank(&self) -> Option<usize> {
        self.0.source_rank()
    }
}

/// Ranks that call collectives together.
#[pyclass(name = "_ProcessGroup", module = "flambeau", frozen)]
struct PyProcessGroup(ProcessGroup);

/// Seconds that a message takes, and bytes a second, of a slower network than there is.
type Delay = Option<(f64, f64)>;

fn options(engine: String, timeout: f64, debug: Option<bool>, network: Delay) -> ProcessGroupOptions {
    let network = network.map(|(latency, bandwidth)| Network { latency, bandwidth });
    let default = ProcessGroupOptions::default();
    ProcessGroupOptions {
        engine,
        timeout: duration(timeout),
        debug: debug.unwrap_or(default.debug),
        network,
        ..default
    }
}

/// A reduction by its name, with the factor of `PREMUL_SUM`.
fn op_of((name, factor): (String, f64)) -> PyResult<ReduceOp> {
    ReduceOp::from_name(&name, factor).map_err(raise)
}

impl PyProcessGroup {
    /// Starts a call; the queue may be full of others, so the interpreter's lock is free meanwhile.
    fn start(
        &self,
        py: Python<'_>,
        results: &[Tensor],
        call: impl FnOnce(&ProcessGroup) -> Result<Work> + Send,
    ) -> PyResult<PyWork> {
        let work = detached_owning(py, || call(&self.0)).map_err(of_group)?;
        Ok(PyWork(work, results.to_vec()))
    }
}

#[pymethods]
impl PyProcessGroup {
    #[staticmethod]
    #[pyo3(signature = (store, rank, size, host, engine, timeout, debug = None, network = None))]
    #[expect(clippy::too_many_arguments, reason = "called by one function in Python, which names them")]
    fn connect(
        py: Python<'_>,
        store: &Bound<'_, PyStore>,
        rank: usize,
        size: usize,
        host: Option<String>,
        engine: String,
        timeout: f64,
        debug: Option<bool>,
        network: Delay,
    ) -> PyResult<Self> {
        let mut options = options(engine, timeout, debug, network);
        options.host = match host.as_deref().map(str::parse) {
            None => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Some(Ok(host)) => host,
            Some(Err(_)) => {
                let e = format!("init_process_group: expected the address of an interface but got {host:?}");
                return Err(raise(Error::new(ErrorKind::InvalidArgument, e)));
            }
        };
        let store = store.get().store.clone();
        let made = detached_owning(py, || ProcessGroup::new(store, rank, size, options));
        made.map(PyProcessGroup).map_err(of_group)
    }

    /// The group of the processes that a launcher started.
    #[staticmethod]
    #[pyo3(signature = (engine, timeout, debug = None, network = None))]
    fn from_env(
        py: Python<'_>,
        engine: String,
        timeout: f64,
        debug: Option<bool>,
        network: Delay,
    ) -> PyResult<Self> {
        let options = options(engine, timeout, debug, network);
        detached_owning(py, || ProcessGroup::with_options(options)).map(PyProcessGroup).map_err(of_group)
    }

    /// A group of this process alone.
    #[staticmethod]
    fn single() -> PyResult<Self> {
        ProcessGroup::single().map(PyProcessGroup).map_err(of_group)
    }

    fn engine(&self) -> String {
        self.0.engine().to_owned()
    }

    fn rank(&self) -> usize {
        self.0.rank()
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn ranks(&self) -> Vec<usize> {
        self.0.ranks().to_vec()
    }

    fn timeout(&self) -> f64 {
        self.0.timeout().as_secs_f64()
    }

    fn store(&self) -> PyStore {
        PyStore { store: self.0.store().clone(), port: None }
    }

    fn new_group(&self, py: Python<'_>, ranks: Vec<usize>) -> PyResult<Option<Self>> {
        let made = detached_owning(py, || self.0.new_group(&ranks)).map_err(of_group)?;
        Ok(made.map(PyProcessGroup))
    }

    fn shutdown(&self, py: Python<'_>) -> PyResult<()> {
        let shutdown = || {
            self.0.shutdown();
            Ok(())
        };
        detached_owning(py, shutdown).map_err(of_group)
    }

    fn abort(&self, py: Python<'_>, reason: String) -> PyResult<()> {
        let abort = || {
            self.0.abort(&reason);
            Ok(())
        };
        detached_owning(py, abort).map_err(of_group)
    }

    fn all_reduce(&self, py: Python<'_>, tensor: &TensorObject<'_>, op: (String, f64)) -> PyResult<PyWork> {
        let (tensor, op) = (tensor.get().tensor().clone(), op_of(op)?);
        self.start(py, std::slice::from_ref(&tensor), |group| group.all_reduce(&tensor, op))
    }

    fn reduce(
        &self,
        py: Python<'_>,
        tensor: &TensorObject<'_>,
        dst: usize,
        op: (String, f64),
    ) -> PyResult<PyWork> {
        let (tensor, op) = (tensor.get().tensor().clone(), op_of(op)?);
        self.start(py, std::slice::from_ref(&tensor), |group| group.reduce(&tensor, dst, op))
    }

    fn broadcast(&self, py: Python<'_>, tensor: &TensorObject<'_>, src: usize) -> PyResult<PyWork> {
        let tensor = tensor.get().tensor().clone();
        self.start(py, std::slice::from_ref(&tensor), |group| group.broadcast(&tensor, src))
    }

    fn all_gather(
        &self,
        py: Python<'_>,
        outputs: Vec<TensorObject<'_>>,
        input: &TensorObject<'_>,
    ) -> PyResult<PyWork> {
        let (outputs, input) = (tensors(&outputs), input.get().tensor().clone());
        self.start(py, &outputs, |group| group.all_gather(&outputs, &input))
    }

    fn all_gather_into_tensor(
        &self,
        py: Python<'_>,
        output: &TensorObject<'_>,
        input: &TensorObject<'_>,
    ) -> PyResult<PyWork> {
        let (output, input) = (output.get().tensor().clone(), input.get().tensor().clone());
        self.start(py, std::slice::from_ref(&output), |group| group.all_gather_into_tensor(&output, &input))
    }

    fn gather(
        &self,
        py: Python<'_>,
        input: &TensorObject<'_>,
        outputs: Vec<TensorObject<'_>>,
        dst: usize,
    ) -> PyResult<PyWork> {
        let (outputs, input) = (tensors(&outputs), input.get().tensor().clone());
        self.start(py, &outputs, |group| group.gather(&input, &outputs, dst))
    }

    fn scatter(
        &self,
        py: Python<'_>,
        output: &TensorObject<'_>,
        inputs: Vec<TensorObject<'_>>,
        src: usize,
    ) -> PyResult<PyWork> {
        let (inputs, output) = (tensors(&inputs), output.get().tensor().clone());
        self.start(py, std::slice::from_ref(&output), |group| group.scatter(&output, &inputs, src))
    }

    fn reduce_scatter(
        &self,
        py: Python<'_>,
        output: &TensorObject<'_>,
        inputs: Vec<TensorObject<'_>>,
        op: (String, f64),
    ) -> PyResult<PyWork> {
        let (inputs, output, op) = (tensors(&inputs), output.get().tensor().clone(), op_of(op)?);
        self.start(py, std::slice::from_ref(&output), |group| group.reduce_scatter(&output, &inputs, op))
    }

    fn reduce_scatter_tensor(
        &self,
        py: Python<'_>,
        output: &TensorObject<'_>,
        input: &TensorObject<'_>,
        op: (String, f64),
    ) -> PyResult<PyWork> {
        let (input, output, op) = (input.get().tensor().clone(), output.get().tensor().clone(), op_of(op)?);
        self.start(py, std::slice::from_ref(&output), |group| {
            group.reduce_scatter_tensor(&output, &input, op)
        })
    }

    fn all_to_all(
        &self,
        py: Python<'_>,
        outputs: Vec<TensorObject<'_>>,
        inputs: Vec<TensorObject<'_>>,
    ) -> PyResult<PyWork> {
        let (outputs, inputs) = (tensors(&outputs), tensors(&inputs));
        self.start(py, &outputs, |group| group.all_to_all(&outputs, &inputs))
    }

    fn barrier(&self, py: Python<'_>) -> PyResult<PyWork> {
        self.start(py, &[], ProcessGroup::barrier)
    }

    fn send(&self, py: Python<'_>, tensor: &TensorObject<'_>, dst: usize, tag: i64) -> PyResult<PyWork> {
        let tensor = tensor.get().tensor().clone();
        self.start(py, &[], |group| group.send(&tensor, dst, tag))
    }

    fn recv(
        &self,
        py: Python<'_>,
        tensor: &TensorObject<'_>,
        src: Option<usize>,
        tag: i64,
    ) -> PyResult<PyWork> {
        let tensor = tensor.get().tensor().clone();
        self.start(py, std::slice::from_ref(&tensor), |group| group.recv(&tensor, src, tag))
    }
}

/// A tensor that is returned to Python.
struct Wrapped(Tensor);

impl<'py> IntoPyObject<'py> for Wrapped {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        wrap(py, self.0)
    }
}

/// Whether there is a library of MPI with the standard ABI.
#[pyfunction]
fn _is_mpi_available(py: Python<'_>) -> bool {
    py.detach(flambeau_distributed::engine::is_mpi_available)
}

/// Whether there is a library of NCCL.
#[pyfunction]
fn _is_nccl_available(py: Python<'_>) -> bool {
    py.detach(flambeau_distributed::engine::is_nccl_available)
}

pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyStore>()?;
    module.add_class::<PyWork>()?;
    module.add_class::<PyProcessGroup>()?;
    module.add_function(wrap_pyfunction!(_is_mpi_available, module)?)?;
    module.add_function(wrap_pyfunction!(_is_nccl_available, module)?)?;
    reducer::install(module)?;
    checkpoint::install(module)
}
