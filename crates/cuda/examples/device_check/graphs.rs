//! Captured graphs: steps of a training that are launched have the bits of those called operator by operator; what cannot be captured is
//! refused; threads that capture or launch at once; memory.

use super::DEVICE;
use flambeau::nn::optim::{Sgd, SgdOptions};
use flambeau::nn::{LayerNorm, Linear};
use flambeau::prelude::*;
use flambeau_cuda::{Event, Graph, GraphPool, Stream};
use std::sync::Barrier;

/// How often a step is launched.
const STEPS: usize = 200;
/// Steps before the capture, which make the state of the optimizer.
const WARM_STEPS: usize = 3;

#[derive(Module)]
struct Model {
    first: Linear,
    norm: LayerNorm,
    last: Linear,
}

impl Forward for Model {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.last.forward(&self.norm.forward(&self.first.forward(x)?)?.tanh()?)
    }
}

/// A model in training, with the tensors from which each step reads.
struct Training {
    model: Model,
    optimizer: Sgd,
    input: Tensor,
    target: Tensor,
}

impl Training {
    fn new() -> Result<Self> {
        flambeau::manual_seed(11);
        let mut model =
            Model { first: Linear::new(6, 16)?, norm: LayerNorm::new(&[16])?, last: Linear::new(16, 3)? };
        model.to_device(DEVICE)?;
        let options = SgdOptions::default().lr(0.05).momentum(0.9).weight_decay(0.01);
        let optimizer = Sgd::new(model.parameters(), options)?;
        let zeros = |sizes: &[i64]| Tensor::zeros(sizes, (ScalarType::F32, DEVICE));
        Ok(Training { model, optimizer, input: zeros(&[8, 6])?, target: zeros(&[8, 3])? })
    }

    /// What a step reads next.
    fn set(&self, step: usize) -> Result<()> {
        let values = |count: usize, phase: f32| {
            (0..count).map(|i| (i as f32 * 0.7 + step as f32 * 1.3 + phase).sin()).collect::<Vec<f32>>()
        };
        self.input.copy_(&Tensor::from_vec(values(48, 0.0), &[8, 6])?)?;
        self.target.copy_(&Tensor::from_vec(values(24, 0.5), &[8, 3])?)?;
        Ok(())
    }

    fn step(&mut self) -> Result<Tensor> {
        let loss = self.model.forward(&self.input)?.sub(&self.target)?.square()?.mean()?;
        self.optimizer.zero_grad()?;
        loss.backward()?;
        self.optimizer.step()?;
        Ok(loss)
    }

    /// The bits of all parameters.
    fn bits(&self) -> Result<Vec<u32>> {
        let mut bits = Vec::new();
        for parameter in self.model.parameters() {
            bits.extend(parameter.detach()?.to_vec::<f32>()?.into_iter().map(f32::to_bits));
        }
        Ok(bits)
    }
}

/// Prints a fault unless all is well; returns how many there are.
fn fault(is_right: bool, text: &str) -> usize {
    if !is_right {
        println!("  FAULT {text}");
    }
    usize::from(!is_right)
}

/// Steps of a training by launches of one graph, beside steps by calls of operators.
fn training() -> Result<usize> {
    let (mut called, mut launched) = (Training::new()?, Training::new()?);
    for step in 0..WARM_STEPS {
        for training in [&mut called, &mut launched] {
            training.set(step)?;
            training.step()?;
        }
    }
    let before = launched.bits()?;
    let (graph, loss) = Graph::capture(0, || launched.step())?;
    let mut faults = fault(before == launched.bits()?, "a capture ran its work");
    let mut differing = 0;
    let allocations = flambeau_cuda::memory_stats(0)?.allocations;
    let mut of_launches = 0;
    for step in WARM_STEPS..WARM_STEPS + STEPS {
        called.set(step)?;
        let expected = called.step()?.item::<f32>()?;
        launched.set(step)?;
        let count = flambeau_cuda::memory_stats(0)?.allocations;
        graph.replay()?;
        of_launches += flambeau_cuda::memory_stats(0)?.allocations - count;
        let is_same =
            loss.item::<f32>()?.to_bits() == expected.to_bits() && called.bits()? == launched.bits()?;
        differing += usize::from(!is_same);
    }
    let all = flambeau_cuda::memory_stats(0)?.allocations - allocations;
    println!(
        "{STEPS} launches of a step: {differing} differ from calls; {of_launches} of {all} allocations are theirs"
    );
    faults += fault(differing == 0, "launched steps have other bits");
    faults += fault(of_launches == 0, "launches allocate");
    faults += fault(before != launched.bits()?, "launches train nothing");
    Ok(faults)
}

/// Calls that are refused within a capture, with the names that their errors have; the capture goes on.
fn refusals() -> Result<usize> {
    type Call<'a> = (&'a str, Box<dyn Fn() -> Result<()> + 'a>);
    let x = Tensor::from([1.0f32, 2.0]).to(DEVICE)?;
    let other = Graph::capture(0, || x.add(&x))?.0;
    let event = Event::new(false);
    event.record(&Stream::default_of(0))?;
    let calls: Vec<Call<'_>> = vec![
        ("copy_: cuda: a copy to the host", Box::new(|| x.sum()?.item::<f32>().map(drop))),
        ("copy_: cuda: a copy to the host", Box::new(|| x.to_vec::<f32>().map(drop))),
        ("copy_: cuda: a copy to the host", Box::new(|| x.to(Device::CPU).map(drop))),
        ("copy_: cuda: a copy from the host", Box::new(|| Tensor::from([1.0f32]).to(DEVICE).map(drop))),
        ("copy_: cuda: a copy from the host", Box::new(|| x.copy_(&Tensor::from([1.0f32, 2.0])).map(drop))),
        ("copy_: cuda: a copy to the host", Box::new(|| x.nonzero().map(drop))),
        ("normal_: cuda: the use of random numbers", Box::new(|| Tensor::randn(&[2], DEVICE).map(drop))),
        ("pin_memory", Box::new(|| flambeau_cuda::pin_memory(&Tensor::from([1.0f32])).map(drop))),
        ("wait for the device", Box::new(|| flambeau_cuda::synchronize(0))),
        ("wait for the device", Box::new(|| Stream::default_of(0).synchronize())),
        ("query of a stream", Box::new(|| Stream::default_of(0).query().map(drop))),
        ("recording of an event", Box::new(|| Event::new(false).record(&Stream::default_of(0)))),
        ("wait for an event", Box::new(|| event.synchronize())),
        ("wait for an event", Box::new(|| Stream::default_of(0).wait_event(&event))),
        ("replay", Box::new(|| other.replay())),
        ("capture_begin", Box::new(|| Graph::new().capture_begin(0, None))),
        ("capture_end", Box::new(|| Graph::new().capture_end())),
    ];
    let mut faults = 0;
    let (graph, y) = Graph::capture(0, || {
        for (name, call) in &calls {
            let error = call().err().map(|error| error.to_string()).unwrap_or_default();
            faults += fault(error.contains(name), &format!("{name} within a capture: {error:?}"));
        }
        x.mul(&x)
    })?;
    x.copy_(&Tensor::from([3.0f32, 4.0]))?;
    graph.replay()?;
    faults += fault(y.to_vec::<f32>()? == [9.0, 16.0], "a capture is wrong after calls that were refused");
    let errors = [Graph::new().replay(), graph.capture_begin(0, None), Graph::new().capture_end()];
    faults += fault(errors.iter().all(Result::is_err), "an empty graph was launched, or a full one captured");
    println!("{} calls were refused within a capture", calls.len());
    Ok(faults)
}

/// Threads that capture at once have memory of their own, and a graph that several launch runs once for each launch.
fn threads() -> Result<usize> {
    const COUNT: usize = 4;
    let both = Barrier::new(COUNT);
    let capture = |number: usize| {
        let x = Tensor::full(&[300], number as f64, (ScalarType::F32, DEVICE))?;
        let graph = Graph::new();
        both.wait();
        graph.capture_begin(0, None)?;
        both.wait();
        let mut all = Vec::new();
        let mut y = x.clone();
        for _ in 0..20 {
            y = y.add(&x)?;
            all.push(y.clone());
        }
        both.wait();
        graph.capture_end()?;
        graph.replay()?;
        let is_right = all.iter().enumerate().all(|(i, y)| {
            y.to_vec::<f32>()
                .is_ok_and(|values| values.iter().all(|value| *value == (number * (i + 2)) as f32))
        });
        Ok((is_right, graph, x, y))
    };
    let (mut faults, counter) = (0, Tensor::zeros(&[100], (ScalarType::F32, DEVICE))?);
    let captured: Vec<Result<_>> = std::thread::scope(|scope| {
        let capture = &capture;
        let threads: Vec<_> = (1..=COUNT).map(|number| scope.spawn(move || capture(number))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    faults += fault(captured.len() == COUNT, "a thread panicked");
    for outcome in captured {
        let (is_right, graph, x, y) = outcome?;
        faults += fault(is_right, "threads that capture at once take each other's memory");
        x.fill_(5.0)?;
        graph.replay()?;
        faults += fault(y.to_vec::<f32>()?.iter().all(|value| *value == 105.0), "a launch by another thread");
    }
    let (graph, _) =
        Graph::capture(0, || counter.add_(&Tensor::ones(&[100], (ScalarType::F32, DEVICE))?).map(drop))?;
    std::thread::scope(|scope| {
        let launches = || {
            let _guard = Stream::new(0)?.enter()?;
            (0..25).try_for_each(|_| graph.replay())
        };
        let threads: Vec<_> = (0..COUNT).map(|_| scope.spawn(launches)).collect();
        for thread in threads {
            faults += fault(matches!(thread.join(), Ok(Ok(()))), "a launch of several");
        }
    });
    let is_right = counter.to_vec::<f32>()?.iter().all(|value| *value == 25.0 * COUNT as f32);
    faults += fault(is_right, "launches of one graph by several threads");
    println!("{COUNT} threads captured at once, and launched one graph {} times", 25 * COUNT);
    Ok(faults)
}

/// What graphs use lives as long as they do, and no longer.
fn memory() -> Result<usize> {
    flambeau_cuda::empty_cache();
    let before = flambeau_cuda::memory_stats(0)?;
    let mut faults = 0;
    {
        let input = Tensor::full(&[1 << 18], 2.0, (ScalarType::F32, DEVICE))?;
        // The graph alone has the memory of its factor.
        let factor = Tensor::full(&[1 << 18], 3.0, (ScalarType::F32, DEVICE))?;
        let (graph, y) = Graph::capture(0, || input.mul(&factor)?.add(&input))?;
        drop(factor);
        let others = Tensor::full(&[1 << 18], 100.0, (ScalarType::F32, DEVICE))?;
        graph.replay()?;
        faults +=
            fault(y.sum()?.item::<f32>()? == 8.0 * (1 << 18) as f32, "a graph's memory was used by others");
        // Another graph shares what the first has freed, and another one is given up.
        let second = Graph::new();
        second.capture_begin(0, graph.pool().as_ref())?;
        let z = y.add(&others)?;
        second.capture_end()?;
        second.replay()?;
        faults += fault(z.sum()?.item::<f32>()? == 108.0 * (1 << 18) as f32, "a graph that shares memory");
        let given_up = Graph::capture(0, || z.add(&z)?.item::<f32>());
        faults += fault(given_up.is_err(), "a capture whose function fails");
        // A tensor outlives its graph.
        graph.reset()?;
        drop((graph, second));
        faults +=
            fault(z.sum()?.item::<f32>()? == 108.0 * (1 << 18) as f32, "a tensor that outlives its graph");
        drop(GraphPool::new(0)?);
    }
    // A thread that ends while it captures.
    let ended = std::thread::spawn(|| {
        let graph = Graph::new();
        graph.capture_begin(0, None)?;
        let x = Tensor::ones(&[100], (ScalarType::F32, DEVICE))?;
        std::mem::forget(graph);
        x.add(&x).map(drop)
    });
    faults += fault(matches!(ended.join(), Ok(Ok(()))), "a thread that ends while it captures");
    flambeau_cuda::empty_cache();
    let after = flambeau_cuda::memory_stats(0)?;
    let sizes = |stats: &flambeau::core::allocator::MemoryStats| (stats.live_bytes, stats.cached_bytes);
    println!("memory in use and cached before and after: {:?}, {:?}", sizes(&before), sizes(&after));
    Ok(faults + fault(sizes(&before) == sizes(&after), "graphs leave memory behind"))
}

/// All of that.
pub(super) fn captured() -> Result<usize> {
    Ok(training()? + refusals()? + threads()? + memory()?)
}
