//! The functions of a device beside operators: indices, the current device, copies, generators, gradients.
#![cfg(target_os = "linux")]

use flambeau::core::backend::DeviceGuard;
use flambeau::core::{Philox, Storage};
use flambeau::{Autograd, Device, ErrorKind, Generator, Result, ScalarType, Tensor, ops};
use flambeau_mock_device as _;

fn device(text: &str) -> Device {
    text.parse().unwrap()
}

#[test]
fn a_device_without_a_number_is_the_current_one_when_a_tensor_is_made() -> Result<()> {
    let first = Tensor::ones(&[2], device("mock"))?;
    assert_eq!(first.device(), device("mock:0"));
    let second = {
        let _current = DeviceGuard::new(device("mock:1"))?;
        Tensor::ones(&[2], device("mock"))?
    };
    assert_eq!(second.device(), device("mock:1"));
    assert_eq!(Tensor::ones(&[2], device("mock"))?.device(), device("mock:0"));
    let two = first.add(&Tensor::ones(&[2], device("mock:0"))?)?;
    assert_eq!(two.to_vec::<f32>()?, [2.0; 2]);
    let error = first.add(&second).unwrap_err();
    assert!(error.to_string().contains("mock:0") && error.to_string().contains("mock:1"), "{error}");
    let error = Tensor::ones(&[2], device("mock:2")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Device);
    assert!(error.to_string().contains("one of the 2 devices of mock but got mock:2"), "{error}");
    Ok(())
}

#[test]
fn copies_between_devices_of_any_layout() -> Result<()> {
    let host = Tensor::arange(24, ScalarType::F32)?.reshape(&[4, 6])?;
    let there = host.to(device("mock:0"))?;
    let further = there.to(device("mock:1"))?;
    assert_eq!(further.to_vec2::<f32>()?, host.to_vec2::<f32>()?);
    // A transposed source, an expanded one, another type, a target with gaps.
    assert_eq!(there.t()?.to(device("mock:1"))?.to_vec2::<f32>()?, host.t()?.to_vec2::<f32>()?);
    let row = there.select(0, 1)?.expand(&[4, 6])?;
    further.copy_(&row)?;
    assert_eq!(further.to_vec2::<f32>()?, vec![host.to_vec2::<f32>()?[1].clone(); 4]);
    assert_eq!(there.to((ScalarType::I64, Device::CPU))?.to_vec::<i64>()?, (0..24).collect::<Vec<_>>());
    let gaps = Tensor::zeros(&[4, 12], device("mock:1"))?;
    ops::copy_(&ops::slice_tensor(&gaps, 1, None, None, 2)?, &host, false)?;
    assert_eq!(gaps.sum()?.item::<f32>()?, 276.0);
    Ok(())
}

#[test]
fn values_are_read_and_printed_from_there() -> Result<()> {
    let there = Tensor::from([[1.5f32, -2.0], [0.0, 4.0]]).to(device("mock:1"))?;
    let text = format!("{there}");
    assert!(text.contains("1.5") && text.contains("mock:1"), "{text}");
    assert_eq!(there.t()?.select(0, 1)?.to_vec::<f32>()?, [-2.0, 4.0]);
    assert_eq!(there.select(0, 0)?.select(0, 1)?.item::<f32>()?, -2.0);
    assert_eq!(there.accessor::<f32, 2>().map(drop).unwrap_err().kind(), ErrorKind::Device);
    Ok(())
}

#[test]
fn bytes_are_of_the_device_and_not_the_hosts() -> Result<()> {
    let there = Storage::from_bytes(b"torch")?.copied_to(device("mock:1"))?;
    assert!(!there.is_host() && there.device() == device("mock:1"));
    let back = there.copied_to(device("mock:0"))?.copied_to(Device::CPU)?;
    assert_eq!(back.nbytes(), 5);
    assert!(Storage::copy_range((&there, 3), (&back, 0), 3).is_err());
    Ok(())
}

#[test]
fn one_seed_gives_one_sequence_on_every_device() -> Result<()> {
    let draw = |device: Device| {
        let generator = Generator::on(device, 3);
        let t = Tensor::zeros(&[1000], device)?;
        ops::normal_(&t, 0.0, 1.0, Some(&generator))?;
        t.to_vec::<f32>()
    };
    let host = draw(Device::CPU)?;
    assert_eq!(host, draw(device("mock:0"))?);
    assert_eq!(host, draw(device("mock:1"))?);
    let of = |name| Generator::default_of(device(name));
    assert_eq!(of("mock")?.device(), device("mock:0"));
    of("mock:1")?.manual_seed(11);
    let before = of("mock:0")?.state();
    Tensor::rand(&[100], device("mock:1"))?;
    assert_eq!(of("mock:0")?.state(), before);
    assert_ne!(of("mock:1")?.state().offset, 0);
    let _: Philox = of("mock:1")?.reserve(1);
    Ok(())
}

#[test]
fn gradients_are_on_the_device() -> Result<()> {
    let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]).to(device("mock:1"))?;
    x.requires_grad_(true)?;
    let y = x.mul(&x)?.sum()?.add(&x.matmul(&x)?.tanh()?.mean()?)?;
    y.backward()?;
    let here = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    here.requires_grad_(true)?;
    here.mul(&here)?.sum()?.add(&here.matmul(&here)?.tanh()?.mean()?)?.backward()?;
    let (there, here) = (x.grad().unwrap(), here.grad().unwrap());
    assert_eq!(there.device(), device("mock:1"));
    assert_eq!(there.to_vec::<f32>()?, here.to_vec::<f32>()?);
    // Through a copy from the host and back.
    let leaf = Tensor::from([1.0f32, -2.0]);
    leaf.requires_grad_(true)?;
    leaf.to(device("mock:0"))?.abs()?.to(Device::CPU)?.sum()?.backward()?;
    assert_eq!(leaf.grad().unwrap().to_vec::<f32>()?, [1.0, -1.0]);
    Ok(())
}

#[test]
fn what_is_written_there_counts_versions_and_sizes() -> Result<()> {
    let x = Tensor::ones(&[3], device("mock:0"))?;
    let before = x.storage().version();
    x.add_(&Tensor::ones(&[3], device("mock:0"))?)?;
    assert_eq!(x.storage().version(), before + 1);
    let out = Tensor::empty(&[0], device("mock:0"))?;
    ops::add_out(&x, &x, 1.into(), &out)?;
    assert_eq!((out.sizes(), out.to_vec::<f32>()?), (&[3i64][..], vec![4.0; 3]));
    let view = x.view(&[3, 1])?;
    x.mul_(&Tensor::from(5.0f32))?;
    assert_eq!(view.to_vec::<f32>()?, [10.0; 3]);
    // A call that fails changes nothing.
    let version = x.storage().version();
    assert!(x.add_(&Tensor::ones(&[4], device("mock:0"))?).is_err());
    assert_eq!(x.storage().version(), version);
    Ok(())
}

#[test]
fn views_of_one_storage_stay_views_there() -> Result<()> {
    let of = |device: Device| -> Result<Vec<f32>> {
        let x = Tensor::arange(24, ScalarType::F32)?.reshape(&[4, 6])?.to(device)?;
        let (top, left, transposed) = (x.slice(0, 0, 2)?, x.slice(1, 1, 3)?, x.t()?);
        // A view is written by what reads another; an operand beside itself; one that overlaps what is written.
        top.add_(&x.slice(0, 2, None)?)?;
        left.mul_(&left)?;
        x.slice(1, 1, None)?.copy_(&x.slice(1, 0, 5)?)?;
        ops::cumsum_out(&transposed, 0, None, &transposed)?;
        let halves = ops::split_tensor(&x, 2, 0)?;
        halves[1].add_(&halves[0])?;
        x.to(Device::CPU)?.to_vec::<f32>()
    };
    assert_eq!(of(device("mock:1"))?, of(Device::CPU)?);
    Ok(())
}

#[test]
fn an_empty_slice_goes_anywhere() -> Result<()> {
    let empty = Tensor::zeros(&[0, 5], ())?.slice(1, 3, None)?;
    let there = empty.to(device("mock:0"))?;
    assert_eq!((there.sizes(), there.device()), (&[0i64, 2][..], device("mock:0")));
    assert_eq!(there.to(Device::CPU)?.sizes(), [0, 2]);
    Ok(())
}

#[test]
fn no_write_of_two_threads_is_lost() -> Result<()> {
    let x = Tensor::zeros(&[10], device("mock:0"))?;
    let halves = [x.slice(0, 0, 5)?, x.slice(0, 5, None)?];
    let one = Tensor::ones(&[1], device("mock:0"))?;
    let done: Vec<f32> = std::thread::scope(|scope| {
        let count = |half: Tensor| {
            let one = one.clone();
            // Those that another write came between are errors, and have changed nothing.
            move || (0..200).filter(|_| half.add_(&one).is_ok()).count() as f32
        };
        let threads: Vec<_> = halves.iter().map(|half| scope.spawn(count(half.clone()))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let sums = halves.iter().map(|half| half.sum()?.item::<f32>()).collect::<Result<Vec<_>>>()?;
    assert_eq!(sums, done.iter().map(|count| count * 5.0).collect::<Vec<_>>());
    Ok(())
}
