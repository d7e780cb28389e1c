//! Owners of leaves' accumulators: which a dropped graph leaves to the next one, and that they go with their leaf.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use flambeau_autograd::{Autograd, NodePtr};
use flambeau_core::{Result, ThinPtr};
use flambeau_ops::{Tensor, ops};

fn leaf() -> Result<Tensor> {
    let x = Tensor::from_vec(vec![1.0f32], &[1])?;
    x.requires_grad_(true)?;
    Ok(x)
}

/// An owner of the leaf's accumulator, out of a graph that leaves another as a spare one.
fn accumulator(x: &Tensor) -> Result<NodePtr> {
    let node = ops::exp(x)?.grad_fn()?.unwrap();
    Ok(node.header().edges()[0].clone().unwrap().node)
}

#[test]
fn an_owner_goes_from_graph_to_graph_and_then_with_its_leaf() -> Result<()> {
    let x = leaf()?;
    let node = accumulator(&x)?;
    // The leaf, `node` and the spare one, which each graph takes and leaves again.
    assert_eq!(ThinPtr::strong_count(&node), 3);
    for _ in 0..3 {
        let y = ops::exp(&x)?;
        assert_eq!(ThinPtr::strong_count(&node), 3);
        drop(y);
        assert_eq!(ThinPtr::strong_count(&node), 3);
    }
    drop(x);
    assert_eq!(ThinPtr::strong_count(&node), 1);
    Ok(())
}

#[test]
fn a_graph_may_outlive_its_leaf() -> Result<()> {
    let x = leaf()?;
    let node = accumulator(&x)?;
    let y = ops::exp(&x)?;
    drop(x);
    assert_eq!(ThinPtr::strong_count(&node), 2);
    drop(y);
    // Nobody records with the leaf again; the place is for the next that comes there.
    for _ in 0..1000 {
        let other = leaf()?;
        drop(ops::exp(&other)?);
    }
    assert!(ThinPtr::strong_count(&node) <= 2);
    Ok(())
}

#[test]
fn threads_keep_spares_of_their_own() -> Result<()> {
    let x = leaf()?;
    let node = accumulator(&x)?;
    std::thread::scope(|scope| {
        scope.spawn(|| drop(ops::exp(&x).unwrap())).join().unwrap();
    });
    // That of the other thread went with the thread.
    assert_eq!(ThinPtr::strong_count(&node), 3);
    drop(x);
    assert_eq!(ThinPtr::strong_count(&node), 1);
    Ok(())
}
