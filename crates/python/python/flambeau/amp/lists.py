"""Which operators compute in half precision and which in single precision under `autocast`: PyTorch's lists for the CPU."""

from __future__ import annotations

# Operands are converted to the dtype of the context.
LOWER = frozenset(
    "conv1d conv2d conv3d bmm mm linalg_vecdot vecdot baddbmm addmm addbmm linear _convolution matmul __matmul__ __rmatmul__ conv_tbc "
    "conv_transpose1d conv_transpose2d conv_transpose3d scaled_dot_product_attention multi_dot linalg_multi_dot".split()
)

# Operands are converted to float32.
SINGLE = frozenset(
    "avg_pool3d binary_cross_entropy grid_sampler polar prod quantile nanquantile stft cdist trace view_as_complex cholesky "
    "cholesky_inverse cholesky_solve inverse lu_solve orgqr ormqr pinverse max_pool3d max_unpool2d max_unpool3d adaptive_avg_pool3d "
    "reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d replication_pad3d mse_loss cosine_embedding_loss nll_loss "
    "nll_loss2d nll_loss_nd hinge_embedding_loss poisson_nll_loss smooth_l1_loss cross_entropy_loss l1_loss huber_loss "
    "margin_ranking_loss soft_margin_loss triplet_margin_loss multi_margin_loss ctc_loss kl_div multilabel_margin_loss "
    "binary_cross_entropy_with_logits fft_fft fft_ifft fft_fft2 fft_ifft2 fft_fftn fft_ifftn fft_rfft fft_irfft fft_rfft2 fft_irfft2 "
    "fft_rfftn fft_irfftn fft_hfft fft_ihfft linalg_cond linalg_matrix_rank linalg_solve linalg_cholesky linalg_svdvals "
    "linalg_eigvals linalg_eigvalsh linalg_inv linalg_householder_product linalg_tensorinv linalg_tensorsolve geqrf lu_unpack "
    "triangular_solve linalg_lstsq linalg_qr linalg_cholesky_ex linalg_svd linalg_eig linalg_eigh linalg_inv_ex".split()
)

# Operands are converted to the widest of their dtypes.
WIDEST = frozenset("stack cat concat concatenate index_copy".split())
