//! The example `mnist_cnn` trains on a mock device to the host's loss, to the bit.
#![cfg(target_os = "linux")]

#[path = "../../../crates/flambeau/examples/mnist_cnn/main.rs"]
#[allow(dead_code, reason = "its command line is not used")]
mod mnist_cnn;

use clap::Parser;
use flambeau::cpu_fallback;
use flambeau_mock_device as _;

#[test]
fn mnist_cnn_learns_the_same_there() {
    let train = |device: &str| {
        let line = ["mnist_cnn", "--drawn", "192", "--epochs", "2", "--batch", "32", "--device", device];
        mnist_cnn::run(&mnist_cnn::Args::parse_from(line)).unwrap()
    };
    let here = train("cpu");
    cpu_fallback::reset_counts();
    let there = train("mock:1");
    let fell_back = cpu_fallback::counts();
    println!("mnist_cnn: losses {:?} on both, {} operators fell back", here.losses, fell_back.len());
    fell_back.iter().for_each(|(name, count)| println!("{count:6} {name}"));
    assert_eq!(here, there);
    assert!(here.losses[1] < here.losses[0]);
    assert!(fell_back.len() > 10);
}
