//! Trains a recommender by factors of users and items: tables with many rows, whose sparse gradients have the few that were read.

use clap::Parser;
use flambeau::core::allocator::{Allocator, CpuAllocator};
use flambeau::core::ensure;
use flambeau::nn::optim::{SparseAdam, SparseAdamOptions};
use flambeau::prelude::*;
use flambeau::sparse;
use std::process::ExitCode;
use std::time::Instant;

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
    /// Steps of training.
    #[arg(long, default_value_t = 50)]
    steps: usize,
    /// Learning rate.
    #[arg(long, default_value_t = 1e-2)]
    lr: f64,
    /// Weight decay of the rows that a step reads.
    #[arg(long, default_value_t = 0.0)]
    weight_decay: f64,
    /// Of ratings and tables.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The losses of the first and the last step, rows of users in the last gradient, and the memory of a step.
struct Outcome {
    losses: [f32; 2],
    rows: i64,
    bytes: usize,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(_) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
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

fn run(args: &Args) -> Result<Outcome> {
    let sizes = [args.users, args.items, args.factors, args.batch, args.steps as i64];
    ensure!(
        sizes.iter().all(|size| *size > 0),
        InvalidArgument,
        "expected sizes and steps of at least 1 but got {sizes:?}"
    );
    flambeau::manual_seed(args.seed);
    let tables = [table(args.users, args.factors)?, table(args.items, args.factors)?];
    let truth = [args.users, args.items].map(|rows| Tensor::randn(&[rows, 2], ScalarType::F32));
    let [true_users, true_items] = truth;
    let truth = [true_users?, true_items?];
    let options = SparseAdamOptions::default().lr(args.lr).weight_decay(args.weight_decay).lazy(true);
    let mut adam = SparseAdam::new(tables.to_vec(), options)?;
    let (mut outcome, begin) = (Outcome { losses: [0.0; 2], rows: 0, bytes: 0 }, Instant::now());
    for step in 1..=args.steps {
        let before = CpuAllocator.memory_stats().live_bytes;
        CpuAllocator.reset_peak();
        let [users, items] = drawn(args)?;
        let ratings = (truth[0].index_select(0, &users)? * truth[1].index_select(0, &items)?)?.sum_dim(1)?;
        let error = ((read(&tables[0], &users)? * read(&tables[1], &items)?)?.sum_dim(1)? - ratings)?;
        let loss = (&error * &error)?.mean()?;
        adam.zero_grad()?;
        loss.backward()?;
        adam.step()?;
        // The first step also makes the state of the optimizer, which is as large as the tables.
        if step > 1 {
            outcome.bytes = CpuAllocator.memory_stats().peak_bytes.saturating_sub(before);
        }
        outcome.losses[usize::from(step > 1)] = loss.item::<f32>()?;
        outcome.rows = tables[0].grad().map_or(Ok(0), |grad| sparse::nnz(&grad))?;
        if step % 10 == 0 || step == 1 {
            let (loss, rows) = (loss.item::<f32>()?, outcome.rows);
            println!("step {step}: loss {loss:.4}, gradients of {rows} of {} users", args.users);
        }
    }
    println!(
        "{:.2} ms a step, with {:.2} MiB beside tables and means of {:.0} MiB",
        begin.elapsed().as_secs_f64() * 1e3 / args.steps as f64,
        outcome.bytes as f64 / f64::from(1 << 20),
        (3 * 4 * (args.users + args.items) * args.factors) as f64 / f64::from(1 << 20)
    );
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trained(more: &[&str]) -> Outcome {
        let start = ["recommender", "--items", "200", "--batch", "64", "--factors", "4"];
        run(&Args::parse_from(start.iter().chain(more))).unwrap()
    }

    #[test]
    fn it_learns_and_memory_is_that_of_the_rows_read() {
        let small = trained(&["--users", "300", "--steps", "400"]);
        assert!(small.losses[1] < small.losses[0] && small.rows <= 16, "{:?} {}", small.losses, small.rows);
        let large = trained(&["--users", "30000", "--steps", "3", "--weight-decay", "0.01"]);
        let table = 30_000 * 4 * 4;
        assert!(large.bytes < table / 4, "{} of {table} bytes", large.bytes);
        assert!(run(&Args::parse_from(["recommender", "--batch", "0"])).is_err());
    }
}
