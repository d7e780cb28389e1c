//! Kernels in CUDA C++, compiled by NVRTC and interpreted, against the same computations in Rust: in eight orders of blocks, warps and lanes,
//! with checks of shared memory. Without NVRTC, which `cargo xtask cuda-tools` fetches, they are skipped, and counted.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(unsafe_code, reason = "the environment is set before anything reads it")]

use flambeau_core::Generator;
use flambeau_cuda::testing;
use flambeau_cuda_standin::testing::Simulator;
use std::sync::Once;

/// The orders.
const SEEDS: std::ops::Range<u64> = 0..8;

/// The PTX of a source; `None` without NVRTC.
fn compiled(source: &str) -> Option<String> {
    static PATH: Once = Once::new();
    PATH.call_once(|| {
        let target = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned();
        // SAFETY: all tests of this file come here first, before the library reads the variable.
        unsafe { std::env::set_var("CUDA_HOME", target.join("cuda-tools/nvidia/cu13/lib")) };
    });
    if let Err(error) = testing::nvrtc_version() {
        println!("1 check skipped: {error}");
        return None;
    }
    Some(testing::ptx(source, (9, 0)).unwrap_or_else(|error| panic!("{error}")))
}

/// An argument of a launch.
enum Argument {
    /// Memory with these bytes.
    Memory(Vec<u8>),
    Word(u64),
}

/// Runs a source in each order; returns the bytes of its first argument, which is memory, for each.
fn outcomes(source: &str, (blocks, threads): (u32, u32), arguments: &[Argument]) -> Vec<Vec<u8>> {
    let Some(ptx) = compiled(source) else { return Vec::new() };
    SEEDS
        .map(|seed| {
            let mut device = Simulator::new(seed, true);
            let module = device.load(&ptx).unwrap_or_else(|error| panic!("{error}"));
            let word = |argument: &Argument| match argument {
                Argument::Memory(bytes) => device.upload(bytes).unwrap(),
                Argument::Word(word) => *word,
            };
            let words: Vec<u64> = arguments.iter().map(word).collect();
            device
                .launch(&module, blocks, threads, &words)
                .unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
            let Some(Argument::Memory(result)) = arguments.first() else {
                panic!("the first argument is memory")
            };
            device.download(words[0], result.len() as u64).unwrap()
        })
        .collect()
}

/// The same bits in every order, as numbers.
#[track_caller]
fn result<const N: usize, T: PartialEq + std::fmt::Debug>(
    source: &str,
    grid: (u32, u32),
    arguments: &[Argument],
    of: impl Fn([u8; N]) -> T,
) -> Option<Vec<T>> {
    let all = outcomes(source, grid, arguments);
    let first = all.first()?.clone();
    assert!(all.iter().all(|other| *other == first), "the orders give different bits");
    Some(first.chunks_exact(N).map(|bytes| of(bytes.try_into().unwrap())).collect())
}

fn memory<const N: usize, T: Copy>(values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Argument {
    Argument::Memory(values.iter().flat_map(|value| bytes(*value)).collect())
}

fn floats(values: &[f32]) -> Argument {
    memory(values, f32::to_le_bytes)
}

/// Room for so many bytes.
fn room(bytes: usize) -> Argument {
    Argument::Memory(vec![0; bytes])
}

/// Numbers of both signs, of which no two are alike.
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 % 1009) as f32 - 500.0) / 64.0).collect()
}

const HEAD: &str = r#"typedef unsigned int uint32; typedef long long int64; typedef unsigned long long uint64;
#define KERNEL extern "C" __global__ void kernel
"#;

fn source(body: &str) -> String {
    format!("{HEAD}{body}")
}

#[test]
fn a_sum_of_strided_operands() {
    let text = source(
        "// Offsets by division with a multiplication: of a tensor of 5 x 7 x 11, whose last two dimensions are exchanged in b.
        __device__ uint32 quotient(uint32 n, uint32 magic, uint32 shift) { return (__umulhi(n, magic) + n) >> shift; }
        KERNEL(float* out, const float* a, const float* b) {
            uint32 i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i >= 385) return;
            uint32 rest = quotient(i, 1952257862u, 4), column = i - rest * 11;
            uint32 plane = quotient(rest, 613566757u, 3), row = rest - plane * 7;
            out[i] = a[i] + b[plane * 77 + column * 7 + row];
        }",
    );
    let (a, b) = (numbers(385), numbers(400));
    let arguments = [room(385 * 4), floats(&a), floats(&b)];
    let Some(out) = result(&text, (4, 128), &arguments, f32::from_le_bytes) else { return };
    let expected = |i: usize| a[i] + b[i / 77 * 77 + i % 11 * 7 + i / 11 % 7];
    assert!((0..385).all(|i| out[i] == expected(i)), "{out:?}");
}

#[test]
fn functions_of_f32() {
    let text = source(
        "KERNEL(float* out, const float* in) {
            uint32 i = blockIdx.x * blockDim.x + threadIdx.x;
            float x = in[i], p = fabsf(x) + 0.125f;
            float r[8] = {expf(x), logf(p), tanhf(x), sinf(x), cosf(x), sqrtf(p), erff(x), expm1f(x)};
            for (int k = 0; k < 8; ++k) out[8 * i + k] = r[k];
        }",
    );
    let input = numbers(256);
    let Some(out) = result(&text, (2, 128), &[room(256 * 32), floats(&input)], f32::from_le_bytes) else {
        return;
    };
    let functions: [fn(f64) -> f64; 7] = [
        f64::exp,
        |x| ((x.abs() as f32 + 0.125) as f64).ln(),
        f64::tanh,
        f64::sin,
        f64::cos,
        |x| ((x.abs() as f32 + 0.125) as f64).sqrt(),
        |x| x.exp_m1(),
    ];
    for (i, x) in input.iter().enumerate() {
        for (k, function) in functions.iter().enumerate() {
            // The sixth result is that of erf, for which there is no function here; it is between -1 and 1, with the sign of x.
            let (got, expected) =
                (f64::from(out[8 * i + if k < 6 { k } else { 7 }]), function(f64::from(*x)));
            let close = (got - expected).abs() <= 4.0 * f64::from(f32::EPSILON) * expected.abs().max(1e-3);
            assert!(close, "function {k} of {x}: {got}, expected {expected}");
        }
        let erf = out[8 * i + 6];
        assert!(erf.abs() <= 1.0 && erf * x >= 0.0, "erf of {x}: {erf}");
    }
}

#[test]
fn functions_of_f64() {
    let text = source(
        "KERNEL(double* out, const float* in) {
            uint32 i = threadIdx.x;
            out[2 * i] = exp((double)in[i]); out[2 * i + 1] = tanh((double)in[i]);
        }",
    );
    let input = numbers(256);
    let Some(out) = result(&text, (1, 256), &[room(256 * 16), floats(&input)], f64::from_le_bytes) else {
        return;
    };
    for (x, pair) in input.iter().zip(out.chunks_exact(2)) {
        for (got, expected) in pair.iter().zip([f64::from(*x).exp(), f64::from(*x).tanh()]) {
            assert!(
                (got - expected).abs() <= 2.0 * f64::EPSILON * expected.abs(),
                "of {x}: {got}, {expected}"
            );
        }
    }
}

#[test]
fn sums_of_rows_by_shuffles() {
    let text = source(
        "KERNEL(float* out, const float* in) {
            __shared__ float parts[8];
            float sum = 0;
            for (int i = threadIdx.x; i < 1000; i += 256) sum += in[blockIdx.x * 1000 + i];
            for (int k = 16; k > 0; k /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, k);
            if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
            __syncthreads();
            if (threadIdx.x == 0) {
                for (int k = 1; k < 8; ++k) parts[0] += parts[k];
                out[blockIdx.x] = parts[0];
            }
        }",
    );
    let input = numbers(20_000);
    let Some(out) = result(&text, (20, 256), &[room(80), floats(&input)], f32::from_le_bytes) else { return };
    for (row, got) in out.iter().enumerate() {
        let of_thread = |t: usize| (t..1000).step_by(256).fold(0f32, |sum, i| sum + input[row * 1000 + i]);
        let mut lanes: Vec<f32> = (0..256).map(of_thread).collect();
        for k in [16, 8, 4, 2, 1] {
            lanes = (0..256).map(|t: usize| lanes[t] + lanes[t ^ k]).collect();
        }
        let expected = lanes.iter().step_by(32).copied().reduce(|a, b| a + b).unwrap();
        assert_eq!(got.to_bits(), expected.to_bits(), "row {row}");
    }
}

#[test]
fn a_product_of_matrices_in_tiles() {
    let text = source(
        "KERNEL(float* out, const float* a, const float* b) {
            __shared__ float x[16][17], y[16][17];
            int row = threadIdx.x / 16, column = threadIdx.x % 16, top = blockIdx.x / 3 * 16, left = blockIdx.x % 3 * 16;
            float sum = 0;
            for (int k = 0; k < 48; k += 16) {
                x[row][column] = a[(top + row) * 48 + k + column];
                y[row][column] = b[(k + row) * 48 + left + column];
                __syncthreads();
                for (int i = 0; i < 16; ++i) sum += x[row][i] * y[i][column];
                __syncthreads();
            }
            out[(top + row) * 48 + left + column] = sum;
        }",
    );
    let (a, b) = (numbers(48 * 48), numbers(48 * 48 + 5)[5..].to_vec());
    let arguments = [room(48 * 48 * 4), floats(&a), floats(&b)];
    let Some(out) = result(&text, (9, 256), &arguments, f32::from_le_bytes) else { return };
    for (i, got) in out.iter().enumerate() {
        let expected = (0..48).fold(0f32, |sum, k| sum + a[i / 48 * 48 + k] * b[k * 48 + i % 48]);
        assert_eq!(got.to_bits(), expected.to_bits(), "element {i}");
    }
}

/// Sums of integers by atomics are the same in every order, and those of floats are not: that is how the orders find what is not deterministic.
#[test]
fn a_scatter_by_atomics() {
    let text = source(
        "KERNEL(uint32* out, const float* in) {
            uint32 i = blockIdx.x * blockDim.x + threadIdx.x;
            atomicAdd(out + i % 7, i);
            SUM
        }",
    );
    let input = numbers(2048);
    let arguments = [room(8 * 4), floats(&input)];
    let integers = text.replace("SUM", "");
    if let Some(out) = result(&integers, (8, 256), &arguments, u32::from_le_bytes) {
        assert!((0..7).all(|k| out[k] == (k as u32..2048).step_by(7).sum::<u32>()), "{out:?}");
    }
    let all =
        outcomes(&text.replace("SUM", "atomicAdd((float*)out + 7, in[i] / 3.0f);"), (8, 256), &arguments);
    let sums: std::collections::BTreeSet<&[u8]> = all.iter().map(|bytes| &bytes[28..]).collect();
    assert!(all.is_empty() || sums.len() > 1, "{sums:?}");
}

#[test]
fn conversions_to_half_precision() {
    let text = source(
        "KERNEL(unsigned short* out, const float* in) {
            uint32 i = threadIdx.x;
            asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(out[2 * i]) : \"f\"(in[i]));
            uint32 bits = __float_as_uint(in[i]);
            out[2 * i + 1] = (unsigned short)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
        }",
    );
    let input = numbers(256);
    let Some(out) = result(&text, (1, 256), &[room(256 * 4), floats(&input)], u16::from_le_bytes) else {
        return;
    };
    for (x, pair) in input.iter().zip(out.chunks_exact(2)) {
        // Of these numbers all have an exact f16 or one that is near, and bf16 keeps 8 digits.
        let (half, brain) = (half_value(pair[0]), f32::from_bits(u32::from(pair[1]) << 16));
        assert!(
            (half - x).abs() <= x.abs() / 2048.0 && (brain - x).abs() <= x.abs() / 256.0,
            "{x}: {half}, {brain}"
        );
    }
}

/// The value of a normal number of f16, or of 0.
fn half_value(bits: u16) -> f32 {
    let (sign, exponent, fraction) = (bits >> 15, i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    let value = if exponent == 0 {
        fraction * 2f32.powi(-24)
    } else {
        (1.0 + fraction / 1024.0) * 2f32.powi(exponent - 15)
    };
    if sign == 1 { -value } else { value }
}

#[test]
fn random_words() {
    let text = source(
        "KERNEL(uint32* out, uint64 seed, uint64 start) {
            uint64 position = start + blockIdx.x * blockDim.x + threadIdx.x;
            uint32 c[4] = {(uint32)position, (uint32)(position >> 32), 0, 0}, k0 = (uint32)seed, k1 = (uint32)(seed >> 32);
            for (int round = 0; round < 10; ++round) {
                uint64 a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
                uint32 first = (uint32)(b >> 32) ^ c[1] ^ k0, third = (uint32)(a >> 32) ^ c[3] ^ k1;
                c[0] = first; c[1] = (uint32)b; c[2] = third; c[3] = (uint32)a;
                k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
            }
            for (int i = 0; i < 4; ++i) out[4 * (blockIdx.x * blockDim.x + threadIdx.x) + i] = c[i];
        }",
    );
    let words = Generator::new(0x1234_5678_9abc_def0).reserve_words(1024, 1).unwrap();
    let arguments = [room(4096), Argument::Word(words.seed()), Argument::Word(words.start())];
    let Some(out) = result(&text, (2, 128), &arguments, u32::from_le_bytes) else { return };
    assert!((0..1024).all(|i| out[i as usize] == words.word(i)), "{:?}", &out[..8]);
}

#[test]
fn floor_divisions_of_64_bits() {
    let text = source(
        "KERNEL(int64* out, const int64* in) {
            uint32 i = threadIdx.x;
            int64 a = in[2 * i], b = in[2 * i + 1], q = a / b;
            out[i] = q - (a % b != 0 && (a < 0) != (b < 0));
        }",
    );
    let pair =
        |i: i64| [(i - 128) * 0x1234_5678_9abc, if i % 3 == 0 { -(i + 1) * 77_777 } else { i * i + 3 }];
    let input: Vec<i64> = (0..256).flat_map(pair).collect();
    let arguments = [room(2048), memory(&input, i64::to_le_bytes)];
    let Some(out) = result(&text, (1, 256), &arguments, i64::from_le_bytes) else { return };
    let floor = |[a, b]: [i64; 2]| a.div_euclid(b) - i64::from(b < 0 && a.rem_euclid(b) != 0);
    assert!((0..256).all(|i| out[i as usize] == floor(pair(i))), "{out:?}");
}

#[test]
fn a_scan_in_shared_memory() {
    let text = source(
        "KERNEL(int* out, const int* in) {
            __shared__ int values[256];
            int t = threadIdx.x;
            values[t] = in[blockIdx.x * 256 + t];
            __syncthreads();
            for (int k = 1; k < 256; k *= 2) {
                int before = t >= k ? values[t - k] : 0;
                __syncthreads();
                values[t] += before;
                __syncthreads();
            }
            out[blockIdx.x * 256 + t] = values[t];
        }",
    );
    let input: Vec<i32> = (0..1024).map(|i| i * 37 % 101 - 50).collect();
    let arguments = [room(4096), memory(&input, i32::to_le_bytes)];
    let Some(out) = result(&text, (4, 256), &arguments, i32::from_le_bytes) else { return };
    for (block, values) in out.chunks_exact(256).enumerate() {
        let mut sum = 0;
        for (i, value) in values.iter().enumerate() {
            sum += input[block * 256 + i];
            assert_eq!(*value, sum, "element {i} of block {block}");
        }
    }
}
