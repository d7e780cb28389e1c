//! Triangular factorizations, QR, systems of equations, inverses and determinants.

use super::linalg_samples::*;
use super::plain_linalg::*;
use crate::array::{Array, broadcast};
use crate::row::{Arg, Check, Row, WIDE_FLOATS, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::I32;

/// The packed factors, pivots and `info` of each matrix.
fn factored(a: &[Arg], pivoting: bool) -> Vec<Array> {
    let a = a[0].array();
    let [rows, columns] = last(a);
    let count = rows.min(columns);
    vec![
        each(a, &[rows, columns], |m| lu(m, pivoting).0),
        each(a, &[count], |m| vector(lu(m, pivoting).1)),
        zeros_of_batch(a),
    ]
}

fn triangles(a: &Array, pivoting: bool) -> Vec<Array> {
    let [rows, columns] = last(a);
    let count = rows.min(columns);
    let part = |number: usize, sizes: &[usize]| {
        each(a, sizes, |m| {
            let (factors, pivots) = lu(m, pivoting);
            unpacked(&factors, &pivots)[number].clone()
        })
    };
    vec![part(0, &[rows, rows]), part(1, &[rows, count]), part(2, &[count, columns])]
}

fn lu_rows() -> Vec<Row> {
    let flags = |values: &[bool]| values.iter().map(|flag| (*flag).into()).collect::<Vec<Arg>>();
    let singular = Array::new(&[2, 2, 2], vec![1.0, 0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 4.0]);
    let packed = |sizes: &[usize], seed: u64| -> (Array, Array) {
        let a = regular(sizes, seed);
        let mut all = factored(&[a.into()], true);
        let pivots = all.remove(1);
        (all.remove(0), pivots)
    };
    let unpack = [&[3usize, 3][..], &[4, 2], &[2, 4], &[2, 3, 3]].iter().zip(1..).fold(
        row("lu_unpack").types(WIDE_FLOATS).ulps(4.0),
        |row, (sizes, seed)| {
            let (factors, pivots) = packed(sizes, seed);
            row.sample(vec![factors.into(), Arg::Typed(pivots, I32), true.into(), true.into()])
        },
    );
    let (factors, pivots) = packed(&[2, 2], 1);
    vec![
        not_a_matrix(over("linalg_lu_factor_ex", OBLONG, regular, &flags(&[true, false])), &flags(&[true, false]))
            .refuses(
                vec![singular.clone().into(), true.into(), true.into()],
                ErrorKind::LinAlg,
                "linalg.lu_factor_ex: (Batch element 1): U[2,2] is zero and using it on lu_solve would result in a \
                 division by zero.",
            )
            .reference(|a| factored(a, true)),
        over("linalg_lu_factor", OBLONG, regular, &flags(&[true]))
            .refuses(vec![singular.into(), true.into()], ErrorKind::LinAlg, "torch.linalg.lu_factor: (Batch element 1): U[2,2]")
            .reference(|a| factored(a, true)[..2].to_vec()),
        not_a_matrix(over("linalg_lu", OBLONG, regular, &flags(&[true])), &flags(&[true]))
            .reference(|a| triangles(a[0].array(), true)),
        unpack
            .refuses(
                vec![factors.clone().into(), Arg::Typed(Array::new(&[2], vec![1.0, 9.0]), I32), true.into(), true.into()],
                ErrorKind::InvalidArgument,
                "must be between 1 and 2, but got 9",
            )
            .reference(|a| {
                let (factors, pivots) = (a[0].array(), a[1].array());
                let [rows, columns] = last(factors);
                let count = rows.min(columns);
                let all: Vec<[Array; 3]> = matrices(factors)
                    .iter()
                    .zip(pivots.data.chunks(count))
                    .map(|(factors, pivots)| unpacked(factors, pivots))
                    .collect();
                let part = |number: usize, sizes: &[usize]| {
                    stacked(factors, &all.iter().map(|parts| parts[number].clone()).collect::<Vec<_>>(), sizes)
                };
                vec![part(0, &[rows, rows]), part(1, &[rows, count]), part(2, &[count, columns])]
            }),
        old_lu_solve_row(&packed),
        lu_solve_row(packed).refuses(
            vec![factors.into(), Arg::Typed(pivots, I32), any(&[3, 1], 1).into(), true.into(), false.into()],
            ErrorKind::Shape,
            "Incompatible shapes of A and B for the equation AX = B",
        ),
    ]
}

fn old_lu_solve_row(packed: &impl Fn(&[usize], u64) -> (Array, Array)) -> Row {
    let sample = |sizes: &[usize]| {
        let (factors, pivots) = packed(sizes, 3);
        vec![any(sizes, 4).into(), factors.into(), Arg::Typed(pivots, I32)]
    };
    let start = row("lu_solve").types(WIDE_FLOATS).ulps(200.0).terms(4.0);
    start
        .sample(sample(&[3, 3]))
        .sample(sample(&[2, 2, 2]))
        .reference(|a| vec![solved_by_factors(&a[1], &a[2], &a[0], true, false)])
}

/// The solution of `A X = B`, or of `X A = B`, from factors of `A`, which is transposed if `adjoint`.
fn solved_by_factors(factors: &Arg, pivots: &Arg, right: &Arg, left: bool, adjoint: bool) -> Array {
    let (factors, pivots) = (factors.array(), pivots.array());
    let n = factors.sizes[factors.sizes.len() - 1];
    let whole = matrices(factors).into_iter().zip(pivots.data.chunks(n)).map(|(factors, pivots)| {
        let [p, l, u] = unpacked(&factors, pivots);
        p.matmul(&l).matmul(&u)
    });
    let matrix = stacked(factors, &whole.collect::<Vec<_>>(), &[n, n]);
    let matrix = if adjoint { transposed(&matrix) } else { matrix };
    solved(&matrix, right.array(), left)
}

fn lu_solve_row(packed: impl Fn(&[usize], u64) -> (Array, Array)) -> Row {
    let cases = [(true, false), (true, true), (false, false), (false, true)];
    let mut made = row("linalg_lu_solve").types(WIDE_FLOATS).ulps(200.0).terms(4.0);
    for (left, adjoint) in cases {
        for (sizes, right) in
            [(&[3usize, 3][..], &[3usize, 3][..]), (&[2, 2, 2], &[2, 2]), (&[2, 2], &[3, 2, 2])]
        {
            let (factors, pivots) = packed(sizes, 3);
            made = made.sample(vec![
                factors.into(),
                Arg::Typed(pivots, I32),
                any(right, 4).into(),
                left.into(),
                adjoint.into(),
            ]);
        }
    }
    made.reference(|a| vec![solved_by_factors(&a[0], &a[1], &a[2], a[3].flag(), a[4].flag())])
}

/// The solution of `A X = B`, or of `X A = B`, for batches that broadcast.
fn solved(a: &Array, b: &Array, left: bool) -> Array {
    let split = |x: &Array| x.sizes.split_at(x.sizes.len() - 2).0.to_vec();
    let batch = broadcast(&split(a), &split(b));
    let (a, b) = (a.expand(&[&batch[..], &last(a)].concat()), b.expand(&[&batch[..], &last(b)].concat()));
    let solution = |(a, b): (&Array, &Array)| if left { inverse(a).matmul(b) } else { b.matmul(&inverse(a)) };
    let parts: Vec<Array> = matrices(&a).iter().zip(&matrices(&b)).map(solution).collect();
    stacked(&b, &parts, &last(&b))
}

fn solve_rows() -> Vec<Row> {
    let shapes: &[(&[usize], &[usize], bool)] = &[
        (&[3, 3], &[3, 2], true),
        (&[3, 3], &[2, 3], false),
        (&[2, 2, 2], &[2, 3], true),
        (&[3, 3], &[3], true),
        (&[2, 2, 2], &[2, 2], true),
        (&[0, 0], &[0, 2], true),
        (&[17, 17], &[17, 9], true),
    ];
    let samples = |name: &'static str, rest: &[Arg]| {
        shapes.iter().fold(row(name).types(WIDE_FLOATS).ulps(200.0).terms(4.0), |row, (a, b, left)| {
            let tensors = vec![regular(a, 1).into(), any(b, 2).into(), (*left).into()];
            row.sample([tensors, rest.to_vec()].concat())
        })
    };
    let singular =
        || vec![Array::new(&[2, 2], vec![1.0, 2.0, 2.0, 4.0]).into(), any(&[2, 1], 1).into(), true.into()];
    let solution = |a: &[Arg]| {
        let (matrix, right) = (a[0].array(), a[1].array());
        let vector = right.sizes.len() == 1 || right.sizes == matrix.sizes[..matrix.sizes.len() - 1];
        let wide = if vector {
            Array::new(&[&right.sizes[..], &[1]].concat(), right.data.clone())
        } else {
            right.clone()
        };
        let x = solved(matrix, &wide, a[2].flag());
        if vector { Array::new(&right.sizes, x.data) } else { x }
    };
    let rest = [false.into()];
    let mut triangular = row("linalg_solve_triangular").types(WIDE_FLOATS).ulps(200.0).terms(4.0);
    for flags in 0..8 {
        let [upper, left, unit] = [1, 2, 4].map(|bit| flags & bit != 0);
        for (sizes, right) in [(&[3usize, 3][..], &[3usize, 3][..]), (&[2, 2, 2], &[2, 2])] {
            let n = sizes[sizes.len() - 1];
            let matrix = any(sizes, 1).zip(&identity(n, n), |x, one| x + 2.0 * one);
            triangular = triangular.sample(vec![
                matrix.into(),
                any(right, 2).into(),
                upper.into(),
                left.into(),
                unit.into(),
            ]);
        }
    }
    let plain = |a: &Array, upper: bool, unit: bool| each(a, &last(a), |m| triangle(m, upper, unit));
    let old = [(true, false, false), (true, true, false), (false, false, true)].iter().fold(
        row("triangular_solve").types(WIDE_FLOATS).ulps(200.0).terms(4.0),
        |row, (upper, transpose, unit)| {
            let matrix = transposed(&definite(&[3, 3], 1));
            row.sample(vec![
                any(&[3, 2], 2).into(),
                matrix.into(),
                (*upper).into(),
                (*transpose).into(),
                (*unit).into(),
            ])
        },
    );
    vec![
        samples("linalg_solve", &[])
            .refuses(
                singular(),
                ErrorKind::LinAlg,
                "torch.linalg.solve: The solver failed because the input matrix is singular.",
            )
            .reference(move |a| vec![solution(a)]),
        samples("linalg_solve_ex", &rest).reference(move |a| vec![solution(a), zeros_of_batch(a[0].array())]),
        samples("_linalg_solve_ex", &rest)
            .reference(move |a| [vec![solution(a)], factored(a, true)].concat()),
        triangular
            .refuses(
                vec![any(&[2, 2], 1).into(), any(&[3, 1], 1).into(), true.into(), true.into(), false.into()],
                ErrorKind::Shape,
                "Incompatible shapes of A and B for the equation AX = B",
            )
            .reference(move |a| {
                vec![solved(&plain(a[0].array(), a[2].flag(), a[4].flag()), a[1].array(), a[3].flag())]
            }),
        old.reference(move |a| {
            let matrix = plain(a[1].array(), a[2].flag(), a[4].flag());
            let matrix = if a[3].flag() { transposed(&matrix) } else { matrix };
            vec![solved(&matrix, a[0].array(), true), a[1].array().clone()]
        }),
    ]
}

fn cholesky_rows() -> Vec<Row> {
    const DEFINITE: &[&[usize]] = SQUARE;
    let lower = |a: &Array| each(a, &last(a), cholesky);
    let of = move |a: &[Arg]| {
        let factor = lower(a[0].array());
        if a[1].flag() { transposed(&factor) } else { factor }
    };
    let indefinite = || Array::new(&[2, 2, 2], vec![1.0, 0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 1.0]);
    let says = |name: &str| -> &'static str {
        match name {
            "linalg_cholesky" => {
                "linalg.cholesky: (Batch element 1): The factorization could not be completed because the \
                                  input is not positive-definite (the leading minor of order 2 is not positive-definite)."
            }
            _ => "(Batch element 1): The factorization could not be completed",
        }
    };
    let plain = |name: &'static str, upper: bool| {
        let rest = [upper.into()];
        not_square(one_triangle(over(name, DEFINITE, definite, &rest)), &rest)
            .refuses(vec![indefinite().into(), upper.into()], ErrorKind::LinAlg, says(name))
            .reference(move |a| vec![of(a)])
    };
    let with_info = |upper: bool| {
        one_triangle(over("linalg_cholesky_ex", DEFINITE, definite, &[upper.into(), false.into()]))
            .refuses(vec![indefinite().into(), upper.into(), true.into()], ErrorKind::LinAlg, says(""))
            .reference(move |a| vec![of(a), zeros_of_batch(a[0].array())])
    };
    let factor = |sizes: &[usize], upper: bool| {
        let l = each(&definite(sizes, 3), &sizes[sizes.len() - 2..], cholesky);
        if upper { transposed(&l) } else { l }
    };
    let whole = |l: &Array, upper: bool| {
        each(l, &last(l), |m| {
            let l = if upper { transposed(&triangle(m, true, false)) } else { triangle(m, false, false) };
            l.matmul(&transposed(&l))
        })
    };
    let mut solve = row("cholesky_solve").types(WIDE_FLOATS).ulps(400.0).terms(4.0);
    let mut invert = row("cholesky_inverse").types(WIDE_FLOATS).ulps(400.0).terms(4.0);
    for upper in [false, true] {
        for sizes in [&[3usize, 3][..], &[2, 2, 2]] {
            solve = solve.sample(vec![
                any(&[sizes[sizes.len() - 1], 2], 1).into(),
                factor(sizes, upper).into(),
                upper.into(),
            ]);
            invert = invert.sample(vec![factor(sizes, upper).into(), upper.into()]);
        }
    }
    vec![
        plain("linalg_cholesky", false),
        plain("linalg_cholesky", true),
        plain("cholesky", false),
        plain("cholesky", true),
        with_info(false),
        with_info(true),
        solve
            .refuses(
                vec![any(&[3, 1], 1).into(), any(&[2, 2], 1).into(), false.into()],
                ErrorKind::Shape,
                "Incompatible matrix sizes for cholesky_solve",
            )
            .reference(move |a| vec![solved(&whole(a[1].array(), a[2].flag()), a[0].array(), true)]),
        not_square(invert, &[false.into()])
            .reference(move |a| vec![each(&whole(a[0].array(), a[1].flag()), &last(a[0].array()), inverse)]),
    ]
}

fn qr_rows() -> Vec<Row> {
    /// With at least as many columns as rows where Q is square.
    const WIDE: &[&[usize]] = &[&[3, 3], &[2, 4], &[2, 2, 3], &[0, 3], &[17, 19]];
    let factors = |a: &Array, complete: bool| {
        let [rows, columns] = last(a);
        let height = if complete { rows } else { rows.min(columns) };
        let q = |m: &Array| {
            let (packed, tau) = reflectors(m);
            product_of_reflectors(&packed, &tau).matmul(&identity(rows, height))
        };
        let r = |m: &Array| triangle(&identity(height, rows).matmul(&reflectors(m).0), true, false);
        vec![each(a, &[rows, height], q), each(a, &[height, columns], r)]
    };
    let input = |sizes: &[usize]| -> Vec<Arg> {
        let a = any(sizes, 5);
        let [rows, columns] = last(&a);
        let count = rows.min(columns);
        vec![
            each(&a, &[rows, columns], |m| reflectors(m).0).into(),
            each(&a, &[count], |m| vector(reflectors(m).1)).into(),
        ]
    };
    let q_of = |a: &[Arg]| -> Vec<Array> {
        let (packed, tau) = (a[0].array(), a[1].array());
        let count = tau.sizes[tau.sizes.len() - 1];
        let pairs = matrices(packed).into_iter().zip(tau.data.chunks(count.max(1)));
        pairs.map(|(packed, tau)| product_of_reflectors(&packed, tau)).collect()
    };
    let columns_of_q = move |a: &[Arg]| {
        let [rows, columns] = last(a[0].array());
        let parts: Vec<Array> = q_of(a).iter().map(|q| q.matmul(&identity(rows, columns))).collect();
        vec![stacked(a[0].array(), &parts, &[rows, columns])]
    };
    let products = |name: &'static str| {
        [&[3usize, 3][..], &[4, 2], &[2, 3, 2], &[18, 17]]
            .iter()
            .fold(row(name).types(WIDE_FLOATS).ulps(200.0).terms(4.0), |row, sizes| row.sample(input(sizes)))
            .reference(columns_of_q)
    };
    let mut multiply = row("ormqr").types(WIDE_FLOATS).ulps(200.0).terms(4.0);
    for (left, transpose) in [(true, false), (true, true), (false, false), (false, true)] {
        for sizes in [&[3usize, 3][..], &[4, 2], &[2, 3, 2], &[2, 4]] {
            let rows = sizes[sizes.len() - 2];
            let other = [&sizes[..sizes.len() - 2], &if left { [rows, 2] } else { [2, rows] }].concat();
            multiply = multiply
                .sample([input(sizes), vec![any(&other, 6).into(), left.into(), transpose.into()]].concat());
        }
    }
    const NONE: &str = "as in PyTorch, the backward pass says that it is not implemented";
    vec![
        not_a_matrix(over("geqrf", OBLONG, any, &[]), &[])
            .skip(Check::Gradients, NONE)
            .skip(Check::SecondGradients, NONE)
            .skip(Check::Tangents, NONE)
            .reference(|a| {
                let a = a[0].array();
                let count = last(a)[0].min(last(a)[1]);
                vec![each(a, &last(a), |m| reflectors(m).0), each(a, &[count], |m| vector(reflectors(m).1))]
            }),
        not_a_matrix(over("linalg_qr", OBLONG, any, &[text("reduced")]), &[text("reduced")])
            .refuses(
                vec![any(&[2, 2], 1).into(), text("raw")],
                ErrorKind::InvalidArgument,
                "unrecognized mode 'raw'",
            )
            .reference(move |a| factors(a[0].array(), false)),
        over("linalg_qr", WIDE, any, &[text("complete")]).reference(move |a| factors(a[0].array(), true)),
        over("linalg_qr", &[&[4, 2], &[3, 0]], any, &[text("complete")])
            .not_differentiable()
            .reference(move |a| factors(a[0].array(), true)),
        over("qr", OBLONG, any, &[true.into()]).reference(move |a| factors(a[0].array(), false)),
        products("linalg_householder_product").refuses(
            vec![any(&[2, 3], 1).into(), any(&[2], 1).into()],
            ErrorKind::Shape,
            "input.shape[-2] must be greater than or equal to input.shape[-1]",
        ),
        products("orgqr"),
        multiply
            .refuses(
                [input(&[3, 2]), vec![any(&[4, 2], 1).into(), true.into(), false.into()]].concat(),
                ErrorKind::Shape,
                "other.shape[-2] must be equal to input.shape[-2]",
            )
            .reference(move |a| {
                let (other, left) = (a[2].array(), a[3].flag());
                let all = q_of(a);
                let parts: Vec<Array> = matrices(other)
                    .iter()
                    .zip(&all)
                    .map(|(c, q)| {
                        let q = if a[4].flag() { transposed(q) } else { q.clone() };
                        if left { q.matmul(c) } else { c.matmul(&q) }
                    })
                    .collect();
                vec![stacked(other, &parts, &last(other))]
            }),
    ]
}

fn inverse_rows() -> Vec<Row> {
    let inverses = |a: &[Arg]| each(a[0].array(), &last(a[0].array()), inverse);
    let singular = || Array::new(&[3, 3], vec![1.0, 2.0, 3.0, 2.0, 4.0, 6.0, 1.0, 0.0, 1.0]);
    let says = "linalg.inv: The diagonal element 3 is zero, the inversion could not be completed because the input matrix is \
                singular.";
    let plain = |name: &'static str| {
        not_square(over(name, SQUARE, regular, &[]), &[])
            .refuses(vec![singular().into()], ErrorKind::LinAlg, says)
            .reference(move |a| vec![inverses(a)])
    };
    let of_factors = |a: &Array| factored(&[a.clone().into()], true);
    let dets = |a: &Array| each(a, &[], |m| Array::scalar(det(m)));
    let signs = move |a: &Array| vec![dets(a).map(f64::signum), dets(a).map(|x| x.abs().ln())];
    let single = |name: &'static str| {
        not_square(over(name, SQUARE, regular, &[]).terms(1e3), &[])
            .reference(move |a| vec![dets(a[0].array())])
    };
    let pairs = |name: &'static str| {
        not_square(over(name, SQUARE, regular, &[]), &[]).reference(move |a| signs(a[0].array()))
    };
    vec![
        plain("linalg_inv"),
        plain("inverse"),
        over("linalg_inv_ex", SQUARE, regular, &[false.into()])
            .reference(move |a| vec![inverses(a), zeros_of_batch(a[0].array())]),
        single("linalg_det").terms(1e12),
        single("det").terms(1e12),
        over("_linalg_det", SQUARE, regular, &[])
            .terms(1e12)
            .reference(move |a| [vec![dets(a[0].array())], of_factors(a[0].array())[..2].to_vec()].concat()),
        pairs("linalg_slogdet"),
        pairs("slogdet"),
        over("_linalg_slogdet", SQUARE, regular, &[])
            .reference(move |a| [signs(a[0].array()), of_factors(a[0].array())[..2].to_vec()].concat()),
        over("logdet", SQUARE, definite, &[]).reference(move |a| vec![dets(a[0].array()).map(f64::ln)]),
    ]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [lu_rows(), solve_rows(), cholesky_rows(), qr_rows(), inverse_rows()].into_iter().flatten().collect()
}
