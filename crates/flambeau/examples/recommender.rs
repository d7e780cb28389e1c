//! Trains a recommender by factors of users and items: tables with many rows, whose sparse gradients have the few that were read.

#[path = "sparse_training/mod.rs"]
mod sparse_training;

use clap::Parser;
use flambeau::nn::optim::{SparseAdam, SparseAdamOptions};
use flambeau::prelude::*;
use flambeau::sparse;
use sparse_training::{Outcome, Training, exit_code};
use std::process::ExitCode;

/// Trains factors of users and items by ratings that are drawn.
#[derive(Parser, Debug, Clone)]
#[command(name = "recommender")]
struct Args {
    /// Rows of the table of users.
    #[arg(long, default_value_t = 1_000_000)]
    users: i64,
    /// Rows of the table of items.
    #[arg(long, default_value_t = 100_000)]
    items: i64,
    /// Numbers that describe a user or an item.
    #[arg(long, default_value_t = 16)]
    factors: i64,
    /// Ratings a step.
    #[arg(long, default_value_t = 4096)]
    batch: i64,
    /// Weight decay of the rows that a step reads.
    #[arg(long, default_value_t = 0.0)]
    weight_decay: f64,
    #[command(flatten)]
    training: Training,
}

fn main() -> ExitCode {
    exit_code(run(&Args::parse()))
}

/// A table of factors that are trained.
fn table(rows: i64, factors: i64) -> Result<Tensor> {
    let table = Tensor::randn(&[rows, factors], ScalarType::F32)?.mul_scalar(0.3)?;
    table.requires_grad_(true)?;
    Ok(table)
}

/// The rows of a table, whose gradient is sparse.
fn read(table: &Tensor, ids: &Tensor) -> Result<Tensor> {
    ops::embedding(table, ids, -1, false, true)
}

/// Users and items of ratings, of which a few are in most steps, as popular items are.
fn drawn(args: &Args) -> Result<[Tensor; 2]> {
    let popular = (args.batch / 4).max(1);
    let ids = |count: i64| Tensor::randint(0, count.min(popular), &[args.batch], ScalarType::I64);
    Ok([ids(args.users)?, ids(args.items)?])
}

/// Trains; the outcome has the rows of users in the last gradient.
fn run(args: &Args) -> Result<Outcome<i64>> {
    args.training.begin(&[args.users, args.items, args.factors, args.batch])?;
    let tables = [table(args.users, args.factors)?, table(args.items, args.factors)?];
    let truth = |rows: i64| Tensor::randn(&[rows, 2], ScalarType::F32);
    let (true_users, true_items) = (truth(args.users)?, truth(args.items)?);
    let options = SparseAdamOptions::default().lr(args.training.lr);
    let mut adam = SparseAdam::new(tables.to_vec(), options.weight_decay(args.weight_decay).lazy(true))?;
    let step = || {
        let [users, items] = drawn(args)?;
        let ratings =
            (true_users.index_select(0, &users)? * true_items.index_select(0, &items)?)?.sum_dim(1)?;
        let error = ((read(&tables[0], &users)? * read(&tables[1], &items)?)?.sum_dim(1)? - ratings)?;
        let loss = (&error * &error)?.mean()?;
        adam.zero_grad()?;
        loss.backward()?;
        adam.step()?;
        let rows = tables[0].grad().map_or(Ok(0), |grad| sparse::nnz(&grad))?;
        Ok((loss, rows))
    };
    let say = |rows: &i64| Ok(format!("gradients of {rows} of {} users", args.users));
    let outcome = args.training.run(step, say)?;
    println!(
        "loss {:.4} to {:.4}, at last by {} users; {:.2} ms a step, with {:.2} MiB beside tables and means of {:.0} MiB",
        outcome.losses[0],
        outcome.losses[1],
        outcome.said,
        outcome.milliseconds,
        outcome.mebibytes(),
        (3 * 4 * (args.users + args.items) * args.factors) as f64 / f64::from(1 << 20)
    );
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trained(more: &[&str]) -> Outcome<i64> {
        let start = ["recommender", "--items", "200", "--batch", "64", "--factors", "4"];
        run(&Args::parse_from(start.iter().chain(more))).unwrap()
    }

    #[test]
    fn it_learns_and_memory_is_that_of_the_rows_read() {
        let small = trained(&["--users", "300", "--steps", "400"]);
        assert!(small.losses[1] < small.losses[0] && small.said <= 16, "{small:?}");
        let large = trained(&["--users", "30000", "--steps", "3", "--weight-decay", "0.01"]);
        let table = 30_000 * 4 * 4;
        assert!(large.bytes < table / 4, "{} of {table} bytes", large.bytes);
        assert!(run(&Args::parse_from(["recommender", "--batch", "0"])).is_err());
    }
}
