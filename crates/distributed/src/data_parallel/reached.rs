//! Which parameters a backward pass will reach: those whose nodes are in the graph of its outputs.

use flambeau_autograd::{Autograd, NodePtr, enable_grad};
use flambeau_core::{Result, ThinPtr};
use flambeau_ops::Tensor;
use std::collections::HashSet;

/// The node that accumulates the gradient of a leaf, as a number.
pub(super) fn accumulator(leaf: &Tensor) -> Result<Option<usize>> {
    let _recorded = enable_grad();
    // The node of a view has an edge to that of the leaf.
    let view = leaf.view(leaf.sizes())?;
    let Some(node) = view.grad_fn()? else { return Ok(None) };
    Ok(node.header().edges().first().and_then(Option::as_ref).map(|edge| ThinPtr::address(&edge.node)))
}

/// The nodes in the graph of some tensors, as numbers. A leaf among them is in it too.
pub(super) fn nodes(outputs: &[Tensor]) -> Result<HashSet<usize>> {
    let (mut found, mut stack) = (HashSet::new(), Vec::new());
    for output in outputs {
        match output.grad_fn()? {
            Some(node) => visit(node, &mut found, &mut stack),
            None if output.requires_grad() => found.extend(accumulator(output)?),
            None => {}
        }
    }
    while let Some(node) = stack.pop() {
        for edge in node.header().edges().iter().flatten() {
            visit(edge.node.clone(), &mut found, &mut stack);
        }
    }
    Ok(found)
}

fn visit(node: NodePtr, found: &mut HashSet<usize>, stack: &mut Vec<NodePtr>) {
    if found.insert(ThinPtr::address(&node)) {
        stack.push(node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_outputs_are_computed_from_is_reached() {
        let leaf = || Tensor::from([1.0f32, 2.0]).with_requires_grad(true).unwrap();
        let (a, b, c) = (leaf(), leaf(), leaf());
        let output = a.mul(&b).unwrap().sum().unwrap();
        let found = nodes(&[output, c.detach().unwrap()]).unwrap();
        let is_reached = |leaf: &Tensor| found.contains(&accumulator(leaf).unwrap().unwrap());
        assert_eq!((is_reached(&a), is_reached(&b), is_reached(&c)), (true, true, false));
        assert!(nodes(std::slice::from_ref(&c)).unwrap().contains(&accumulator(&c).unwrap().unwrap()));
    }
}
