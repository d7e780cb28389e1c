//! The third table: workloads of sparse matrices and of sparse gradients, with ten elements in a row at random columns.

use super::Workload;
use super::data::{fill, fill_as, indices, leaf};
use flambeau::core::Layout;
use flambeau::nn::optim::{Optimizer, SparseAdam, SparseAdamOptions};
use flambeau::{Autograd, Result, Scalar, ScalarType, Tensor, ops, sparse};

use ScalarType::{F32, F64, I32};

/// Rows and columns of the matrices, with the name of the size. The small one is for trying the table out.
const SIZES: [(&str, i64); 2] = [("1e3", 1000), ("1e5", 100_000)];
/// Elements in a row.
const EACH: i64 = 10;

pub(super) fn workloads() -> Vec<Workload> {
    let each = SIZES.iter().flat_map(|(label, n)| [products(label, *n), others(label, *n)]);
    each.flatten().collect()
}

/// Coordinates of a square matrix, some of which are equal.
fn coordinates(n: i64, seed: u32, dtype: ScalarType) -> Result<Tensor> {
    let count = n * EACH;
    let at = ops::stack(&[indices(&[count], n as u32, seed)?, indices(&[count], n as u32, seed + 1)?], 0)?;
    sparse::sparse_coo_tensor(&at, &fill_as(&[count], seed + 2, dtype)?, Some(&[n, n]), None)
}

fn rows(n: i64, seed: u32, dtype: ScalarType) -> Result<Tensor> {
    sparse::to_sparse(&coordinates(n, seed, dtype)?, Layout::SparseCsr, None, None)
}

/// The same matrix with indices of int32, as SciPy's.
fn with_narrow_indices(matrix: &Tensor) -> Result<Tensor> {
    let [crow, col] = [sparse::crow_indices(matrix)?, sparse::col_indices(matrix)?].map(|x| x.to(I32));
    let size = Some(matrix.sizes());
    sparse::sparse_compressed_tensor(Layout::SparseCsr, &crow?, &col?, &sparse::values(matrix)?, size)
}

fn products(label: &'static str, n: i64) -> Vec<Workload> {
    let mut all = vec![];
    for (dtype, type_label) in [(F32, "f32"), (F64, "f64")] {
        for width in [1, 64] {
            all.push(Workload::new(format!("sparse.mm{width}_{type_label}.{label}"), move || {
                let (a, b) = (rows(n, 1, dtype)?, fill_as(&[n, width], 9, dtype)?);
                Ok(move || ops::mm(&a, &b))
            }));
            all.push(Workload::new(format!("sparse.mm{width}i32_{type_label}.{label}"), move || {
                let a = with_narrow_indices(&rows(n, 1, dtype)?)?;
                let b = fill_as(&[n, width], 9, dtype)?;
                Ok(move || ops::mm(&a, &b))
            }));
        }
    }
    all.push(Workload::new(format!("sparse.matmul_f32.{label}"), move || {
        let (a, b) = (rows(n, 1, F32)?, rows(n, 4, F32)?);
        Ok(move || sparse::values(&ops::mm(&a, &b)?)?.sum())
    }));
    all.push(Workload::new(format!("sparse.sampled_f32.{label}"), move || {
        let (a, x, y) = (rows(n, 1, F32)?, fill(&[n, 64], 8)?, fill(&[n, 64], 9)?);
        Ok(move || {
            sparse::values(&sparse::sampled_addmm(
                &a,
                &x,
                &y.transpose(0, 1)?,
                Scalar::Int(0),
                Scalar::Int(1),
            )?)
        })
    }));
    all
}

/// A workload on one matrix in compressed rows.
fn of_rows(name: String, n: i64, call: fn(&Tensor) -> Result<Tensor>) -> Workload {
    Workload::of(name, move || rows(n, 1, F32), call)
}

/// The values of the transpose in compressed rows.
fn transposed(matrix: &Tensor) -> Result<Tensor> {
    sparse::values(&sparse::to_sparse(&matrix.transpose(0, 1)?, Layout::SparseCsr, None, None)?)
}

fn others(label: &'static str, n: i64) -> Vec<Workload> {
    let name = |kind: &str| format!("sparse.{kind}_f32.{label}");
    let coalesced = move || sparse::coalesce(&coordinates(n, 1, F32)?);
    let picked = n / 10;
    vec![
        Workload::of(
            name("coalesce"),
            move || coordinates(n, 1, F32),
            |a| sparse::values(&sparse::coalesce(a)?),
        ),
        of_rows(name("transpose"), n, transposed),
        Workload::of(name("transposei32"), move || with_narrow_indices(&rows(n, 1, F32)?), transposed),
        Workload::new(name("add"), move || {
            let (a, b) = (rows(n, 1, F32)?, rows(n, 4, F32)?);
            Ok(move || sparse::values(&a.add(&b)?))
        }),
        Workload::new(name("select"), move || {
            let (a, index) = (rows(n, 1, F32)?, indices(&[picked], n as u32, 7)?);
            Ok(move || sparse::values(&a.index_select(0, &index)?))
        }),
        Workload::new(name("selectcoo"), move || {
            let (a, index) = (coalesced()?, indices(&[picked], n as u32, 7)?);
            Ok(move || a.index_select(0, &index).and_then(|rows| sparse::raw_values(&rows)?.sum()))
        }),
        of_rows(name("softmax"), n, |a| sparse::values(&sparse::softmax(a, 1, None)?)),
        Workload::of(name("softmaxcoo"), coalesced, |a| sparse::values(&sparse::softmax(a, 1, None)?)),
        Workload::new(name("adam"), move || {
            let (table, ids) = (leaf(&[n * 10, 64], 1)?, indices(&[4096], n as u32 * 10, 2)?);
            let mut adam = SparseAdam::new(vec![table.clone()], SparseAdamOptions::default())?;
            Ok(move || {
                adam.zero_grad()?;
                let loss = ops::embedding(&table, &ids, -1, false, true)?.sum()?;
                loss.backward()?;
                adam.step()?;
                Ok(loss)
            })
        }),
    ]
}
