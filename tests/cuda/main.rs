//! candle's own kernels, family by family, against candle on the CPU: at odd sizes, of one element, not contiguous. Run
//! on the stand-in of `tools/cuda-on-cpu` this tests the stand-in; run on a GPU it tests candle.
#![cfg(feature = "cuda")]

use candle_core::{D, DType, Device, Result, Tensor, Var};
use candle_nn::ops;

mod methods;
mod steps;
mod times;

const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];
const WIDE: [DType; 2] = [DType::F32, DType::F64];
const WHOLE: [DType; 3] = [DType::U8, DType::U32, DType::I64];
const SHAPES: [&[usize]; 8] = [&[1], &[3], &[33], &[1025], &[1, 7], &[5, 31], &[3, 1, 65], &[2, 3, 5, 7]];

/// A device for a test: tests run at once, and each has the streams of its own thread.
fn cuda() -> Device {
    Device::new_cuda(0).expect("a CUDA device, or the stand-in (scripts/cuda_test.py)")
}

fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-12,
        DType::F32 => 2e-5,
        DType::F16 => 4e-3,
        DType::BF16 => 3e-2,
        _ => 0.0,
    }
}

/// Numbers between -2 and 2 that repeat only after long and are exact in every float type.
fn numbers(shape: &[usize], dtype: DType) -> Tensor {
    let count = shape.iter().product::<usize>() as u64;
    let at = |i: u64| ((i * 37 + 11 * count) % 61) as f64;
    let values: Vec<f64> =
        (0..count).map(|i| if dtype.is_float() { at(i) / 16.0 - 1.9375 } else { at(i) + 1.0 }).collect();
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap().to_dtype(dtype).unwrap()
}

type Layout = fn(&Tensor) -> Result<Tensor>;

/// The same numbers in memory as they come, within more, the other way round, and one row for all.
fn layouts(x: &Tensor) -> Vec<Layout> {
    let within: Layout = |x| {
        let columns = x.dim(D::Minus1)?;
        Tensor::cat(&[x, x, x], D::Minus1)?.narrow(D::Minus1, columns, columns)
    };
    let mut all: Vec<Layout> = vec![|x| Ok(x.clone()), within];
    if x.rank() > 1 {
        all.push(|x| x.t()?.contiguous()?.t());
        all.push(|x| x.narrow(0, 0, 1)?.broadcast_as(x.shape()));
    }
    all
}

fn pairs(x: &Tensor, y: &Tensor) -> Vec<(Layout, Layout)> {
    layouts(x).into_iter().flat_map(|a| layouts(y).into_iter().map(move |b| (a, b))).collect()
}

#[track_caller]
fn assert_close(what: &str, expected: &Tensor, got: &Tensor, tolerance: f64) {
    assert_eq!(expected.dims(), got.dims(), "{what}");
    assert_eq!(expected.dtype(), got.dtype(), "{what}");
    let host = |x: &Tensor| {
        let flat = x.to_device(&Device::Cpu).unwrap().flatten_all().unwrap();
        flat.to_dtype(DType::F64).unwrap().to_vec1::<f64>().unwrap()
    };
    for (i, (e, g)) in host(expected).into_iter().zip(host(got)).enumerate() {
        let same = e == g || (e.is_nan() && g.is_nan()) || (e - g).abs() <= tolerance * (1.0 + e.abs());
        assert!(
            same,
            "{what}, {:?} of {:?}: element {i} is {g}, on the CPU {e}",
            expected.dtype(),
            expected.dims()
        );
    }
}

/// Compares what `run` makes of these inputs on the CPU and on the device. On the CPU short floats are widened first:
/// candle's sums and products there lose digits in them, or do not exist.
#[track_caller]
fn same(what: &str, device: &Device, inputs: &[&Tensor], run: impl Fn(&[Tensor]) -> Result<Tensor>) {
    let short = |dtype| matches!(dtype, DType::F16 | DType::BF16);
    let wide = |x: &Tensor| if short(x.dtype()) { x.to_dtype(DType::F32).unwrap() } else { x.clone() };
    let here: Vec<Tensor> = inputs.iter().map(|x| wide(x)).collect();
    let there: Vec<Tensor> = inputs.iter().map(|x| x.to_device(device).unwrap()).collect();
    let expected = run(&here).unwrap_or_else(|e| panic!("{what} on the CPU: {e}"));
    let dtype = inputs.iter().map(|x| x.dtype()).find(|d| d.is_float()).unwrap_or(DType::U8);
    let got = run(&there).unwrap_or_else(|e| panic!("{what} on the device, {dtype:?}: {e}"));
    let expected = if short(dtype) && expected.dtype() == DType::F32 {
        expected.to_dtype(got.dtype()).unwrap()
    } else {
        expected
    };
    assert_close(what, &expected, &got, tolerance(dtype));
}

#[test]
fn unary() {
    let device = cuda();
    type Unary = fn(&Tensor) -> Result<Tensor>;
    let all: [(&str, Unary); 18] = [
        ("neg", |x| x.neg()),
        ("exp", |x| x.exp()),
        ("sin", |x| x.sin()),
        ("cos", |x| x.cos()),
        ("tanh", |x| x.tanh()),
        ("erf", |x| x.erf()),
        ("ceil", |x| x.ceil()),
        ("floor", |x| x.floor()),
        ("round", |x| x.round()),
        ("abs", |x| x.abs()),
        ("sqr", |x| x.sqr()),
        ("gelu", |x| x.gelu()),
        ("gelu_erf", |x| x.gelu_erf()),
        ("relu", |x| x.relu()),
        ("elu", |x| x.elu(0.7)),
        ("silu", |x| x.silu()),
        ("sign", |x| x.sign()),
        ("sigmoid", ops::sigmoid),
    ];
    let positive: [(&str, Unary); 4] =
        [("recip", |x| x.recip()), ("log", |x| x.log()), ("sqrt", |x| x.sqrt()), ("powf", |x| x.powf(1.75))];
    for dtype in FLOATS {
        for shape in SHAPES {
            let x = numbers(shape, dtype);
            for layout in layouts(&x) {
                for (name, run) in all {
                    same(name, &device, &[&x], |x| run(&layout(&x[0])?));
                }
                let x = x.abs().unwrap().affine(1.0, 0.25).unwrap();
                for (name, run) in positive {
                    same(name, &device, &[&x], |x| run(&layout(&x[0])?));
                }
            }
        }
    }
}

#[test]
fn affine_and_fill() {
    let device = cuda();
    for dtype in FLOATS.into_iter().chain(WHOLE) {
        for shape in SHAPES {
            let x = numbers(shape, dtype);
            for layout in layouts(&x) {
                same("affine", &device, &[&x], |x| layout(&x[0])?.affine(3.0, 2.0));
                same("a copy", &device, &[&x], |x| layout(&x[0])?.copy());
                same("contiguous", &device, &[&x], |x| layout(&x[0])?.contiguous());
            }
            let zeros = Tensor::zeros(shape, dtype, &device).unwrap();
            assert_close("zeros", &Tensor::zeros(shape, dtype, &Device::Cpu).unwrap(), &zeros, 0.0);
            let ones = Tensor::ones(shape, dtype, &device).unwrap();
            assert_close("ones", &Tensor::ones(shape, dtype, &Device::Cpu).unwrap(), &ones, 0.0);
        }
    }
    let full = Tensor::full(2.5f32, (3, 7), &device).unwrap();
    assert_close("full", &Tensor::full(2.5f32, (3, 7), &Device::Cpu).unwrap(), &full, 0.0);
    // A part of a matrix that is set in place.
    let part = |device: &Device| {
        let whole = Tensor::zeros((5, 7), DType::F32, device).unwrap();
        whole.narrow(1, 2, 3).unwrap().one_set().unwrap();
        whole
    };
    assert_close("set", &part(&Device::Cpu), &part(&device), 0.0);
}

#[test]
fn binary_and_compare() {
    let device = cuda();
    type Binary = fn(&Tensor, &Tensor) -> Result<Tensor>;
    let all: [(&str, Binary); 12] = [
        ("add", |x, y| x + y),
        ("sub", |x, y| x.maximum(y)? - x.minimum(y)?),
        ("mul", |x, y| x * y),
        ("div", |x, y| x / y),
        ("maximum", |x, y| x.maximum(y)),
        ("minimum", |x, y| x.minimum(y)),
        ("eq", |x, y| x.eq(y)),
        ("ne", |x, y| x.ne(y)),
        ("lt", |x, y| x.lt(y)),
        ("le", |x, y| x.le(y)),
        ("gt", |x, y| x.gt(y)),
        ("ge", |x, y| x.ge(y)),
    ];
    for dtype in FLOATS.into_iter().chain(WHOLE) {
        for shape in SHAPES {
            let x = numbers(shape, dtype);
            let y = x.flatten_all().unwrap().flip(&[0]).unwrap().reshape(shape).unwrap();
            for (left, right) in pairs(&x, &y) {
                for (name, run) in all {
                    if name == "mul" && dtype == DType::U8 {
                        continue; // overflows, which is not the same everywhere
                    }
                    same(name, &device, &[&x, &y], |x| run(&left(&x[0])?, &right(&x[1])?));
                }
            }
        }
        let (column, row) = (numbers(&[5, 1], dtype), numbers(&[1, 7], dtype));
        same("broadcast", &device, &[&column, &row], |x| x[0].broadcast_add(&x[1]));
    }
}

#[test]
fn ternary() {
    let device = cuda();
    for condition in WHOLE {
        for dtype in FLOATS.into_iter().chain(WHOLE) {
            for shape in SHAPES {
                let (x, y) = (numbers(shape, dtype), numbers(shape, dtype).affine(1.0, 1.0).unwrap());
                let odd = numbers(shape, DType::U32).to_dtype(DType::F64).unwrap();
                let odd = (&odd - (&odd / 2.0).unwrap().floor().unwrap() * 2.0)
                    .unwrap()
                    .to_dtype(condition)
                    .unwrap();
                for (c, t) in pairs(&odd, &x) {
                    same("where", &device, &[&odd, &x, &y], |x| c(&x[0])?.where_cond(&t(&x[1])?, &x[2]));
                }
            }
        }
    }
}

#[test]
fn cast() {
    let device = cuda();
    for from in FLOATS.into_iter().chain(WHOLE) {
        for to in FLOATS.into_iter().chain(WHOLE) {
            if matches!(
                (from, to),
                (DType::F16 | DType::BF16, DType::I64) | (DType::I64, DType::F16 | DType::BF16)
            ) {
                continue; // candle has no such kernel
            }
            for shape in SHAPES {
                // A negative number has no meaning as a whole one.
                let x =
                    if from.is_float() { numbers(shape, from).abs().unwrap() } else { numbers(shape, from) };
                for layout in layouts(&x) {
                    same(&format!("{from:?} to {to:?}"), &device, &[&x], |x| layout(&x[0])?.to_dtype(to));
                }
            }
        }
    }
}

#[test]
fn reductions() {
    let device = cuda();
    let shapes: [&[usize]; 9] =
        [&[1], &[31], &[33], &[1025], &[2049], &[3, 1], &[1, 65], &[5, 31], &[3, 5, 127]];
    for dtype in FLOATS {
        for shape in shapes {
            let x = numbers(shape, dtype);
            // Equal numbers would leave the place of the largest open.
            let step =
                Tensor::arange(0f64, x.elem_count() as f64, &Device::Cpu).unwrap().reshape(shape).unwrap();
            let unequal = (x.to_dtype(DType::F64).unwrap() + step * 1e-5).unwrap().to_dtype(dtype).unwrap();
            for layout in layouts(&x) {
                // A sum is compared by its size: in another order other digits are lost.
                let scale = 1.0 / (x.elem_count() as f64).sqrt();
                same("sum of all", &device, &[&x], |x| layout(&x[0].affine(scale, 0.0)?)?.sum_all());
                for dim in 0..x.rank() {
                    same("sum", &device, &[&x], |x| layout(&x[0].affine(scale, 0.0)?)?.sum(dim));
                    same("max", &device, &[&x], |x| layout(&x[0])?.max(dim));
                    same("min", &device, &[&x], |x| layout(&x[0])?.min_keepdim(dim));
                    if WIDE.contains(&dtype) {
                        same("argmax", &device, &[&unequal], |x| layout(&x[0])?.argmax(dim));
                        same("argmin", &device, &[&unequal], |x| layout(&x[0])?.argmin_keepdim(dim));
                    }
                }
            }
        }
    }
    for dtype in WHOLE {
        let x = numbers(&[7, 37], dtype);
        same("max of whole numbers", &device, &[&x], |x| x[0].max(1));
        same("min of whole numbers", &device, &[&x], |x| x[0].min(0));
    }
}

#[test]
fn softmax_and_norms() {
    let device = cuda();
    for dtype in FLOATS {
        for shape in [&[1usize, 1][..], &[3, 5], &[2, 33], &[4, 1000], &[2, 1025], &[2, 3, 65]] {
            let x = numbers(shape, dtype);
            let columns = shape[shape.len() - 1];
            let (alpha, beta) =
                (numbers(&[columns], dtype), numbers(&[columns], dtype).affine(0.5, 1.0).unwrap());
            same("softmax", &device, &[&x], |x| ops::softmax_last_dim(&x[0]));
            same("log_softmax", &device, &[&x], |x| ops::log_softmax(&x[0], D::Minus1));
            // The kernels of norms sum in f32 whatever the type, and that of layer_norm mean and square in one pass,
            // which loses digits that two passes keep.
            let on = |device: &Device| [&x, &alpha, &beta].map(|x| x.to_device(device).unwrap());
            let ([x, alpha, beta], there) = (on(&Device::Cpu), on(&device));
            let digits = tolerance(dtype).max(1e-5) * 2.0;
            let (here, got) =
                (ops::rms_norm_slow(&x, &alpha, 1e-5), ops::rms_norm(&there[0], &there[1], 1e-5));
            assert_close("rms_norm", &here.unwrap(), &got.unwrap(), digits);
            if columns > 1 {
                let got = ops::layer_norm(&there[0], &there[1], &there[2], 1e-5).unwrap();
                assert_close(
                    "layer_norm",
                    &ops::layer_norm_slow(&x, &alpha, &beta, 1e-5).unwrap(),
                    &got,
                    digits,
                );
            }
        }
        let x = numbers(&[2, 3, 5, 8], dtype);
        let (cos, sin) = (numbers(&[5, 4], dtype).cos().unwrap(), numbers(&[5, 4], dtype).sin().unwrap());
        same("rope", &device, &[&x, &cos, &sin], |x| candle_nn::rotary_emb::rope(&x[0], &x[1], &x[2]));
        same("rope_i", &device, &[&x, &cos, &sin], |x| candle_nn::rotary_emb::rope_i(&x[0], &x[1], &x[2]));
    }
}

#[test]
fn indexing() {
    let device = cuda();
    for index in [DType::U8, DType::U32, DType::I64] {
        for dtype in FLOATS {
            let x = numbers(&[5, 7, 3], dtype);
            for dim in 0..3 {
                let size = x.dims()[dim];
                let chosen: Vec<u32> = (0..9).map(|i| (i * 2 + 1) % size as u32).collect();
                let ids = Tensor::new(chosen.as_slice(), &Device::Cpu).unwrap().to_dtype(index).unwrap();
                same("index_select", &device, &[&x, &ids], |x| x[0].index_select(&x[1], dim));
                let mut shape = x.dims().to_vec();
                shape[dim] = 9;
                let more = numbers(&shape, dtype);
                same("index_add", &device, &[&x, &more, &ids], |x| x[0].index_add(&x[2], &x[1], dim));
                let count: usize = shape.iter().product();
                // One place of a row is chosen at most once, or the order would matter.
                let mut shape = x.dims().to_vec();
                shape[dim] = size - 1;
                let turned: Vec<u32> = (0..count as u32).map(|i| i % size as u32).collect();
                let places = Tensor::new(turned.as_slice(), &Device::Cpu).unwrap();
                let along = places.narrow(0, 0, size - 1).unwrap();
                let mut one = vec![1; 3];
                one[dim] = size - 1;
                let places = along.reshape(one).unwrap().broadcast_as(shape.as_slice()).unwrap();
                let places = places.contiguous().unwrap().to_dtype(index).unwrap();
                let less = numbers(&shape, dtype);
                same("gather", &device, &[&x, &places], |x| x[0].gather(&x[1], dim));
                same("scatter", &device, &[&x, &places, &less], |x| x[0].scatter(&x[1], &x[2], dim));
                same("scatter_add", &device, &[&x, &places, &less], |x| x[0].scatter_add(&x[1], &x[2], dim));
            }
        }
    }
    let table = numbers(&[11, 5], DType::F32);
    let ids = Tensor::new(&[[0u32, 10], [3, 3]], &Device::Cpu).unwrap();
    same("embedding", &device, &[&table, &ids], |x| x[0].embedding(&x[1].flatten_all()?));
}

#[test]
fn an_index_outside_is_an_error_and_not_a_number() {
    // In a process of its own: a failed assertion spoils the context.
    if std::env::var_os("LASTLAYER_FAILS_ON_PURPOSE").is_none() {
        let me = std::env::current_exe().unwrap();
        let run = std::process::Command::new(me)
            .args(["--exact", "an_index_outside_is_an_error_and_not_a_number", "--nocapture"])
            .env("LASTLAYER_FAILS_ON_PURPOSE", "1")
            .env_remove("CUDA_ON_CPU_REPORT") // of faults that nobody wants
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stderr).into_owned() + &String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && said.contains("ssert"), "{said}");
        return;
    }
    let device = cuda();
    let x = Tensor::arange(0f32, 5.0, &device).unwrap();
    let ids = Tensor::new(&[1u32, 5], &device).unwrap();
    let got = x.index_select(&ids, 0).and_then(|x| x.to_vec1::<f32>());
    assert!(got.unwrap_err().to_string().contains("ASSERT"));
}

#[test]
fn convolutions() {
    let device = cuda();
    for dtype in FLOATS {
        for (padding, stride, dilation, groups) in
            [(0, 1, 1, 1), (1, 2, 1, 1), (2, 1, 2, 1), (1, 1, 1, 2), (3, 3, 1, 4)]
        {
            let (x, k) =
                (numbers(&[3, 4, 17], dtype), numbers(&[8, 4 / groups, 3], dtype).affine(0.25, 0.0).unwrap());
            for layout in layouts(&x) {
                same("conv1d", &device, &[&x, &k], |x| {
                    layout(&x[0])?.conv1d(&x[1], padding, stride, dilation, groups)
                });
            }
            let (x, k) = (
                numbers(&[2, 4, 9, 11], dtype),
                numbers(&[8, 4 / groups, 3, 3], dtype).affine(0.25, 0.0).unwrap(),
            );
            for layout in layouts(&x) {
                same("conv2d", &device, &[&x, &k], |x| {
                    layout(&x[0])?.conv2d(&x[1], padding, stride, dilation, groups)
                });
            }
        }
        let one = numbers(&[1, 1, 1, 1], dtype);
        same("conv2d of one", &device, &[&one, &one], |x| x[0].conv2d(&x[1], 0, 1, 1, 1));
    }
    for dtype in WIDE {
        for (padding, output_padding, stride, dilation) in
            [(0, 0, 1, 1), (1, 0, 2, 1), (1, 1, 2, 1), (2, 0, 1, 2)]
        {
            // Not a batch: candle's result for one on the CPU is wrong.
            let (x, k) = (numbers(&[1, 3, 9], dtype), numbers(&[3, 5, 3], dtype));
            same("conv_transpose1d", &device, &[&x, &k], |x| {
                x[0].conv_transpose1d(&x[1], padding, output_padding, stride, dilation, 1)
            });
            let (x, k) = (numbers(&[2, 3, 5, 7], dtype), numbers(&[3, 4, 3, 3], dtype));
            same("conv_transpose2d", &device, &[&x, &k], |x| {
                x[0].conv_transpose2d(&x[1], padding, output_padding, stride, dilation)
            });
        }
    }
}

#[test]
fn pooling_and_upsampling() {
    let device = cuda();
    for dtype in FLOATS {
        for shape in [&[1usize, 1, 3, 3][..], &[2, 3, 9, 7], &[1, 2, 5, 12]] {
            let x = numbers(shape, dtype);
            for layout in layouts(&x) {
                for (size, stride) in [((2, 2), (2, 2)), ((3, 2), (1, 2)), ((1, 3), (2, 1)), ((3, 3), (3, 3))]
                {
                    same("max_pool2d", &device, &[&x], |x| {
                        layout(&x[0])?.max_pool2d_with_stride(size, stride)
                    });
                    if dtype != DType::F64 {
                        // In f64 candle's kernel divides by a float.
                        same("avg_pool2d", &device, &[&x], |x| {
                            layout(&x[0])?.avg_pool2d_with_stride(size, stride)
                        });
                    }
                }
                same("upsample_nearest2d", &device, &[&x], |x| layout(&x[0])?.upsample_nearest2d(13, 17));
                for corners in [false, true] {
                    same("upsample_bilinear2d", &device, &[&x], |x| {
                        x[0].upsample_bilinear2d(13, 17, corners)
                    });
                }
            }
        }
    }
}

#[test]
fn sorting() {
    let device = cuda();
    for dtype in FLOATS.into_iter().chain(WHOLE) {
        for shape in [&[1usize][..], &[2], &[3, 31], &[2, 33], &[61], &[5, 7, 59]] {
            // At most 61 numbers, all different.
            let x = numbers(shape, dtype);
            for ascending in [true, false] {
                same("argsort", &device, &[&x], |x| x[0].arg_sort_last_dim(ascending));
                same("sort", &device, &[&x], |x| Ok(x[0].sort_last_dim(ascending)?.0));
            }
        }
    }
    for columns in [1000, 1024, 1025, 5000, 8192] {
        same("a long row", &device, &[&long_row(columns)], |x| x[0].arg_sort_last_dim(true));
    }
}

/// Distinct numbers in a drawn order.
fn long_row(columns: usize) -> Tensor {
    let unequal: Vec<f32> = (0..columns).map(|i| ((i * 7919) % 10007) as f32).collect();
    Tensor::new(unequal.as_slice(), &Device::Cpu).unwrap()
}

#[test]
fn a_row_that_is_too_long_to_sort_is_refused_and_spoils_nothing() {
    let device = cuda();
    // A row is sorted in the shared memory of a block, padded to a power of two: 64 KB of places.
    let x = long_row(8193);
    for ascending in [true, false] {
        let refused = x.to_device(&device).unwrap().arg_sort_last_dim(ascending);
        assert!(refused.unwrap_err().to_string().contains("INVALID_VALUE"));
    }
    same("a row afterwards", &device, &[&long_row(9)], |x| x[0].arg_sort_last_dim(true));
}

/// What candle makes of no rows and of no columns: the CPU's result, or a refusal (or a panic, where a size divides) that
/// spoils nothing. Callers may rely on what works here.
#[test]
fn no_elements_are_a_result_or_a_refusal() {
    let device = cuda();
    type Run = fn(&Tensor) -> Result<Tensor>;
    let all: [(&str, [bool; 2], Run); 33] = [
        ("neg", [true, true], |x| x.neg()),
        ("affine", [true, true], |x| x.affine(2.0, 1.0)),
        ("powf", [true, true], |x| x.powf(2.0)),
        ("a cast", [false, false], |x| x.to_dtype(DType::F64)),
        ("add", [true, true], |x| x + x),
        ("broadcast_add", [false, false], |x| x.broadcast_add(&x.ones_like()?)),
        ("lt", [false, false], |x| x.lt(x)),
        ("lt of a number", [false, false], |x| x.lt(1.0)),
        ("where", [false, false], |x| x.lt(x)?.where_cond(x, x)),
        ("copy", [true, true], |x| x.copy()),
        ("a transposed copy", [true, true], |x| x.t()?.contiguous()),
        ("zeros", [true, true], |x| x.zeros_like()),
        ("ones", [false, false], |x| x.ones_like()),
        ("full", [false, false], |x| Tensor::full(2f32, x.shape(), x.device())),
        ("cat", [true, true], |x| Tensor::cat(&[x, x], 0)),
        ("cat with more", [true, false], |x| {
            Tensor::cat(&[x, &Tensor::ones((2, x.dim(1)?), DType::F32, x.device())?], 0)
        }),
        ("narrow", [true, true], |x| x.narrow(0, 0, 0)?.contiguous()),
        ("sum_all", [true, true], |x| x.sum_all()),
        ("sum of rows", [true, false], |x| x.sum(0)),
        ("sum of columns", [false, true], |x| x.sum(1)),
        ("max of rows", [false, false], |x| x.max(0)),
        ("max of columns", [false, false], |x| x.max(1)),
        ("argmax", [false, false], |x| x.argmax(1)),
        ("softmax", [false, false], ops::softmax_last_dim),
        ("index_select of none", [false, false], |x| {
            let table = Tensor::ones((4, 3), DType::F32, x.device())?;
            table.index_select(&Tensor::zeros(0, DType::U32, x.device())?, 0)
        }),
        ("index_select of an empty table", [false, false], |x| {
            x.t()?.contiguous()?.index_select(&Tensor::zeros(x.dim(1)?, DType::U32, x.device())?, 0)
        }),
        ("gather", [false, false], |x| x.gather(&x.to_dtype(DType::U32)?, 1)),
        ("index_add", [true, false], |x| {
            let ids = Tensor::zeros(x.dim(0)?, DType::U32, x.device())?;
            Tensor::ones((4, x.dim(1)?), DType::F32, x.device())?.index_add(&ids, x, 0)
        }),
        ("scatter_add", [false, false], |x| x.scatter_add(&x.to_dtype(DType::U32)?, x, 1)),
        ("matmul of no rows", [true, false], |x| {
            x.matmul(&Tensor::ones((x.dim(1)?, 2), DType::F32, x.device())?)
        }),
        ("matmul of no terms", [false, true], |x| {
            x.t()?.matmul(&Tensor::ones((x.dim(0)?, 2), DType::F32, x.device())?)
        }),
        ("argsort", [false, false], |x| x.arg_sort_last_dim(true)),
        ("cumsum", [true, false], |x| x.cumsum(1)),
    ];
    for (place, shape) in [[0usize, 3], [3, 0]].into_iter().enumerate() {
        let x = Tensor::zeros(&shape, DType::F32, &Device::Cpu).unwrap();
        for (name, works, run) in all {
            let there = x.to_device(&device).unwrap();
            let got =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&there).ok())).ok().flatten();
            assert_eq!(got.is_some(), works[place], "{name} of {shape:?}");
            if let Some(got) = got {
                assert_close(name, &run(&x).unwrap(), &got, 0.0);
            }
            same("afterwards", &device, &[&long_row(3)], |x| x[0].affine(2.0, 1.0));
        }
    }
}

#[test]
fn products() {
    let device = cuda();
    for dtype in FLOATS {
        for (m, n, k) in [(1, 1, 1), (1, 7, 3), (31, 33, 17), (64, 65, 129), (5, 1, 1000)] {
            let scale = 1.0 / (k as f64).sqrt();
            let (a, b) = (numbers(&[m, k], dtype).affine(scale, 0.0).unwrap(), numbers(&[k, n], dtype));
            for (left, right) in pairs(&a, &b) {
                same("matmul", &device, &[&a, &b], |x| {
                    let (a, b) = (left(&x[0])?, right(&x[1])?);
                    // What cuBLAS cannot take is made contiguous first.
                    a.matmul(&b).or_else(|_| a.contiguous()?.matmul(&b.contiguous()?))
                });
            }
            let (a, b) =
                (numbers(&[3, 2, m, k], dtype).affine(scale, 0.0).unwrap(), numbers(&[3, 2, k, n], dtype));
            same("a batch", &device, &[&a, &b], |x| x[0].matmul(&x[1]));
            same("a transposed batch", &device, &[&a], |x| x[0].matmul(&x[0].t()?));
            same("a row for all", &device, &[&a, &numbers(&[k, n], dtype)], |x| x[0].broadcast_matmul(&x[1]));
        }
    }
}

#[test]
fn copies_of_parts() {
    let device = cuda();
    for dtype in FLOATS.into_iter().chain(WHOLE) {
        let x = numbers(&[3, 5, 7], dtype);
        same("permute", &device, &[&x], |x| x[0].permute((2, 0, 1))?.contiguous());
        same("narrow", &device, &[&x], |x| x[0].narrow(1, 1, 3)?.contiguous());
        same("cat 0", &device, &[&x], |x| Tensor::cat(&[&x[0], &x[0].narrow(0, 1, 1)?], 0));
        same("cat 1", &device, &[&x], |x| Tensor::cat(&[&x[0], &x[0].narrow(1, 1, 2)?], 1));
        same("stack", &device, &[&x], |x| Tensor::stack(&[&x[0], &x[0]], 2));
        same("padding", &device, &[&x], |x| x[0].pad_with_zeros(1, 2, 1));
        same("slice_scatter", &device, &[&x], |x| x[0].slice_scatter(&x[0].narrow(1, 0, 2)?, 1, 3));
        same("flip", &device, &[&x], |x| x[0].flip(&[0, 2]));
    }
    let x = numbers(&[4, 9], DType::F32);
    same("cumsum", &device, &[&x], |x| x[0].cumsum(1));
}

#[test]
fn gradients_of_a_small_network() {
    let device = cuda();
    let gradients = |device: &Device, dtype: DType| -> Result<Vec<Tensor>> {
        let on = |shape: &[usize]| Var::from_tensor(&numbers(shape, dtype).to_device(device)?);
        let (k, w, b) = (on(&[4, 2, 3, 3])?, on(&[36, 3])?, on(&[3])?);
        let x = numbers(&[5, 2, 6, 6], dtype).to_device(device)?;
        let h = x.conv2d(&k, 1, 1, 1, 1)?.relu()?.max_pool2d(2)?.flatten_from(1)?;
        let scores = (h.matmul(&w)?.broadcast_add(&b)? / 8.0)?;
        let labels = Tensor::new(&[0u32, 1, 2, 1, 0], device)?;
        let loss = candle_nn::loss::cross_entropy(&scores, &labels)?;
        let grads = loss.backward()?;
        Ok([&k, &w, &b].iter().map(|v| grads.get(v).unwrap().clone()).collect())
    };
    for dtype in WIDE {
        for (here, there) in
            gradients(&Device::Cpu, dtype).unwrap().iter().zip(gradients(&device, dtype).unwrap())
        {
            assert_close("a gradient", here, &there, tolerance(dtype) * 10.0);
        }
    }
}

#[test]
fn drawn_numbers() {
    let device = cuda();
    for dtype in WIDE {
        for shape in [&[1usize][..], &[3, 5], &[10001]] {
            let moments = |x: &Tensor| {
                let x = x.to_dtype(DType::F64).unwrap();
                let mean = x.mean_all().unwrap();
                let spread = x.broadcast_sub(&mean).unwrap().sqr().unwrap().mean_all().unwrap();
                (mean.to_scalar::<f64>().unwrap(), spread.to_scalar::<f64>().unwrap().sqrt())
            };
            let (zeros, many) = (Tensor::zeros(shape, dtype, &device).unwrap(), shape[0] > 100);
            let (mean, deviation) = moments(&zeros.rand_like(-1.0, 3.0).unwrap());
            assert!(
                !many || ((mean - 1.0).abs() < 0.05 && (deviation - 4.0 / 12f64.sqrt()).abs() < 0.05),
                "{mean} {deviation}"
            );
            let (mean, deviation) = moments(&zeros.randn_like(1.0, 2.0).unwrap());
            assert!(
                !many || ((mean - 1.0).abs() < 0.1 && (deviation - 2.0).abs() < 0.1),
                "{mean} {deviation}"
            );
        }
        device.set_seed(3).unwrap();
        let once = Tensor::zeros(9, dtype, &device).unwrap().rand_like(0.0, 1.0).unwrap();
        device.set_seed(3).unwrap();
        let again = Tensor::zeros(9, dtype, &device).unwrap().rand_like(0.0, 1.0).unwrap();
        assert_close("the same seed", &once, &again, 0.0);
    }
}

/// A line for `make cuda-report`, which names the file, and for whoever reads what a test prints.
fn tell(line: lastlayer::serde_json::Value) {
    use std::io::Write;
    println!("{line}");
    if let Some(path) = std::env::var_os("LASTLAYER_CUDA_TOLD") {
        let file = std::fs::File::options().append(true).create(true).open(path);
        file.and_then(|mut file| writeln!(file, "{line}")).expect("a line of the report");
    }
}

const COUNTS: usize = 12;

/// What the stand-in counts for this thread, in the order of its `src/stand_in.h`. None on a real GPU.
fn counts() -> Option<[u64; COUNTS]> {
    let name = c"cuda_on_cpu_thread_counts";
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if found.is_null() {
        return None;
    }
    let read: extern "C" fn(*mut u64) -> u32 = unsafe { std::mem::transmute(found) };
    let mut all = [0; COUNTS];
    assert_eq!(read(all.as_mut_ptr()), COUNTS as u32);
    Some(all)
}

#[test]
fn copies_are_counted_for_each_thread() {
    let device = cuda();
    let Some(before) = counts() else { return };
    let x = Tensor::new(&[1f32, 2.0, 3.0], &device).unwrap();
    let sum = x.sum_all().unwrap().to_scalar::<f32>().unwrap();
    let after = counts().unwrap();
    let [launches, _, _, _, to_device, to_device_bytes, to_host, to_host_bytes, ..] =
        std::array::from_fn::<u64, COUNTS, _>(|i| after[i] - before[i]);
    assert_eq!((sum, launches, to_host, to_host_bytes), (6.0, 1, 1, 4));
    // The numbers, and the dims and strides that the kernel of a sum reads.
    assert_eq!((to_device, to_device_bytes), (2, 12 + 16));
}
