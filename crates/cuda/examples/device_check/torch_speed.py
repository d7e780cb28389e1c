"""PyTorch's times for what `device_check speed` measures, on the same device."""

import time

import torch

torch.backends.cuda.matmul.allow_tf32 = False
DEVICE = torch.device("cuda:0")


def seconds(count, call):
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(count):
            call()
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / count)
    return best


def bandwidth(name, size, call):
    taken = seconds(20, call)
    print(f"torch {name}: {taken * 1e6:.0f} us, {size / taken / 1e9:.0f} GB/s")


one = torch.randn(1, device=DEVICE)
print(f"torch add of one element: {seconds(20000, lambda: one + one) * 1e6:.2f} us")
count = 1 << 26
x, y = torch.randn(count, device=DEVICE), torch.randn(count, device=DEVICE)
bandwidth("add 2^26 f32", 12 * count, lambda: x + y)
bandwidth("tanh 2^26 f32", 8 * count, lambda: x.tanh())
bandwidth("exp 2^26 f32", 8 * count, lambda: x.exp())
bandwidth("gelu 2^26 f32", 8 * count, lambda: torch.nn.functional.gelu(x))
bandwidth("sum 2^26 f32", 4 * count, lambda: x.sum())
matrix = x.reshape(1 << 13, 1 << 13)
bandwidth("sum of rows 8192 x 8192 f32", 4 * count, lambda: matrix.sum(1))
bandwidth("sum of columns 8192 x 8192 f32", 4 * count, lambda: matrix.sum(0))
bandwidth("transposed copy 8192 x 8192 f32", 8 * count, lambda: matrix.t().contiguous())
bandwidth("softmax of rows 8192 x 8192 f32", 8 * count, lambda: matrix.softmax(1))
narrow = x.reshape(1 << 16, 1 << 10)
bandwidth("softmax of rows 65536 x 1024 f32", 8 * count, lambda: narrow.softmax(1))
xh, yh = x.bfloat16(), y.bfloat16()
bandwidth("add 2^26 bf16", 6 * count, lambda: xh + yh)
for size in [256, 1024, 4096]:
    a, b = torch.randn(size, size, device=DEVICE), torch.randn(size, size, device=DEVICE)
    taken = seconds(10, lambda: a @ b)
    print(f"torch mm {size} f32: {taken * 1e6:.0f} us, {2 * size**3 / taken / 1e12:.1f} TFLOP/s")
