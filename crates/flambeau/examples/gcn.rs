//! Trains a graph convolutional network to tell communities of a random graph apart: products of a sparse matrix and features.

#[path = "sparse_training/mod.rs"]
mod sparse_training;

use clap::Parser;
use flambeau::core::{Layout, ensure};
use flambeau::nn::Linear;
use flambeau::nn::functional::{CrossEntropy, cross_entropy};
use flambeau::nn::optim::{Adam, AdamOptions};
use flambeau::prelude::*;
use flambeau::sparse;
use sparse_training::{Outcome, Training, exit_code};
use std::process::ExitCode;

/// Trains a graph network to tell to which group nodes belong, of which a tenth are known.
#[derive(Parser, Debug, Clone)]
#[command(name = "gcn")]
struct Args {
    /// Nodes of the graph.
    #[arg(long, default_value_t = 100_000)]
    nodes: i64,
    /// Edges that begin at each node.
    #[arg(long, default_value_t = 10)]
    degree: i64,
    /// Groups of nodes, inside of which most edges are.
    #[arg(long, default_value_t = 4)]
    communities: i64,
    /// Features of a node, which are noise with a hint of its group.
    #[arg(long, default_value_t = 32)]
    features: i64,
    #[command(flatten)]
    training: Training,
}

fn main() -> ExitCode {
    exit_code(run(&Args::parse()))
}

/// Two layers, each of which averages the neighbours of a node.
#[derive(Module)]
struct Network {
    first: Linear,
    second: Linear,
}

impl Network {
    fn scores(&self, adjacency: &Tensor, features: &Tensor) -> Result<Tensor> {
        let hidden = adjacency.mm(&self.first.forward(features)?)?.relu()?;
        adjacency.mm(&self.second.forward(&hidden)?)
    }
}

/// The edges from nodes to nodes, as two lists: of those between groups, three of four were drawn once more.
fn edges(args: &Args, groups: &[i64]) -> Result<[Vec<i64>; 2]> {
    let count = args.nodes * args.degree;
    let drawn = || Tensor::randint(0, args.nodes, &[count], ScalarType::I64)?.to_vec::<i64>();
    let (mut ends, again) = (drawn()?, drawn()?);
    let is_again = Tensor::rand(&[count], ScalarType::F32)?.to_vec::<f32>()?;
    let begins: Vec<i64> = (0..count).map(|edge| edge / args.degree).collect();
    for (edge, end) in ends.iter_mut().enumerate() {
        if groups[begins[edge] as usize] != groups[*end as usize] && is_again[edge] < 0.75 {
            *end = again[edge];
        }
    }
    Ok([begins, ends])
}

/// The adjacency matrix with each node joined to itself, normalized by the numbers of neighbours.
fn adjacency(args: &Args, groups: &[i64]) -> Result<Tensor> {
    let [begins, ends] = edges(args, groups)?;
    let both = |a: &[i64], b: &[i64]| a.iter().chain(b).copied().chain(0..args.nodes).collect::<Vec<i64>>();
    let indices = [both(&begins, &ends), both(&ends, &begins)].concat();
    let count = indices.len() as i64 / 2;
    let (size, ones) = ([args.nodes, args.nodes], Tensor::full(&[count], 1.0, ScalarType::F32)?);
    let joined =
        sparse::sparse_coo_tensor(&Tensor::from_vec(indices, &[2, count])?, &ones, Some(&size), None)?;
    let joined = sparse::coalesce(&joined)?;
    let scale = sparse::to_dense(&sparse::sum_dim(&joined, &[1], false, None)?)?.rsqrt()?;
    let indices = sparse::indices(&joined)?;
    let of = |dim: i64| scale.index_select(0, &indices.select(0, dim)?);
    let values = ((sparse::values(&joined)? * of(0)?)? * of(1)?)?;
    let scaled = sparse::sparse_coo_tensor(&indices, &values, Some(&size), Some(true))?;
    sparse::to_sparse(&scaled, Layout::SparseCsr, None, None)
}

/// A graph, the features and the groups of its nodes, and which groups are known.
struct Graph {
    adjacency: Tensor,
    features: Tensor,
    groups: Vec<i64>,
    is_known: Vec<bool>,
    known: Tensor,
    targets: Tensor,
}

impl Graph {
    fn draw(args: &Args) -> Result<Graph> {
        let groups = Tensor::randint(0, args.communities, &[args.nodes], ScalarType::I64)?;
        let group_of = groups.to_vec::<i64>()?;
        let adjacency = adjacency(args, &group_of)?;
        let hints = Tensor::randn(&[args.communities, args.features], ScalarType::F32)?;
        let noise = Tensor::randn(&[args.nodes, args.features], ScalarType::F32)?;
        let features = (hints.index_select(0, &groups)?.mul_scalar(0.5)? + &noise)?;
        let draws = Tensor::rand(&[args.nodes], ScalarType::F32)?.to_vec::<f32>()?;
        let is_known: Vec<bool> = draws.iter().map(|draw| *draw < 0.1).collect();
        let known: Vec<i64> = (0..args.nodes).filter(|node| is_known[*node as usize]).collect();
        ensure!(
            !known.is_empty(),
            InvalidArgument,
            "expected more nodes: no group of {} is known",
            args.nodes
        );
        let count = known.len() as i64;
        let known = Tensor::from_vec(known, &[count])?;
        let targets = groups.index_select(0, &known)?;
        Ok(Graph { adjacency, features, groups: group_of, is_known, known, targets })
    }

    /// The share of the other nodes whose group has the highest score.
    fn share_of_right(&self, scores: &Tensor) -> Result<f64> {
        let answers = scores.argmax_dim(1)?.to_vec::<i64>()?;
        let others = (0..self.groups.len()).filter(|node| !self.is_known[*node]);
        let right = others.clone().filter(|node| answers[*node] == self.groups[*node]).count();
        Ok(right as f64 / others.count().max(1) as f64)
    }
}

/// Trains; the outcome has the share of nodes that were told right.
fn run(args: &Args) -> Result<Outcome<f64>> {
    args.training.begin(&[args.nodes, args.degree, args.communities, args.features])?;
    let graph = Graph::draw(args)?;
    let (nnz, known) = (sparse::nnz(&graph.adjacency)?, graph.known.numel());
    println!("{} nodes, {nnz} elements, {known} nodes with a known group", args.nodes);
    let network =
        Network { first: Linear::new(args.features, 64)?, second: Linear::new(64, args.communities)? };
    let mut adam = Adam::new(network.parameters(), AdamOptions::default().lr(args.training.lr))?;
    let step = || {
        adam.zero_grad()?;
        let scores = network.scores(&graph.adjacency, &graph.features)?;
        let of_known = scores.index_select(0, &graph.known)?;
        let loss = cross_entropy(&of_known, &graph.targets, CrossEntropy::default())?;
        loss.backward()?;
        adam.step()?;
        Ok((loss, scores.detach()?))
    };
    let right = |scores: &Tensor| graph.share_of_right(scores);
    let say = |scores: &Tensor| Ok(format!("{:.1}% of the other nodes right", 100.0 * right(scores)?));
    let Outcome { losses, said, bytes, milliseconds } = args.training.run(step, say)?;
    let outcome = Outcome { losses, said: right(&said)?, bytes, milliseconds };
    println!(
        "{milliseconds:.1} ms a step, with {:.1} MiB for products, hidden features and gradients",
        outcome.mebibytes()
    );
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trained(more: &[&str]) -> Outcome<f64> {
        run(&Args::parse_from(["gcn", "--degree", "6", "--features", "8"].iter().chain(more))).unwrap()
    }

    #[test]
    fn it_learns_in_memory_proportional_to_the_graph() {
        let small = trained(&["--nodes", "400", "--steps", "40"]);
        assert!(small.losses[1] < small.losses[0] && small.said > 0.5, "{small:?}");
        let large = trained(&["--nodes", "1600", "--steps", "3"]);
        let growth = large.bytes as f64 / small.bytes as f64;
        assert!((2.0..6.0).contains(&growth), "{growth}");
        assert!(run(&Args::parse_from(["gcn", "--nodes", "0"])).is_err());
    }
}
