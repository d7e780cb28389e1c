//! Streams and events: results are those of one stream, whatever the order is in which the device works.

use super::{DEVICE, is_quick};
use flambeau::{Result, ScalarType, Tensor};
use flambeau_cuda::{Event, Stream, record_stream};

/// What a chain of operators makes of a number, where each operator may be in another stream.
fn chain(start: f64, choose: &mut dyn FnMut(usize) -> Result<()>, steps: usize) -> Result<Vec<f32>> {
    choose(0)?;
    let shared = Tensor::full(&[64], 0.5, (ScalarType::F32, DEVICE))?;
    let mut x = Tensor::full(&[64], start, (ScalarType::F32, DEVICE))?;
    for step in 1..=steps {
        choose(step)?;
        // New memory in each step, in place of what other streams have used.
        let y = x.mul(&shared)?.add(&Tensor::full(&[64], step as f64, (ScalarType::F32, DEVICE))?)?;
        if step % 3 == 0 {
            x.copy_(&y)?;
        } else {
            x = y;
        }
    }
    choose(0)?;
    x.to_vec::<f32>()
}

/// Work in one stream and in several, from one thread and from several; events; faults.
pub(super) fn ordered() -> Result<usize> {
    let steps = if is_quick() { 40 } else { 400 };
    let expected = chain(1.0, &mut |_| Ok(()), steps)?;
    let streams = [Stream::default_of(0), Stream::new(0)?, Stream::new(0)?, Stream::new(0)?];
    let mut faults = 0;
    for stride in [1, 2, 3] {
        let mut choose = |step: usize| streams[step * stride % streams.len()].set_current();
        let got = chain(1.0, &mut choose, steps)?;
        if got != expected {
            println!(
                "  FAULT streams alternating by {stride} give {:?} instead of {:?}",
                &got[..2],
                &expected[..2]
            );
            faults += 1;
        }
    }
    let in_threads = || -> Result<Vec<f32>> {
        let stream = Stream::new(0)?;
        let _guard = stream.enter()?;
        chain(1.0, &mut |_| Ok(()), steps)
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(in_threads)).collect();
        threads.into_iter().map(|thread| thread.join().ok()).collect()
    });
    faults += results.iter().filter(|result| !matches!(result, Some(Ok(got)) if *got == expected)).count();
    faults += usize::from(Stream::current(0) != streams[0]);
    let timed = events(&streams[1])?;
    println!("{} chains of {steps} steps, {timed} faults of events", 3 + results.len());
    Ok(faults + timed)
}

/// An event before and one after some work.
fn events(stream: &Stream) -> Result<usize> {
    let (start, end) = (Event::new(true), Event::new(true));
    let mut faults = usize::from(start.elapsed_time(&end).is_ok());
    start.record(stream)?;
    let guard = stream.enter()?;
    let x = Tensor::ones(&[1000], (ScalarType::F32, DEVICE))?;
    let y = x.add(&x)?;
    end.record(stream)?;
    drop(guard);
    record_stream(&y, stream)?;
    Stream::default_of(0).wait_event(&end)?;
    end.synchronize()?;
    faults += usize::from(!end.query()? || start.elapsed_time(&end)? < 0.0);
    faults += usize::from(Event::new(false).elapsed_time(&end).is_ok());
    stream.synchronize()?;
    faults += usize::from(!stream.query()?);
    faults += usize::from(y.sum()?.item::<f32>()? != 2000.0);
    Ok(faults)
}
