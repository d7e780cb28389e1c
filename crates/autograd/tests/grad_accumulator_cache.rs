//! References to leaves' accumulators: a dropped graph leaves them to the next one, and they are dropped with their leaf.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use flambeau_autograd::{Autograd, NodePtr};
use flambeau_core::{Result, ThinPtr};
use flambeau_ops::{Tensor, ops};

fn leaf() -> Result<Tensor> {
    let x = Tensor::from_vec(vec![1.0f32], &[1])?;
    x.requires_grad_(true)?;
    Ok(x)
}

/// A reference to the leaf's accumulator, of a graph that leaves another one in the cache.
fn accumulator(x: &Tensor) -> Result<NodePtr> {
    let node = ops::exp(x)?.grad_fn()?.unwrap();
    Ok(node.header().edges()[0].clone().unwrap().node)
}

#[test]
fn a_reference_is_reused_by_the_next_graph_and_dropped_with_its_leaf() -> Result<()> {
    let x = leaf()?;
    let node = accumulator(&x)?;
    // The leaf, `node` and the cached reference, which each graph takes and leaves again.
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
    // Nobody records with the leaf again; its cached reference is dropped when another node gets the slot.
    for _ in 0..1000 {
        let other = leaf()?;
        drop(ops::exp(&other)?);
    }
    assert!(ThinPtr::strong_count(&node) <= 2);
    Ok(())
}

#[test]
fn each_thread_has_its_own_cache() -> Result<()> {
    let x = leaf()?;
    let node = accumulator(&x)?;
    std::thread::scope(|scope| {
        scope.spawn(|| drop(ops::exp(&x).unwrap())).join().unwrap();
    });
    // The cache of the other thread was dropped with the thread.
    assert_eq!(ThinPtr::strong_count(&node), 3);
    drop(x);
    assert_eq!(ThinPtr::strong_count(&node), 1);
    Ok(())
}
