//! What instructions compute, against tables that were written from PTX's definition, and against the processor.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use flambeau_cuda_standin::testing::Simulator;

/// Three operands, and the result.
type Case = ([u64; 3], u64);

/// A kernel that runs one instruction for each thread. Operands are `%r1` to `%r3` as 32 bits, `%d1` to `%d3` as 64 and `%h1` to `%h3` as
/// 16; the result is `%r0`, `%d0`, `%h0` or `%p0`.
fn program(instruction: &str) -> String {
    let result = if instruction.contains("%d0") {
        "mov.u64 %d9, %d0;"
    } else if instruction.contains("%r0") {
        "cvt.u64.u32 %d9, %r0;"
    } else if instruction.contains("%h0") {
        "cvt.u64.u16 %d9, %h0;"
    } else {
        "selp.u64 %d9, 1, 0, %p0;"
    };
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n
        .visible .entry kernel(.param .u64 in, .param .u64 out, .param .u64 count) {{
        .reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<20>; .reg .b64 %d<20>;
        mov.u32 %r10, %ctaid.x; mov.u32 %r11, %ntid.x; mov.u32 %r12, %tid.x;
        mad.lo.s32 %r13, %r10, %r11, %r12;
        ld.param.u64 %d10, [in]; ld.param.u64 %d11, [out]; ld.param.u64 %d13, [count];
        cvt.u64.u32 %d14, %r13;
        setp.ge.u64 %p8, %d14, %d13;
        @%p8 bra DONE;
        mul.wide.u32 %d12, %r13, 24; add.s64 %d10, %d10, %d12;
        mul.wide.u32 %d12, %r13, 8; add.s64 %d11, %d11, %d12;
        ld.global.u64 %d1, [%d10]; ld.global.u64 %d2, [%d10+8]; ld.global.u64 %d3, [%d10+16];
        cvt.u32.u64 %r1, %d1; cvt.u32.u64 %r2, %d2; cvt.u32.u64 %r3, %d3;
        cvt.u16.u64 %h1, %d1; cvt.u16.u64 %h2, %d2; cvt.u16.u64 %h3, %d3;
        setp.ne.u64 %p1, %d1, 0; setp.ne.u64 %p2, %d2, 0; setp.ne.u64 %p3, %d3, 0;
        {instruction};
        {result}
        st.global.u64 [%d11], %d9;
        DONE: ret; }}"
    )
}

/// The results of an instruction for operands.
fn results(instruction: &str, operands: &[[u64; 3]]) -> Vec<u64> {
    let mut device = Simulator::new(0, true);
    let module = device.load(&program(instruction)).unwrap_or_else(|error| panic!("{instruction}: {error}"));
    let bytes: Vec<u8> = operands.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
    let input = device.upload(&bytes).unwrap();
    let count = operands.len() as u64;
    let output = device.upload(&vec![0; operands.len() * 8]).unwrap();
    device.launch(&module, (count as u32).div_ceil(64), 64, &[input, output, count]).unwrap();
    let results = device.download(output, 8 * count).unwrap();
    results.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn check(instruction: &str, cases: &[Case]) {
    let operands: Vec<[u64; 3]> = cases.iter().map(|(operands, _)| *operands).collect();
    for ((operands, expected), result) in cases.iter().zip(results(instruction, &operands)) {
        assert_eq!(result, *expected, "{instruction} of {operands:x?}: {result:#x}, expected {expected:#x}");
    }
}

/// Checks an instruction of two operands against a function, for all pairs of values.
fn check_pairs(instruction: &str, values: &[u64], reference: impl Fn(u64, u64) -> u64) {
    let operands: Vec<[u64; 3]> = values.iter().flat_map(|a| values.iter().map(|b| [*a, *b, 0])).collect();
    for ([a, b, _], result) in operands.iter().zip(results(instruction, &operands)) {
        let expected = reference(*a, *b);
        assert_eq!(result, expected, "{instruction} of {a:#x}, {b:#x}: {result:#x}, expected {expected:#x}");
    }
}

const INTEGERS: [u64; 14] = [
    0,
    1,
    2,
    7,
    31,
    32,
    100,
    0x7fff,
    0x8000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
];

#[test]
fn integer_arithmetic_wraps() {
    let low = |x: u64| u64::from(x as u32);
    check_pairs("add.s32 %r0, %r1, %r2", &INTEGERS, |a, b| low((a as u32).wrapping_add(b as u32).into()));
    check_pairs("sub.u64 %d0, %d1, %d2", &INTEGERS, u64::wrapping_sub);
    check_pairs("mul.lo.s64 %d0, %d1, %d2", &INTEGERS, u64::wrapping_mul);
    check_pairs("mul.hi.u64 %d0, %d1, %d2", &INTEGERS, |a, b| ((u128::from(a) * u128::from(b)) >> 64) as u64);
    check_pairs("mul.hi.s64 %d0, %d1, %d2", &INTEGERS, |a, b| {
        ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64
    });
    check_pairs("mul.hi.u32 %r0, %r1, %r2", &INTEGERS, |a, b| (low(a) * low(b)) >> 32);
    check_pairs("mul.hi.s32 %r0, %r1, %r2", &INTEGERS, |a, b| {
        low(((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u64)
    });
    check_pairs("mul.wide.s32 %d0, %r1, %r2", &INTEGERS, |a, b| {
        (i64::from(a as i32) * i64::from(b as i32)) as u64
    });
    check_pairs("mul.wide.u16 %r0, %h1, %h2", &INTEGERS, |a, b| u64::from(a as u16) * u64::from(b as u16));
    check_pairs("add.s16 %h0, %h1, %h2", &INTEGERS, |a, b| u64::from((a as u16).wrapping_add(b as u16)));
    check_pairs("max.s16 %h0, %h1, %h2", &INTEGERS, |a, b| u64::from((a as i16).max(b as i16) as u16));
    check_pairs("min.u16 %h0, %h1, %h2", &INTEGERS, |a, b| u64::from((a as u16).min(b as u16)));
    check_pairs("xor.b64 %d0, %d1, %d2", &INTEGERS, |a, b| a ^ b);
    check("mad.lo.s32 %r0, %r1, %r2, %r3", &[([7, 8, 9], 65), ([0xffff_ffff, 2, 3], 1)]);
    check("mad.wide.u32 %d0, %r1, %r2, %d3", &[([0xffff_ffff, 0xffff_ffff, 1], 0xffff_fffe_0000_0002)]);
    check("mad.hi.s32 %r0, %r1, %r2, %r3", &[([0xffff_ffff, 2, 3], 2), ([0x4000_0000, 8, 1], 3)]);
    check(
        "add.sat.s32 %r0, %r1, %r2",
        &[([0x7fff_ffff, 1, 0], 0x7fff_ffff), ([0x8000_0000, 0xffff_ffff, 0], 0x8000_0000)],
    );
    check("neg.s16 %h0, %h1", &[([1, 0, 0], 0xffff), ([0x8000, 0, 0], 0x8000)]);
    check("abs.s64 %d0, %d1", &[([u64::MAX, 0, 0], 1), ([5, 0, 0], 5)]);
    check("not.b16 %h0, %h1", &[([0x00ff, 0, 0], 0xff00)]);
    check("cnot.b32 %r0, %r1", &[([0, 0, 0], 1), ([9, 0, 0], 0)]);
}

#[test]
fn division_truncates_and_never_traps() {
    check_pairs("div.s64 %d0, %d1, %d2", &INTEGERS, |a, b| {
        if b == 0 { u64::MAX } else { (a as i64).wrapping_div(b as i64) as u64 }
    });
    check_pairs("rem.s32 %r0, %r1, %r2", &INTEGERS, |a, b| {
        let (a, b) = (a as i32, b as i32);
        u64::from(if b == 0 { a as u32 } else { a.wrapping_rem(b) as u32 })
    });
    check("div.u32 %r0, %r1, %r2", &[([0xffff_ffff, 2, 0], 0x7fff_ffff)]);
    check(
        "div.s32 %r0, %r1, %r2",
        &[
            ([0x8000_0000, 0xffff_ffff, 0], 0x8000_0000),
            ([(-7i32) as u32 as u64, 2, 0], (-3i32) as u32 as u64),
        ],
    );
    check("rem.u64 %d0, %d1, %d2", &[([u64::MAX, 10, 0], 5)]);
}

#[test]
fn shifts_clamp_their_amount() {
    check("shl.b32 %r0, %r1, %r2", &[([1, 31, 0], 0x8000_0000), ([1, 32, 0], 0), ([1, 0xffff_ffff, 0], 0)]);
    check(
        "shr.s32 %r0, %r1, %r2",
        &[([0x8000_0000, 31, 0], 0xffff_ffff), ([0x8000_0000, 99, 0], 0xffff_ffff), ([8, 99, 0], 0)],
    );
    check("shr.u64 %d0, %d1, %r2", &[([u64::MAX, 63, 0], 1), ([u64::MAX, 64, 0], 0)]);
    check("shr.s16 %h0, %h1, %r2", &[([0x8000, 15, 0], 0xffff), ([0x4000, 3, 0], 0x0800)]);
    check("shf.l.wrap.b32 %r0, %r1, %r2, %r3", &[([0x8000_0000, 1, 1], 3), ([0x8000_0000, 1, 33], 3)]);
    check(
        "shf.r.clamp.b32 %r0, %r1, %r2, %r3",
        &[([0, 3, 1], 0x8000_0000), ([5, 7, 32], 7), ([5, 7, 77], 7)],
    );
}

#[test]
fn bits() {
    check("popc.b64 %r0, %d1", &[([u64::MAX, 0, 0], 64), ([0x11, 0, 0], 2)]);
    check("clz.b32 %r0, %r1", &[([0, 0, 0], 32), ([1, 0, 0], 31)]);
    check("clz.b64 %r0, %d1", &[([0, 0, 0], 64), ([1 << 40, 0, 0], 23)]);
    check("brev.b32 %r0, %r1", &[([1, 0, 0], 0x8000_0000), ([0xf0, 0, 0], 0x0f00_0000)]);
    check("bfind.u32 %r0, %r1", &[([0, 0, 0], 0xffff_ffff), ([9, 0, 0], 3)]);
    check("bfind.s32 %r0, %r1", &[([0xffff_ffff, 0, 0], 0xffff_ffff), ([0xffff_fff0, 0, 0], 3)]);
    check(
        "bfe.u32 %r0, %r1, %r2, %r3",
        &[([0xabcd_1234, 8, 8], 0x12), ([0xabcd_1234, 0, 0], 0), ([0xabcd_1234, 28, 8], 0xa)],
    );
    check(
        "bfe.s32 %r0, %r1, %r2, %r3",
        &[([0x0000_00f0, 4, 4], 0xffff_ffff), ([0x70, 4, 4], 7), ([0x8000_0000, 28, 8], 0xffff_fff8)],
    );
    check("bfe.u64 %d0, %d1, %r2, %r3", &[([u64::MAX, 0, 64], u64::MAX), ([u64::MAX, 60, 64], 15)]);
    check("bfi.b32 %r0, %r1, %r2, 8, 4", &[([0xff, 0, 0], 0xf00), ([0, 0xffff_ffff, 0], 0xffff_f0ff)]);
    check("bfi.b64 %d0, %d1, %d2, 63, 1", &[([1, 0, 0], 1 << 63), ([2, u64::MAX, 0], u64::MAX >> 1)]);
    check("prmt.b32 %r0, %r1, %r2, 0x5410", &[([0x3322_1100, 0x7766_5544, 0], 0x5544_1100)]);
    check(
        "prmt.b32 %r0, %r1, %r2, 0x0008",
        &[([0x0000_0080, 0, 0], 0x8080_80ff), ([0x0000_007f, 0, 0], 0x7f7f_7f00)],
    );
    check("lop3.b32 %r0, %r1, %r2, %r3, 0xe8", &[([0b1100, 0b1010, 0b0110], 0b1110)]);
    check("lop3.b32 %r0, %r1, %r2, %r3, 0xf0", &[([5, 9, 77], 5)]);
    check("lop3.b32 %r0, %r1, %r2, %r3, 0xaa", &[([5, 9, 77], 77)]);
}

#[test]
fn carries_pass_between_instructions() {
    check("add.cc.u32 %r4, %r1, %r2; addc.u32 %r0, 0, 0", &[([0xffff_ffff, 1, 0], 1), ([1, 1, 0], 0)]);
    check("sub.cc.u32 %r4, %r1, %r2; subc.u32 %r0, 5, 0", &[([0, 1, 0], 4), ([1, 1, 0], 5)]);
    check(
        "mad.lo.cc.u32 %r4, %r1, %r2, %r3; madc.hi.u32 %r0, %r1, %r2, 0",
        &[([0xffff_ffff, 0xffff_ffff, 0xffff_ffff], 0xffff_ffff)],
    );
    check(
        "add.cc.u64 %d4, %d1, %d2; addc.cc.u64 %d5, %d1, %d2; addc.u64 %d0, 0, 0",
        &[([u64::MAX, u64::MAX, 0], 1), ([1, 2, 0], 0)],
    );
}

fn f(value: f32) -> u64 {
    value.to_bits().into()
}

fn d(value: f64) -> u64 {
    value.to_bits()
}

fn singles() -> Vec<u64> {
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MAX,
        f32::MIN_POSITIVE,
        1e-45,
        3e-39,
    ];
    let mut all: Vec<u64> = special.into_iter().map(f).collect();
    let mut state = 12345u32;
    for _ in 0..60 {
        state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        all.push(state.into());
        all.push(f((state >> 8) as f32 / 65536.0 - 128.0));
    }
    all
}

/// The NaN that devices give.
fn nan_or(value: f32) -> u64 {
    if value.is_nan() { 0x7fff_ffff } else { f(value) }
}

fn single(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

#[test]
fn sums_and_products_are_those_of_the_processor() {
    let values = singles();
    check_pairs("add.rn.f32 %r0, %r1, %r2", &values, |a, b| nan_or(single(a) + single(b)));
    check_pairs("sub.f32 %r0, %r1, %r2", &values, |a, b| nan_or(single(a) - single(b)));
    check_pairs("mul.rn.f32 %r0, %r1, %r2", &values, |a, b| nan_or(single(a) * single(b)));
    check_pairs("div.rn.f32 %r0, %r1, %r2", &values, |a, b| nan_or(single(a) / single(b)));
    check_pairs("fma.rn.f32 %r0, %r1, %r2, %r1", &values, |a, b| {
        nan_or(single(a).mul_add(single(b), single(a)))
    });
    check_pairs("sqrt.rn.f32 %r0, %r1", &values, |a, _| nan_or(single(a).sqrt()));
    check_pairs("rcp.rn.f32 %r0, %r1", &values, |a, _| nan_or(1.0 / single(a)));
}

/// A result of a directed mode is the neighbour of the exact value on its side. The exact value is in f64, which has it for products.
#[test]
fn directed_modes_bracket_the_exact_value() {
    let values = singles();
    let operands: Vec<[u64; 3]> = values.iter().flat_map(|a| values.iter().map(|b| [*a, *b, 0])).collect();
    let of = |mode: &str| results(&format!("mul.{mode}.f32 %r0, %r1, %r2"), &operands);
    let (down, up, zero) = (of("rm"), of("rp"), of("rz"));
    for (i, [a, b, _]) in operands.iter().enumerate() {
        let exact = f64::from(single(*a)) * f64::from(single(*b));
        let (low, high) = (single(down[i]), single(up[i]));
        if exact.is_nan() {
            assert_eq!([down[i], up[i], zero[i]], [0x7fff_ffff; 3]);
            continue;
        }
        assert!(f64::from(low) <= exact && exact <= f64::from(high), "{exact:e}: {low:e}, {high:e}");
        let is_adjacent = low == high || low.next_up() == high;
        assert!(is_adjacent, "{exact:e}: {low:e}, {high:e}");
        let expected = if exact > 0.0 { low } else { high };
        assert_eq!(single(zero[i]), expected, "{exact:e}");
    }
    check(
        "add.rz.f32 %r0, %r1, %r2",
        &[([f(1.0), f(1e-30), 0], f(1.0)), ([f(1.0), f(-1e-30), 0], f(1f32.next_down()))],
    );
    check(
        "add.rp.f32 %r0, %r1, %r2",
        &[([f(1.0), f(1e-30), 0], f(1f32.next_up())), ([f(f32::MAX), f(1.0), 0], f(f32::INFINITY))],
    );
    check(
        "add.rm.f32 %r0, %r1, %r2",
        &[([f(1.0), f(-1.0), 0], f(-0.0)), ([f(f32::MAX), f(f32::MAX), 0], f(f32::MAX))],
    );
    check(
        "fma.rm.f32 %r0, %r1, %r2, %r3",
        &[([f(1.0), f(1.0), f(-1e-30)], f(1f32.next_down())), ([f(2.0), f(3.0), f(1.0)], f(7.0))],
    );
    check("fma.rz.f32 %r0, %r1, %r2, %r3", &[([f(-1.0), f(1.0), f(1e-30)], f((-1f32).next_up()))]);
    check("div.rz.f32 %r0, %r1, %r2", &[([f(2.0), f(3.0), 0], 0x3f2a_aaaa)]);
    check("div.rn.f32 %r0, %r1, %r2", &[([f(2.0), f(3.0), 0], 0x3f2a_aaab)]);
    check("sqrt.rp.f32 %r0, %r1", &[([f(2.0), 0, 0], 0x3fb5_04f4), ([f(4.0), 0, 0], f(2.0))]);
    check("add.rz.f64 %d0, %d1, %d2", &[([d(1.0), d(-1e-30), 0], d(1f64.next_down()))]);
}

#[test]
fn doubles_are_those_of_the_processor() {
    let values: Vec<u64> =
        singles().iter().map(|bits| d(f64::from(single(*bits)) * 1.000_000_000_1)).collect();
    let double = f64::from_bits;
    let nan_or = |value: f64| if value.is_nan() { 0xfff8_0000_0000_0000 } else { d(value) };
    check_pairs("add.f64 %d0, %d1, %d2", &values, |a, b| nan_or(double(a) + double(b)));
    check_pairs("div.rn.f64 %d0, %d1, %d2", &values, |a, b| nan_or(double(a) / double(b)));
    check_pairs("fma.rn.f64 %d0, %d1, %d2, %d2", &values, |a, b| {
        nan_or(double(a).mul_add(double(b), double(b)))
    });
    // The 32 high bits alone are read and given.
    check(
        "rcp.approx.ftz.f64 %d0, %d1",
        &[
            ([d(2.0) | 77, 0, 0], d(0.5)),
            ([d(3.0), 0, 0], d(1.0 / 3.0) >> 32 << 32),
            ([d(1e-310), 0, 0], d(f64::INFINITY)),
        ],
    );
}

#[test]
fn minimum_and_maximum_prefer_numbers() {
    let nan = f(f32::NAN);
    check(
        "min.f32 %r0, %r1, %r2",
        &[
            ([f(1.0), nan, 0], f(1.0)),
            ([nan, f(2.0), 0], f(2.0)),
            ([nan, nan, 0], 0x7fff_ffff),
            ([f(0.0), f(-0.0), 0], f(-0.0)),
            ([f(-0.0), f(0.0), 0], f(-0.0)),
        ],
    );
    check(
        "max.f32 %r0, %r1, %r2",
        &[
            ([f(1.0), nan, 0], f(1.0)),
            ([f(0.0), f(-0.0), 0], f(0.0)),
            ([f(-0.0), f(0.0), 0], f(0.0)),
            ([f(3.0), f(5.0), 0], f(5.0)),
        ],
    );
    check("max.NaN.f32 %r0, %r1, %r2", &[([f(1.0), nan, 0], 0x7fff_ffff), ([f(3.0), f(5.0), 0], f(5.0))]);
    check("min.f64 %d0, %d1, %d2", &[([d(f64::NAN), d(2.0), 0], d(2.0)), ([d(-1.0), d(2.0), 0], d(-1.0))]);
    check("copysign.f32 %r0, %r1, %r2", &[([f(-1.0), f(5.0), 0], f(-5.0)), ([f(1.0), f(-5.0), 0], f(5.0))]);
    check("neg.f32 %r0, %r1", &[([f(0.0), 0, 0], f(-0.0))]);
    check("abs.f64 %d0, %d1", &[([d(-0.0), 0, 0], d(0.0))]);
}

#[test]
fn flushing_and_clamping() {
    let tiny = f(1e-40);
    check(
        "add.ftz.f32 %r0, %r1, %r2",
        &[([tiny, tiny, 0], f(0.0)), ([f(-1e-40), f(-1e-40), 0], f(-0.0)), ([f(1.0), f(2.0), 0], f(3.0))],
    );
    check(
        "mul.sat.f32 %r0, %r1, %r2",
        &[
            ([f(2.0), f(3.0), 0], f(1.0)),
            ([f(-2.0), f(3.0), 0], f(0.0)),
            ([f(f32::NAN), f(3.0), 0], f(0.0)),
            ([f(0.5), f(0.5), 0], f(0.25)),
        ],
    );
    check("setp.eq.ftz.f32 %p0, %r1, %r2", &[([tiny, f(0.0), 0], 1)]);
    check("setp.eq.f32 %p0, %r1, %r2", &[([tiny, f(0.0), 0], 0), ([f(0.0), f(-0.0), 0], 1)]);
    check(
        "cvt.sat.f32.f32 %r0, %r1",
        &[([f(1.5), 0, 0], f(1.0)), ([f(f32::NAN), 0, 0], 0), ([f(-0.5), 0, 0], f(0.0))],
    );
}

/// The bounds are those of PTX's documentation: 2 units in the last digit for most, an absolute error for logarithm, sine and cosine.
#[test]
fn approximations_are_within_their_documented_bounds() {
    type Function = (&'static str, fn(f64) -> f64, f64, f64);
    let functions: [Function; 8] = [
        ("ex2.approx.f32", f64::exp2, 2.0, 0.0),
        ("rcp.approx.f32", f64::recip, 1.0, 0.0),
        ("sqrt.approx.f32", f64::sqrt, 1.0, 0.0),
        ("rsqrt.approx.f32", |x| 1.0 / x.sqrt(), 2.0, 0.0),
        ("lg2.approx.f32", f64::log2, 1.0, 3e-7),
        ("sin.approx.f32", f64::sin, 1.0, 6e-7),
        ("cos.approx.f32", f64::cos, 1.0, 6e-7),
        ("tanh.approx.f32", f64::tanh, 1.0, 6e-4),
    ];
    let inputs: Vec<f32> = (1..200).map(|i| i as f32 * 0.0153).collect();
    let operands: Vec<[u64; 3]> = inputs.iter().map(|x| [f(*x), 0, 0]).collect();
    for (name, reference, ulps, absolute) in functions {
        for (x, result) in inputs.iter().zip(results(&format!("{name} %r0, %r1"), &operands)) {
            let (expected, result) = (reference(f64::from(*x)), f64::from(single(result)));
            let bound = ulps * f64::from(f32::EPSILON) * expected.abs() + absolute;
            assert!((result - expected).abs() <= bound, "{name} {x}: {result}, expected {expected}");
        }
    }
    check(
        "ex2.approx.ftz.f32 %r0, %r1",
        &[
            ([f(-130.0), 0, 0], f(0.0)),
            ([f(f32::NEG_INFINITY), 0, 0], f(0.0)),
            ([f(1000.0), 0, 0], f(f32::INFINITY)),
        ],
    );
    check("ex2.approx.f32 %r0, %r1", &[([f(-130.0), 0, 0], 1 << 19)]);
    check(
        "rcp.approx.ftz.f32 %r0, %r1",
        &[([f(1e-40), 0, 0], f(f32::INFINITY)), ([f(-0.0), 0, 0], f(f32::NEG_INFINITY))],
    );
    check("div.approx.f32 %r0, %r1, %r2", &[([f(6.0), f(3.0), 0], f(2.0)), ([f(1.0), f(1e38), 0], f(0.0))]);
    check("div.full.f32 %r0, %r1, %r2", &[([f(1e38), f(1e38), 0], f(1.0))]);
    check("rsqrt.approx.f32 %r0, %r1", &[([f(0.0), 0, 0], f(f32::INFINITY)), ([f(-1.0), 0, 0], 0x7fff_ffff)]);
}

#[test]
fn halves_round_once() {
    // Of f16: 1 is 3c00, 2 is 4000, 65504 is 7bff, the smallest subnormal 1.
    check(
        "add.rn.f16 %h0, %h1, %h2",
        &[([0x3c00, 0x3c00, 0], 0x4000), ([0x7bff, 0x7bff, 0], 0x7c00), ([0x3c00, 0x0001, 0], 0x3c00)],
    );
    check("mul.f16 %h0, %h1, %h2", &[([0x4000, 0x4200, 0], 0x4600), ([0x0001, 0x3800, 0], 0)]);
    check("fma.rn.f16 %h0, %h1, %h2, %h3", &[([0x3c00, 0x3c00, 0x3c00], 0x4000)]);
    check("fma.rn.bf16 %h0, %h1, %h2, %h3", &[([0x3f80, 0x3f80, 0x3f80], 0x4000)]);
    check("max.f16 %h0, %h1, %h2", &[([0x7e00, 0x3c00, 0], 0x3c00), ([0x8000, 0x0000, 0], 0)]);
    check(
        "setp.lt.f16 %p0, %h1, %h2",
        &[([0x3c00, 0x4000, 0], 1), ([0x4000, 0x3c00, 0], 0), ([0x7e00, 0x3c00, 0], 0)],
    );
    check("neg.f16 %h0, %h1", &[([0x3c00, 0, 0], 0xbc00)]);
    check(
        "cvt.f32.f16 %r0, %h1",
        &[
            ([0x3c00, 0, 0], f(1.0)),
            ([0x0001, 0, 0], f(2f32.powi(-24))),
            ([0x7e00, 0, 0], 0x7fff_ffff),
            ([0xfc00, 0, 0], f(f32::NEG_INFINITY)),
        ],
    );
    check(
        "cvt.rn.f16.f32 %h0, %r1",
        &[
            ([f(1.0), 0, 0], 0x3c00),
            ([f(65519.0), 0, 0], 0x7bff),
            ([f(65520.0), 0, 0], 0x7c00),
            ([f(2049.0), 0, 0], 0x6800),
            ([f(f32::NAN), 0, 0], 0x7fff),
        ],
    );
    check("cvt.rz.f16.f32 %h0, %r1", &[([f(65520.0), 0, 0], 0x7bff), ([f(2051.0), 0, 0], 0x6801)]);
    check(
        "cvt.rn.bf16.f32 %h0, %r1",
        &[([0x3f80_8000, 0, 0], 0x3f80), ([0x3f80_8001, 0, 0], 0x3f81), ([0x3f81_8000, 0, 0], 0x3f82)],
    );
}

#[test]
fn conversions() {
    check(
        "cvt.rzi.s32.f32 %r0, %r1",
        &[
            ([f(-1.9), 0, 0], 0xffff_ffff),
            ([f(3e9), 0, 0], 0x7fff_ffff),
            ([f(-3e9), 0, 0], 0x8000_0000),
            ([f(f32::NAN), 0, 0], 0),
        ],
    );
    check("cvt.rni.s32.f32 %r0, %r1", &[([f(2.5), 0, 0], 2), ([f(3.5), 0, 0], 4)]);
    check("cvt.rmi.s32.f64 %r0, %d1", &[([d(-0.5), 0, 0], 0xffff_ffff)]);
    check("cvt.rzi.u32.f32 %r0, %r1", &[([f(-5.0), 0, 0], 0), ([f(5e9), 0, 0], 0xffff_ffff)]);
    check(
        "cvt.rzi.s64.f64 %d0, %d1",
        &[
            ([d(1e300), 0, 0], i64::MAX as u64),
            ([d(-7.7), 0, 0], (-7i64) as u64),
            ([d(f64::NAN), 0, 0], 1 << 63),
        ],
    );
    check("cvt.rzi.s64.f32 %d0, %r1", &[([f(f32::NAN), 0, 0], 1 << 63), ([f(1e20), 0, 0], i64::MAX as u64)]);
    check("cvt.rpi.f32.f32 %r0, %r1", &[([f(0.5), 0, 0], f(1.0)), ([f(-0.5), 0, 0], f(-0.0))]);
    check("cvt.rni.f64.f64 %d0, %d1", &[([d(0.5), 0, 0], d(0.0)), ([d(1.5), 0, 0], d(2.0))]);
    check(
        "cvt.rn.f32.f64 %r0, %d1",
        &[([d(1.0 + 1e-12), 0, 0], f(1.0)), ([d(1e300), 0, 0], f(f32::INFINITY)), ([d(1e-50), 0, 0], 0)],
    );
    check("cvt.rz.f32.f64 %r0, %d1", &[([d(1e300), 0, 0], f(f32::MAX))]);
    check(
        "cvt.rn.f32.s64 %r0, %d1",
        &[
            ([(1 << 24) + 1, 0, 0], f(16_777_216.0)),
            ([(1 << 24) + 3, 0, 0], f(16_777_220.0)),
            ([u64::MAX, 0, 0], f(-1.0)),
        ],
    );
    check("cvt.rn.f32.u64 %r0, %d1", &[([u64::MAX, 0, 0], f(1.844_674_4e19))]);
    check("cvt.rn.f64.s32 %d0, %r1", &[([0xffff_ffff, 0, 0], d(-1.0))]);
    check("cvt.s64.s32 %d0, %r1", &[([0x8000_0000, 0, 0], 0xffff_ffff_8000_0000)]);
    check("cvt.u64.u32 %d0, %r1", &[([0x8000_0000, 0, 0], 0x8000_0000)]);
    check("cvt.u32.u64 %r0, %d1", &[([u64::MAX, 0, 0], 0xffff_ffff)]);
    check("cvt.s32.s8 %r0, %r1", &[([0x80, 0, 0], 0xffff_ff80), ([0x17f, 0, 0], 0x7f)]);
    check("cvt.u16.s8 %h0, %r1", &[([0xff, 0, 0], 0xffff)]);
    check("cvt.s8.s32 %r0, %r1", &[([0x1ff, 0, 0], 0xffff_ffff), ([0x17f, 0, 0], 0x7f)]);
    check("cvt.sat.u8.s32 %r0, %r1", &[([0xffff_ffff, 0, 0], 0), ([300, 0, 0], 255)]);
    check("cvt.sat.s16.s32 %h0, %r1", &[([40000, 0, 0], 0x7fff)]);
}

#[test]
fn comparisons_with_nan() {
    let nan = f(f32::NAN);
    let pairs = [[f(1.0), f(2.0), 0], [f(2.0), f(1.0), 0], [f(1.0), f(1.0), 0], [nan, f(1.0), 0]];
    for (name, expected) in [
        ("eq", [0, 0, 1, 0]),
        ("ne", [1, 1, 0, 0]),
        ("lt", [1, 0, 0, 0]),
        ("le", [1, 0, 1, 0]),
        ("gt", [0, 1, 0, 0]),
        ("ge", [0, 1, 1, 0]),
        ("equ", [0, 0, 1, 1]),
        ("neu", [1, 1, 0, 1]),
        ("ltu", [1, 0, 0, 1]),
        ("leu", [1, 0, 1, 1]),
        ("gtu", [0, 1, 0, 1]),
        ("geu", [0, 1, 1, 1]),
        ("num", [1, 1, 1, 0]),
        ("nan", [0, 0, 0, 1]),
    ] {
        assert_eq!(results(&format!("setp.{name}.f32 %p0, %r1, %r2"), &pairs), expected, "{name}");
    }
    check("setp.lt.s32 %p0, %r1, %r2", &[([0xffff_ffff, 0, 0], 1)]);
    check("setp.lo.u32 %p0, %r1, %r2", &[([0xffff_ffff, 0, 0], 0)]);
    check("setp.lt.and.s32 %p0, %r1, %r2, %p3", &[([1, 2, 1], 1), ([1, 2, 0], 0)]);
    check("setp.lt.or.s32 %p4|%p0, %r1, %r2, !%p3", &[([1, 2, 1], 0), ([2, 1, 1], 1), ([1, 2, 0], 1)]);
    check("selp.b32 %r0, %r1, %r2, %p3", &[([5, 6, 1], 5), ([5, 6, 0], 6)]);
    check("and.pred %p0, %p1, %p2", &[([1, 1, 0], 1), ([1, 0, 0], 0)]);
    check("not.pred %p0, %p1", &[([1, 0, 0], 0), ([0, 0, 0], 1)]);
    check("xor.pred %p0, %p1, %p2", &[([1, 1, 0], 0), ([1, 0, 0], 1)]);
}

#[test]
fn parts_of_registers() {
    check("mov.b64 %d0, {%r1, %r2}", &[([0x1111_1111, 0x2222_2222, 0], 0x2222_2222_1111_1111)]);
    check("mov.b64 {%r4, %r0}, %d1", &[([0x2222_2222_1111_1111, 0, 0], 0x2222_2222)]);
    check("mov.b32 %r0, {%h1, %h2}", &[([0x1234, 0xabcd, 0], 0xabcd_1234)]);
    check("mov.b32 {_, %h0}, %r1", &[([0xabcd_1234, 0, 0], 0xabcd)]);
    check("mov.f32 %r0, 0f3F800000", &[([0, 0, 0], f(1.0))]);
    check("mov.f64 %d0, 0dBFF0000000000000", &[([0, 0, 0], d(-1.0))]);
    check("@%p1 mov.u32 %r1, 7; mov.u32 %r0, %r1", &[([5, 0, 0], 7), ([0, 0, 0], 0)]);
    check("@!%p1 mov.u32 %r1, 7; mov.u32 %r0, %r1", &[([5, 0, 0], 5), ([0, 0, 0], 7)]);
}

#[test]
fn what_is_not_known_is_named() {
    let mut device = Simulator::new(0, false);
    let error = |text: &str, device: &mut Simulator| device.load(&program(text)).unwrap_err();
    assert!(
        error("mma.sync.aligned.m8n8k4 %r0, %r1, %r2", &mut device)
            .contains("`mma.sync.aligned.m8n8k4` is not known")
    );
    assert!(error("add.rn.wrong.f32 %r0, %r1, %r2", &mut device).contains("add.rn.wrong.f32"));
    assert!(error("fma.rz.f64 %d0, %d1, %d2, %d3", &mut device).contains("fma.rz.f64"));
    assert!(error("add.s32 %r0, %r1, %d2", &mut device).contains("expected a register of 32 bits"));
    assert!(error("add.s32 %r0, %r1, %x2", &mut device).contains("`%x2`"));
    assert!(error("bra MISSING", &mut device).contains("no label `MISSING`"));
    assert!(error("call f", &mut device).contains("a call of f, which has no body"));
}
