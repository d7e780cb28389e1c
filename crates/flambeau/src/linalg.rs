//! Linear algebra: the functions of PyTorch's `torch.linalg` with all their arguments. [`Tensor`](crate::Tensor) has each as a method too,
//! which leaves out what has a default: `a.linalg_svd()`. The last two dimensions of a tensor are matrices, the others batches of them.
//! A name with a suffix is another overload: `norm_ord_str` takes an order by name.
//!
//! ```
//! use flambeau::{Tensor, linalg};
//!
//! let a = Tensor::from([[4.0, 1.0], [1.0, 3.0]]);
//! let b = Tensor::from([1.0, 2.0]);
//! let x = linalg::solve(&a, &b, true)?;
//! assert!(a.mv(&x)?.allclose(&b, 1e-9, 1e-9, false)?);
//! assert!((linalg::det(&a)?.item::<f64>()? - 11.0).abs() < 1e-12);
//! # Ok::<(), flambeau::Error>(())
//! ```

pub use flambeau_ops::ops::{diagonal, matmul};
pub use flambeau_ops::ops::{
    linalg_cholesky as cholesky, linalg_cholesky_ex as cholesky_ex, linalg_cond as cond,
    linalg_cond_p_str as cond_p_str, linalg_cross as cross, linalg_det as det, linalg_eig as eig,
    linalg_eigh as eigh, linalg_eigvals as eigvals, linalg_eigvalsh as eigvalsh,
    linalg_householder_product as householder_product, linalg_inv as inv, linalg_inv_ex as inv_ex,
    linalg_ldl_factor as ldl_factor, linalg_ldl_factor_ex as ldl_factor_ex, linalg_ldl_solve as ldl_solve,
    linalg_lstsq as lstsq, linalg_lu as lu, linalg_lu_factor as lu_factor,
    linalg_lu_factor_ex as lu_factor_ex, linalg_lu_solve as lu_solve, linalg_matrix_exp as matrix_exp,
    linalg_matrix_norm as matrix_norm, linalg_matrix_norm_str_ord as matrix_norm_str_ord,
    linalg_matrix_power as matrix_power, linalg_matrix_rank as matrix_rank,
    linalg_matrix_rank_atol_rtol_float as matrix_rank_atol_rtol_float,
    linalg_matrix_rank_atol_rtol_tensor as matrix_rank_atol_rtol_tensor,
    linalg_matrix_rank_tol_tensor as matrix_rank_tol_tensor, linalg_matrix_sqrth as matrix_sqrth,
    linalg_multi_dot as multi_dot, linalg_norm as norm, linalg_norm_ord_str as norm_ord_str,
    linalg_pinv as pinv, linalg_pinv_atol_rtol_float as pinv_atol_rtol_float,
    linalg_pinv_atol_rtol_tensor as pinv_atol_rtol_tensor, linalg_pinv_rcond_tensor as pinv_rcond_tensor,
    linalg_polar as polar, linalg_qr as qr, linalg_slogdet as slogdet, linalg_solve as solve,
    linalg_solve_ex as solve_ex, linalg_solve_triangular as solve_triangular, linalg_svd as svd,
    linalg_svdvals as svdvals, linalg_tensorinv as tensorinv, linalg_tensorsolve as tensorsolve,
    linalg_vander as vander, linalg_vecdot as vecdot, linalg_vector_norm as vector_norm,
};
