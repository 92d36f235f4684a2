//! The equations of the chapter "Differentiating through a ridge fit".

use lastlayer::foca::{Features, Fitted, LinearHead, WeakFit};
use lastlayer::linalg::{Cholesky, shortest_solution, solve};
use lastlayer::ndarray::{Array1, Array2, Axis, array, concatenate, s};
use lastlayer::seed::Seed;

use crate::{SEED, close, differences, groups, normals};

/// Solves of at most a dozen unknowns whose matrices have condition numbers below a few thousand.
const ROUNDING: f64 = 1e-10;
/// Central differences of values of size one: 1e-16 over the step, and the square of the step.
const DIFFERENCES: f64 = 1e-8;
const STEP: f64 = 1e-5;
/// Differences of a head that Newton's method found: it stops at a gradient of 1e-8, mostly far below, and the step of
/// 1e-4 divides what is left.
const NEWTON_DIFFERENCES: f64 = 1e-6;
const NEWTON_STEP: f64 = 1e-4;

/// Subsets of three classes with more, as many and fewer rows than features.
fn subsets() -> Vec<Features> {
    [(4, 3), (2, 6), (2, 11)].map(|(k, d)| groups(SEED.stream(d as u64), 3, k, d, 1.0)).to_vec()
}

fn moved(f: &Features, z: &Array2<f64>) -> Features {
    Features { z: z.clone(), ..f.clone() }
}

fn ridge(f: &Features, weight: f64) -> Fitted {
    WeakFit::RidgeSum(weight).fit(f).unwrap()
}

fn mean(m: &Array2<f64>) -> Array1<f64> {
    m.mean_axis(Axis(0)).unwrap()
}

fn centred(m: &Array2<f64>) -> Array2<f64> {
    m - &mean(m)
}

fn outer(u: &Array1<f64>, v: &Array1<f64>) -> Array2<f64> {
    u.clone().insert_axis(Axis(1)).dot(&v.clone().insert_axis(Axis(0)))
}

fn inner(a: &Array2<f64>, b: &Array2<f64>) -> f64 {
    (a * b).sum()
}

fn shifted(a: Array2<f64>, weight: f64) -> Array2<f64> {
    let n = a.nrows();
    a + weight * Array2::<f64>::eye(n)
}

/// A⁻¹ B by elimination, column by column: slow, and independent of the library's factor.
fn divide(a: &Array2<f64>, b: &Array2<f64>) -> Array2<f64> {
    let mut x = b.clone();
    x.columns_mut().into_iter().for_each(|mut c| {
        let solved = solve(a, &c.to_owned()).unwrap();
        c.assign(&solved);
    });
    x
}

/// What the derivation names: Zc, M = Zcᵀ Zc + λ I, K = Zc Zcᵀ + λ I, the head and R = Ec − Zc W.
struct Ridge {
    zc: Array2<f64>,
    ec: Array2<f64>,
    m: Array2<f64>,
    k: Array2<f64>,
    w: Array2<f64>,
    r: Array2<f64>,
    centre: Array1<f64>,
}

impl Ridge {
    fn of(f: &Features, weight: f64) -> Ridge {
        let (zc, ec) = (centred(&f.z), centred(&f.one_hot()));
        let (m, k) = (shifted(zc.t().dot(&zc), weight), shifted(zc.dot(&zc.t()), weight));
        let w = divide(&m, &zc.t().dot(&ec));
        let r = &ec - &zc.dot(&w);
        Ridge { zc, ec, m, k, w, r, centre: mean(&f.z) }
    }

    /// dW of a change of the features.
    fn dw(&self, dz: &Array2<f64>) -> Array2<f64> {
        let dzc = centred(dz);
        divide(&self.m, &(dzc.t().dot(&self.r) - self.zc.t().dot(&dzc.dot(&self.w))))
    }

    fn total(&self, bars: &Bars) -> Array2<f64> {
        &bars.w - &outer(&self.centre, &bars.b)
    }

    fn y(&self, bars: &Bars) -> Array2<f64> {
        divide(&self.m, &self.total(bars))
    }

    /// R Yᵀ − Zc Y Wᵀ.
    fn centred_bar(&self, y: &Array2<f64>) -> Array2<f64> {
        self.r.dot(&y.t()) - self.zc.dot(y).dot(&self.w.t())
    }
}

/// Derivatives of an outer loss in the features of its batch and in the head.
struct Bars {
    z: Array2<f64>,
    w: Array2<f64>,
    b: Array1<f64>,
}

fn random_bars(seed: Seed, head: &LinearHead) -> Bars {
    let (d, classes) = head.w.dim();
    let b = normals(seed.named("b"), 1, classes).row(0).to_owned();
    Bars { z: Array2::zeros((0, d)), w: normals(seed.named("w"), d, classes), b }
}

/// Mean over a batch of ‖Wᵀz + b − e‖².
fn squared(head: &LinearHead, batch: &Features) -> f64 {
    let r = head.scores(&batch.z).unwrap() - batch.one_hot();
    inner(&r, &r) / batch.n() as f64
}

fn squared_bars(head: &LinearHead, batch: &Features) -> Bars {
    let r = (head.scores(&batch.z).unwrap() - batch.one_hot()) * (2.0 / batch.n() as f64);
    Bars { z: r.dot(&head.w.t()), w: batch.z.t().dot(&r), b: r.sum_axis(Axis(0)) }
}

fn softmax(scores: &Array2<f64>) -> Array2<f64> {
    let e = scores.mapv(f64::exp);
    let sums = e.sum_axis(Axis(1)).insert_axis(Axis(1));
    e / sums
}

/// Mean cross entropy over a batch.
fn entropy(head: &LinearHead, batch: &Features) -> f64 {
    let p = softmax(&head.scores(&batch.z).unwrap());
    -inner(&p.mapv(f64::ln), &batch.one_hot()) / batch.n() as f64
}

fn entropy_bars(head: &LinearHead, batch: &Features) -> Bars {
    let r = (softmax(&head.scores(&batch.z).unwrap()) - batch.one_hot()) / batch.n() as f64;
    Bars { z: r.dot(&head.w.t()), w: batch.z.t().dot(&r), b: r.sum_axis(Axis(0)) }
}

// The fit.

#[test]
fn the_closed_form_solves_the_normal_equations() {
    for f in subsets() {
        let (n, d) = f.z.dim();
        // All of W and b at once, with a penalty on the rows of W.
        let rows = concatenate![Axis(1), f.z, Array2::ones((n, 1))];
        let mut normal = rows.t().dot(&rows);
        normal.diag_mut().slice_mut(s![..d]).iter_mut().for_each(|v| *v += 0.7);
        let both = divide(&normal, &rows.t().dot(&f.one_hot()));
        let head = ridge(&f, 0.7).head;
        close(&head.w, both.slice(s![..d, ..]), ROUNDING);
        close(&head.b, both.row(d), ROUNDING);
        close(&head.w, &Ridge::of(&f, 0.7).w, ROUNDING);
        close(&head.b, &(mean(&f.one_hot()) - head.w.t().dot(&mean(&f.z))), ROUNDING);
    }
}

#[test]
fn pushing_through_turns_the_primal_form_into_the_dual_one() {
    for f in subsets() {
        let Ridge { zc, ec, m, k, .. } = Ridge::of(&f, 0.7);
        let (primal, dual) = (divide(&m, &zc.t().to_owned()), divide(&k, &zc).t().to_owned());
        close(&primal, &dual, ROUNDING);
        // The library takes one form below and the other above n = d.
        let w = ridge(&f, 0.7).head.w;
        close(&w, &primal.dot(&ec), ROUNDING);
        close(&w, &dual.dot(&ec), ROUNDING);
    }
}

#[test]
fn a_mean_needs_a_weight_n_times_smaller_than_a_sum() {
    for f in subsets() {
        let mean = WeakFit::RidgeMean(0.2).fit(&f).unwrap().head;
        let sum = ridge(&f, 0.2 * f.n() as f64).head;
        assert_eq!(mean, sum);
        assert!((mean.w - ridge(&f, 0.2).head.w).iter().any(|v| v.abs() > 1e-2));
    }
}

#[test]
fn neither_order_nor_origin_matters_to_a_ridge_fit() {
    for (i, f) in subsets().into_iter().enumerate() {
        let head = ridge(&f, 0.7).head;
        let order = SEED.stream(i as u64).permutation(f.n());
        let shuffled = ridge(&f.take(&order).unwrap(), 0.7).head;
        close(&shuffled.w, &head.w, ROUNDING);
        close(&shuffled.b, &head.b, ROUNDING);
        let by = 3.0 * normals(SEED.named("origin"), 1, f.d()).row(0).to_owned();
        let elsewhere = moved(&f, &(&f.z + &by));
        let there = ridge(&elsewhere, 0.7).head;
        close(&there.w, &head.w, ROUNDING);
        close(&there.b, &(&head.b - &head.w.t().dot(&by)), ROUNDING);
        close(&there.scores(&elsewhere.z).unwrap(), &head.scores(&f.z).unwrap(), ROUNDING);
    }
}

#[test]
fn the_scores_of_a_ridge_head_add_up_to_one() {
    for f in subsets() {
        let head = ridge(&f, 0.7).head;
        close(&head.w.sum_axis(Axis(1)), &Array1::zeros(f.d()), ROUNDING);
        close(&[head.b.sum()], &[1.0], ROUNDING);
        assert!(head.w.iter().any(|v| v.abs() > 1e-2));
    }
}

#[test]
fn a_large_weight_leaves_the_shares_of_the_classes() {
    for f in subsets() {
        // Uneven shares, so that the bias could be wrong.
        let f = f.take(&(1..f.n()).collect::<Vec<_>>()).unwrap();
        let Ridge { zc, ec, .. } = Ridge::of(&f, 1.0);
        let off = |weight: f64| {
            let head = ridge(&f, weight).head;
            let w = weight * &head.w - zc.t().dot(&ec);
            let b = &head.b - &mean(&f.one_hot());
            (inner(&w, &w).sqrt(), b.dot(&b).sqrt())
        };
        // The first term is right to the order of 1/λ: ten times the weight, a tenth of the error, to 1 %.
        let (here, there) = (off(1e5), off(1e6));
        assert!((here.0 / there.0 - 10.0).abs() < 0.1, "{here:?} {there:?}");
        assert!((here.1 / there.1 - 10.0).abs() < 0.1 && there.1 < 1e-4);
    }
}

#[test]
fn a_small_weight_leaves_the_shortest_least_squares_head() {
    for f in subsets() {
        let Ridge { zc, ec, .. } = Ridge::of(&f, 1.0);
        let w = ridge(&f, 1e-6).head.w;
        // The weight over the least squared singular value that is not zero, which is above 0.05 here.
        let small = 2e-5;
        if f.n() > f.d() {
            close(&w, &divide(&zc.t().dot(&zc), &zc.t().dot(&ec)), small);
            let r = &ec - &zc.dot(&w);
            assert!(inner(&r, &r) > 0.1, "nothing to interpolate with");
        } else {
            for (w, e) in w.columns().into_iter().zip(ec.columns()) {
                close(w, &shortest_solution(&zc, &e.to_vec()).unwrap().0, small);
            }
            close(&zc.dot(&w), &ec, small);
        }
    }
}

#[test]
fn residuals_are_the_weight_times_the_dual_variables() {
    for f in subsets() {
        let Ridge { zc, ec, k, w, r, .. } = Ridge::of(&f, 0.7);
        close(&r, &(0.7 * divide(&k, &ec)), ROUNDING);
        close(&zc.t().dot(&r), &(0.7 * &w), ROUNDING);
        let head = ridge(&f, 0.7).head;
        close(&r, &(f.one_hot() - head.scores(&f.z).unwrap()), ROUNDING);
        close(&r.sum_axis(Axis(0)), &Array1::zeros(3), ROUNDING);
        close(&r.sum_axis(Axis(1)), &Array1::zeros(f.n()), ROUNDING);
    }
}

// Two gradients.

#[test]
fn the_outer_loss_has_these_partial_derivatives() {
    let batch = groups(SEED.named("batch"), 3, 5, 4, 1.0);
    let head = ridge(&groups(SEED.named("fit"), 3, 3, 4, 1.0), 0.7).head;
    let bars = squared_bars(&head, &batch);
    close(&bars.z, &differences(&batch.z, STEP, |z| squared(&head, &moved(&batch, z))), DIFFERENCES);
    let with = |w: &Array2<f64>, b: &Array1<f64>| squared(&LinearHead { w: w.clone(), b: b.clone() }, &batch);
    close(&bars.w, &differences(&head.w, STEP, |w| with(w, &head.b)), DIFFERENCES);
    let b = head.b.clone().insert_axis(Axis(0));
    close(&bars.b, &differences(&b, STEP, |b| with(&head.w, &b.row(0).to_owned())), DIFFERENCES);
}

#[test]
fn fixed_leaves_out_what_through_adds() {
    for f in subsets() {
        let batch = groups(SEED.named("batch"), 3, 5, f.d(), 1.0);
        let fitted = ridge(&f, 0.7);
        let bars = squared_bars(&fitted.head, &batch);
        // Together: subset and batch move along with one parameter.
        let (dz, dbatch) =
            (normals(SEED.named("dz"), f.n(), f.d()), normals(SEED.named("di"), batch.n(), f.d()));
        let loss = |u: f64, v: f64| {
            let head = ridge(&moved(&f, &(&f.z + &(u * &dz))), 0.7).head;
            squared(&head, &moved(&batch, &(&batch.z + &(v * &dbatch))))
        };
        let slope = |f: &dyn Fn(f64) -> f64| (f(STEP) - f(-STEP)) / (2.0 * STEP);
        let fixed = inner(&bars.z, &dbatch);
        let added = inner(&fitted.adjoint(&bars.w, &bars.b).unwrap(), &dz);
        close(&[fixed], &[slope(&|t| loss(0.0, t))], DIFFERENCES);
        close(&[fixed + added], &[slope(&|t| loss(t, t))], DIFFERENCES);
        assert!(added.abs() > 1e-2, "{added}");
    }
}

#[test]
fn two_points_have_the_head_worked_out_by_hand() {
    for (i, weight) in [0.01, 1.0, 30.0].into_iter().enumerate() {
        let f = Features::new(&normals(SEED.named("two").stream(i as u64), 2, 5), &[0u32, 1], 2).unwrap();
        let delta = &f.z.row(1) - &f.z.row(0);
        let square = delta.dot(&delta);
        let head = ridge(&f, weight).head;
        close(head.w.column(1), &(&delta / (square + 2.0 * weight)), ROUNDING);
        close(head.w.column(0), &(-&delta / (square + 2.0 * weight)), ROUNDING);
        let r = weight / (square + 2.0 * weight);
        close(&head.scores(&f.z).unwrap(), &array![[1.0 - r, r], [r, 1.0 - r]], ROUNDING);
        close(&[squared(&head, &f)], &[2.0 * r * r], ROUNDING);
    }
}

/// Two points on a line at a distance, one of each class.
fn on_a_line(z0: f64, z1: f64) -> Features {
    Features::new(&array![[z0], [z1]], &[0u32, 1], 2).unwrap()
}

#[test]
fn on_two_points_fixed_and_through_differ_by_four_residuals() {
    let gradients = |delta: f64, weight: f64| {
        let f = on_a_line(-delta / 2.0, delta / 2.0);
        let fitted = ridge(&f, weight);
        let bars = squared_bars(&fitted.head, &f);
        let along = |z: &Array2<f64>| 0.5 * (z[[1, 0]] - z[[0, 0]]);
        let fixed = along(&bars.z);
        (fixed, fixed + along(&fitted.adjoint(&bars.w, &bars.b).unwrap()))
    };
    let (fixed, through) = gradients(2.0, 1.0);
    close(&[fixed, through], &[-1.0 / 9.0, -2.0 / 27.0], ROUNDING);
    for (delta, weight) in [(2.0, 1.0), (0.3, 1.0), (2f64.sqrt(), 1.0), (5.0, 0.1), (1.0, 4.0)] {
        let (fixed, through) = gradients(delta, weight);
        let square = delta * delta + 2.0 * weight;
        let r = |delta: f64| weight / (delta * delta + 2.0 * weight);
        close(&[fixed], &[-2.0 * delta * weight / square.powi(2)], ROUNDING);
        close(&[through], &[-8.0 * delta * weight.powi(2) / square.powi(3)], ROUNDING);
        close(&[through / fixed], &[4.0 * r(delta)], ROUNDING);
        // What each descends.
        let slope = |f: &dyn Fn(f64) -> f64| (f(delta + STEP) - f(delta - STEP)) / (2.0 * STEP);
        close(&[fixed, through], &[slope(&r), slope(&|delta| 2.0 * r(delta).powi(2))], DIFFERENCES);
    }
}

#[test]
fn with_one_point_in_the_batch_fixed_is_no_gradient() {
    // The direction on (z₀, z₁) when the batch holds the second point alone.
    let field = |z0: f64, z1: f64| {
        let f = on_a_line(z0, z1);
        let fitted = ridge(&f, 1.0);
        let bars = squared_bars(&fitted.head, &f.take(&[1]).unwrap());
        let added = fitted.adjoint(&bars.w, &bars.b).unwrap();
        let fixed = [0.0, bars.z[[0, 0]]];
        (fixed, [fixed[0] + added[[0, 0]], fixed[1] + added[[1, 0]]])
    };
    let (fixed, through) = field(-1.0, 1.0);
    close(&fixed, &[0.0, -2.0 / 9.0], ROUNDING);
    close(&through, &[2.0 / 27.0, -2.0 / 27.0], ROUNDING);
    let by_first = |k: usize| (field(-1.0 + STEP, 1.0).0[k] - field(-1.0 - STEP, 1.0).0[k]) / (2.0 * STEP);
    let by_second = |k: usize| (field(-1.0, 1.0 + STEP).0[k] - field(-1.0, 1.0 - STEP).0[k]) / (2.0 * STEP);
    close(&[by_second(0), by_first(1)], &[0.0, -5.0 / 27.0], DIFFERENCES);
    // The mixed derivatives of a gradient agree.
    let by_first = (field(-1.0 + STEP, 1.0).1[1] - field(-1.0 - STEP, 1.0).1[1]) / (2.0 * STEP);
    let by_second = (field(-1.0, 1.0 + STEP).1[0] - field(-1.0, 1.0 - STEP).1[0]) / (2.0 * STEP);
    close(&[by_first], &[by_second], DIFFERENCES);
    assert!(by_first.abs() > 1e-3);
}

// The adjoint, step by step.

#[test]
fn a_ridge_head_moves_by_its_differential() {
    for f in subsets() {
        let parts = Ridge::of(&f, 0.7);
        let dz = normals(SEED.named("dz"), f.n(), f.d());
        let at = |t: f64| ridge(&moved(&f, &(&f.z + &(t * &dz))), 0.7).head;
        let (up, down) = (at(STEP), at(-STEP));
        let dw = parts.dw(&dz);
        close(&dw, &((up.w - down.w) / (2.0 * STEP)), DIFFERENCES);
        let db = -parts.w.t().dot(&mean(&dz)) - dw.t().dot(&parts.centre);
        close(&db, &((up.b - down.b) / (2.0 * STEP)), DIFFERENCES);
    }
}

#[test]
fn the_bias_passes_its_share_on_to_the_weights() {
    for f in subsets() {
        let (parts, head) = (Ridge::of(&f, 0.7), ridge(&f, 0.7).head);
        let bars = random_bars(SEED.named("bars"), &head);
        let dz = normals(SEED.named("dz"), f.n(), f.d());
        let dw = parts.dw(&dz);
        let db = -parts.w.t().dot(&mean(&dz)) - dw.t().dot(&parts.centre);
        let left = inner(&bars.w, &dw) + bars.b.dot(&db);
        let right = inner(&parts.total(&bars), &dw) - parts.w.dot(&bars.b).dot(&mean(&dz));
        close(&[left], &[right], ROUNDING);
    }
}

#[test]
fn one_solve_takes_the_gradient_to_the_centred_features() {
    for f in subsets() {
        let (parts, head) = (Ridge::of(&f, 0.7), ridge(&f, 0.7).head);
        let bars = random_bars(SEED.named("bars"), &head);
        let dz = normals(SEED.named("dz"), f.n(), f.d());
        let bar = parts.centred_bar(&parts.y(&bars));
        close(&[inner(&parts.total(&bars), &parts.dw(&dz))], &[inner(&bar, &centred(&dz))], ROUNDING);
        // Its columns add up to zero as they are: there is nothing to centre.
        close(&bar.sum_axis(Axis(0)), &Array1::zeros(f.d()), ROUNDING);
    }
}

#[test]
fn the_ridge_adjoint_matches_differences_on_both_sides_of_n_equals_d() {
    for f in subsets() {
        let (parts, fitted) = (Ridge::of(&f, 0.7), ridge(&f, 0.7));
        let bars = random_bars(SEED.named("bars"), &fitted.head);
        let rows = parts.centred_bar(&parts.y(&bars)) - &(parts.w.dot(&bars.b) / f.n() as f64);
        let library = fitted.adjoint(&bars.w, &bars.b).unwrap();
        close(&library, &rows, ROUNDING);
        let linear = |z: &Array2<f64>| {
            let head = ridge(&moved(&f, z), 0.7).head;
            inner(&head.w, &bars.w) + head.b.dot(&bars.b)
        };
        close(&library, &differences(&f.z, STEP, linear), DIFFERENCES);
        // Through a loss that is not linear in the head as well.
        let batch = groups(SEED.named("batch"), 3, 5, f.d(), 1.0);
        let bars = entropy_bars(&fitted.head, &batch);
        let loss = |z: &Array2<f64>| entropy(&ridge(&moved(&f, z), 0.7).head, &batch);
        close(&fitted.adjoint(&bars.w, &bars.b).unwrap(), &differences(&f.z, STEP, loss), DIFFERENCES);
    }
}

#[test]
fn moving_and_scaling_all_rows_check_a_ridge_adjoint() {
    for f in subsets() {
        let (parts, fitted) = (Ridge::of(&f, 0.7), ridge(&f, 0.7));
        let bars = random_bars(SEED.named("bars"), &fitted.head);
        let z_bar = fitted.adjoint(&bars.w, &bars.b).unwrap();
        close(&z_bar.sum_axis(Axis(0)), &-parts.w.dot(&bars.b), ROUNDING);
        let weight_bar = -inner(&parts.y(&bars), &parts.w);
        close(&[inner(&z_bar, &f.z) + 2.0 * 0.7 * weight_bar], &[-inner(&bars.w, &parts.w)], ROUNDING);
        let linear = |weight: &Array2<f64>| {
            let head = ridge(&f, weight[[0, 0]]).head;
            inner(&head.w, &bars.w) + head.b.dot(&bars.b)
        };
        close(&[weight_bar], &differences(&array![[0.7]], STEP, linear), DIFFERENCES);
    }
}

#[test]
fn woodbury_replaces_the_inverse_of_d_features_by_one_of_n_rows() {
    for f in subsets() {
        let Ridge { zc, m, k, .. } = Ridge::of(&f, 0.7);
        let identity = Array2::<f64>::eye(f.d());
        let right = (&identity - &zc.t().dot(&divide(&k, &zc))) / 0.7;
        close(&divide(&m, &identity), &right, ROUNDING);
    }
}

#[test]
fn a_constant_in_every_entry_cures_the_dual_matrix() {
    for f in subsets() {
        let Ridge { zc, ec, k, .. } = Ridge::of(&f, 0.7);
        for level in [0.1, 5.0] {
            close(&divide(&(&k + level), &ec), &divide(&k, &ec), ROUNDING);
            close(&divide(&(&k + level), &zc), &divide(&k, &zc), ROUNDING);
        }
    }
    // Few rows and no weight: K has no inverse, and the cured one gives the head of least norm.
    let f = &subsets()[2];
    let (zc, ec) = (centred(&f.z), centred(&f.one_hot()));
    let k = zc.dot(&zc.t());
    assert!(Cholesky::new(&k).is_err());
    let w = zc.t().dot(&divide(&(k + 1.0), &ec));
    for (w, e) in w.columns().into_iter().zip(ec.columns()) {
        close(w, &shortest_solution(&zc, &e.to_vec()).unwrap().0, ROUNDING);
    }
}

/// W = Zcᵀ A, b, and Z̄ = A (W̄ₜ − Zcᵀ B)ᵀ − B Wᵀ − 1 (W b̄)ᵀ / n with A = K⁻¹ Ec and B = K⁻¹ Zc W̄ₜ.
fn dual(f: &Features, z: &Array2<f64>, weight: f64, bars: &Bars) -> (LinearHead, Array2<f64>) {
    let (zc, ec, centre) = (centred(z), centred(&f.one_hot()), mean(z));
    // A one in every entry keeps K away from singular.
    let factor = Cholesky::new(&(shifted(zc.dot(&zc.t()), weight) + 1.0)).unwrap();
    let a = factor.solve_matrix(&ec).unwrap();
    let w = zc.t().dot(&a);
    let total = &bars.w - &outer(&centre, &bars.b);
    let b = factor.solve_matrix(&zc.dot(&total)).unwrap();
    let rows = a.dot(&(&total - &zc.t().dot(&b)).t()) - b.dot(&w.t());
    let z_bar = rows - &(w.dot(&bars.b) / f.n() as f64);
    (LinearHead { b: mean(&f.one_hot()) - w.t().dot(&centre), w }, z_bar)
}

#[test]
fn the_dual_adjoint_divides_by_no_weight() {
    for f in subsets() {
        let fitted = ridge(&f, 0.7);
        let bars = random_bars(SEED.named("bars"), &fitted.head);
        close(&dual(&f, &f.z, 0.7, &bars).1, &fitted.adjoint(&bars.w, &bars.b).unwrap(), ROUNDING);
    }
    // Where heads interpolate it has a limit, which is the gradient of the head without a weight.
    let f = &subsets()[2];
    let bars = random_bars(SEED.named("bars"), &ridge(f, 1.0).head);
    let limit = dual(f, &f.z, 0.0, &bars).1;
    // The weight over a squared singular value above 0.05.
    close(&dual(f, &f.z, 1e-10, &bars).1, &limit, 1e-8);
    let linear = |z: &Array2<f64>| {
        let head = dual(f, z, 0.0, &bars).0;
        inner(&head.w, &bars.w) + head.b.dot(&bars.b)
    };
    close(&limit, &differences(&f.z, STEP, linear), DIFFERENCES);
}

// Envelopes.

#[test]
fn the_optimum_of_a_ridge_fit_needs_no_adjoint() {
    for f in subsets() {
        let (parts, fitted) = (Ridge::of(&f, 0.7), ridge(&f, 0.7));
        let value = |z: &Array2<f64>| {
            let (f, head) = (moved(&f, z), ridge(&moved(&f, z), 0.7).head);
            f.n() as f64 * squared(&head, &f) + 0.7 * inner(&head.w, &head.w)
        };
        close(&[value(&f.z)], &[inner(&parts.ec, &parts.r)], ROUNDING);
        close(&(-2.0 * parts.r.dot(&parts.w.t())), &differences(&f.z, STEP, value), DIFFERENCES);
        // The objective's own derivatives in the head vanish, so the adjoint has nothing to carry.
        let n = f.n() as f64;
        let bars = squared_bars(&fitted.head, &f);
        let (w_bar, b_bar) = (n * &bars.w + 2.0 * 0.7 * &fitted.head.w, n * &bars.b);
        close(&w_bar, &Array2::zeros(w_bar.dim()), ROUNDING);
        close(&b_bar, &Array1::zeros(3), ROUNDING);
    }
}

#[test]
fn on_its_own_subset_fixed_descends_the_penalised_optimum() {
    for f in subsets() {
        let (parts, fitted, n) = (Ridge::of(&f, 0.7), ridge(&f, 0.7), f.n() as f64);
        let bars = squared_bars(&fitted.head, &f);
        let optimum = |z: &Array2<f64>| {
            let Ridge { ec, r, .. } = Ridge::of(&moved(&f, z), 0.7);
            inner(&ec, &r) / n
        };
        close(&bars.z, &differences(&f.z, STEP, optimum), DIFFERENCES);
        close(&bars.w, &(-2.0 * 0.7 / n * &parts.w), ROUNDING);
        close(&bars.b, &Array1::zeros(3), ROUNDING);
        let through = &bars.z + &fitted.adjoint(&bars.w, &bars.b).unwrap();
        let loss = |z: &Array2<f64>| squared(&ridge(&moved(&f, z), 0.7).head, &moved(&f, z));
        close(&through, &differences(&f.z, STEP, loss), DIFFERENCES);
        assert!((through - &bars.z).iter().any(|v| v.abs() > 1e-3));
    }
}

// The softmax head.

const PENALTY: f64 = 0.3;

fn softmax_fit(f: &Features) -> Fitted {
    WeakFit::SoftmaxSum(PENALTY).fit(f).unwrap()
}

/// Rows (z, 1).
fn augmented(z: &Array2<f64>) -> Array2<f64> {
    concatenate![Axis(1), z.clone(), Array2::ones((z.nrows(), 1))]
}

/// W over b.
fn stacked(w: &Array2<f64>, b: &Array1<f64>) -> Array2<f64> {
    concatenate![Axis(0), w.clone(), b.clone().insert_axis(Axis(0))]
}

fn head_of(both: &Array2<f64>) -> LinearHead {
    let d = both.nrows() - 1;
    LinearHead { w: both.slice(s![..d, ..]).to_owned(), b: both.row(d).to_owned() }
}

/// Σ cross entropy + λ‖W‖² at W over b.
fn objective(f: &Features, both: &Array2<f64>) -> f64 {
    let head = head_of(both);
    f.n() as f64 * entropy(&head, f) + PENALTY * inner(&head.w, &head.w)
}

fn gradient(f: &Features, both: &Array2<f64>) -> Array2<f64> {
    let head = head_of(both);
    let misses = softmax(&head.scores(&f.z).unwrap()) - f.one_hot();
    stacked(&(f.z.t().dot(&misses) + 2.0 * PENALTY * &head.w), &misses.sum_axis(Axis(0)))
}

/// S(N) = P ∘ N − P ∘ rowsum(P ∘ N): the derivative of the row softmax along N.
fn slope(p: &Array2<f64>, n: &Array2<f64>) -> Array2<f64> {
    let pn = p * n;
    let sums = pn.sum_axis(Axis(1)).insert_axis(Axis(1));
    &pn - &(p * &sums)
}

/// The Hessian applied to a direction.
fn curvature(f: &Features, p: &Array2<f64>, direction: &Array2<f64>) -> Array2<f64> {
    let rows = augmented(&f.z);
    let mut penalty = 2.0 * PENALTY * direction;
    penalty.row_mut(f.d()).fill(0.0);
    rows.t().dot(&slope(p, &rows.dot(direction))) + penalty
}

/// The Hessian as a matrix, plus u uᵀ for the gauge direction u.
fn gauged(f: &Features, p: &Array2<f64>) -> Array2<f64> {
    let (d, classes) = (f.d(), f.classes);
    let size = (d + 1) * classes;
    let mut h = Array2::zeros((size, size));
    for k in 0..size {
        let mut unit = Array2::zeros((d + 1, classes));
        unit[[k / classes, k % classes]] = 1.0;
        h.column_mut(k).assign(&curvature(f, p, &unit).flatten());
    }
    h.slice_mut(s![d * classes.., d * classes..]).iter_mut().for_each(|v| *v += 1.0);
    h
}

fn solve_gauged(f: &Features, p: &Array2<f64>, right: &Array2<f64>) -> Array2<f64> {
    let x = solve(&gauged(f, p), &right.flatten().to_owned()).unwrap();
    x.into_shape_with_order(right.dim()).unwrap()
}

/// The optimum by Newton's method with the gauged Hessian, to the last digits.
fn optimum(f: &Features) -> Array2<f64> {
    let mut both = Array2::zeros((f.d() + 1, f.classes));
    for _ in 0..50 {
        let p = softmax(&head_of(&both).scores(&f.z).unwrap());
        let step = solve_gauged(f, &p, &gradient(f, &both));
        // Near the optimum the objective no longer changes, and full steps are right.
        let far = step.iter().any(|v| v.abs() > 1e-3);
        let mut length = 1.0;
        while far && length > 1e-6 && objective(f, &(&both - &(length * &step))) > objective(f, &both) {
            length /= 2.0;
        }
        both = both - length * &step;
        if step.iter().all(|v| v.abs() < 1e-13) {
            break;
        }
    }
    close(&gradient(f, &both), &Array2::zeros(both.dim()), 1e-12);
    both
}

/// Z̄ = −[(P − E) Yᵀ + S(M) Wᵀ], from Y over its bias row.
fn softmax_adjoint(f: &Features, both: &Array2<f64>, y: &Array2<f64>) -> Array2<f64> {
    let head = head_of(both);
    let p = softmax(&head.scores(&f.z).unwrap());
    let m = augmented(&f.z).dot(y);
    -((&p - &f.one_hot()).dot(&y.slice(s![..f.d(), ..]).t()) + slope(&p, &m).dot(&head.w.t()))
}

#[test]
fn the_softmax_objective_has_this_gradient_and_an_optimum_that_sums_to_zero() {
    for f in subsets() {
        let at = 0.5 * normals(SEED.named("at"), f.d() + 1, 3);
        close(&gradient(&f, &at), &differences(&at, STEP, |at| objective(&f, at)), 10.0 * DIFFERENCES);
        let head = softmax_fit(&f).head;
        close(&gradient(&f, &stacked(&head.w, &head.b)), &Array2::zeros((f.d() + 1, 3)), 1e-8);
        close(&head.w.sum_axis(Axis(1)), &Array1::zeros(f.d()), 1e-8);
        // The other solver finds the same head, up to a constant in all biases.
        let by_hand = head_of(&optimum(&f));
        close(&head.w, &by_hand.w, NEWTON_DIFFERENCES);
        close(
            &(&head.b - head.b.mean().unwrap()),
            &(&by_hand.b - by_hand.b.mean().unwrap()),
            NEWTON_DIFFERENCES,
        );
    }
}

#[test]
fn the_softmax_hessian_vanishes_along_the_gauge_and_nowhere_else() {
    for f in subsets() {
        let at = 0.5 * normals(SEED.named("at"), f.d() + 1, 3);
        let p = softmax(&head_of(&at).scores(&f.z).unwrap());
        let direction = normals(SEED.named("direction"), f.d() + 1, 3);
        let moved = |t: f64| gradient(&f, &(&at + &(t * &direction)));
        let applied = curvature(&f, &p, &direction);
        close(&applied, &((moved(STEP) - moved(-STEP)) / (2.0 * STEP)), DIFFERENCES);
        // The quadratic form is a sum of variances and the penalty.
        let n = augmented(&f.z).dot(&direction);
        let mean = (&p * &n).sum_axis(Axis(1)).insert_axis(Axis(1));
        let variances = (&p * &(&n - &mean).mapv(|v| v * v)).sum();
        let w = direction.slice(s![..f.d(), ..]);
        close(&[inner(&direction, &applied)], &[variances + 2.0 * PENALTY * (&w * &w).sum()], ROUNDING);
        let mut gauge = Array2::zeros((f.d() + 1, 3));
        gauge.row_mut(f.d()).fill(1.0);
        close(&curvature(&f, &p, &gauge), &Array2::zeros(gauge.dim()), ROUNDING);
        // With u uᵀ the matrix is positive definite, and solves the original system without a trace of u.
        let factor = Cholesky::new(&gauged(&f, &p)).unwrap();
        assert!(factor.least_pivot() > 1e-2, "{}", factor.least_pivot());
        let right = &direction - &(&gauge * direction.row(f.d()).mean().unwrap());
        let x = solve_gauged(&f, &p, &right);
        close(&curvature(&f, &p, &x), &right, ROUNDING);
        close(&[x.row(f.d()).sum()], &[0.0], ROUNDING);
    }
}

#[test]
fn a_softmax_head_moves_by_its_differential() {
    for f in subsets() {
        let both = optimum(&f);
        let head = head_of(&both);
        let p = softmax(&head.scores(&f.z).unwrap());
        let dz = normals(SEED.named("dz"), f.n(), f.d());
        let at = |t: f64| optimum(&moved(&f, &(&f.z + &(t * &dz))));
        let dboth = (at(STEP) - at(-STEP)) / (2.0 * STEP);
        let mut direct = augmented(&f.z).t().dot(&slope(&p, &dz.dot(&head.w)));
        let mut top = direct.slice_mut(s![..f.d(), ..]);
        top += &dz.t().dot(&(&p - &f.one_hot()));
        close(&curvature(&f, &p, &dboth), &-direct, DIFFERENCES);
    }
}

#[test]
fn the_softmax_adjoint_matches_differences_on_both_sides_of_n_equals_d() {
    for f in subsets() {
        let batch = groups(SEED.named("batch"), 3, 5, f.d(), 1.0);
        let both = optimum(&f);
        let head = head_of(&both);
        let p = softmax(&head.scores(&f.z).unwrap());
        let bars = entropy_bars(&head, &batch);
        close(&[bars.b.sum()], &[0.0], ROUNDING);
        let y = solve_gauged(&f, &p, &stacked(&bars.w, &bars.b));
        let z_bar = softmax_adjoint(&f, &both, &y);
        let exact = |z: &Array2<f64>| entropy(&head_of(&optimum(&moved(&f, z))), &batch);
        close(&z_bar, &differences(&f.z, STEP, exact), DIFFERENCES);
        close(&z_bar.sum_axis(Axis(0)), &-head.w.dot(&bars.b), ROUNDING);
        // The library's, against both.
        let fitted = softmax_fit(&f);
        let bars = entropy_bars(&fitted.head, &batch);
        let library = fitted.adjoint(&bars.w, &bars.b).unwrap();
        close(&library, &z_bar, NEWTON_DIFFERENCES);
        let loss = |z: &Array2<f64>| entropy(&softmax_fit(&moved(&f, z)).head, &batch);
        close(&library, &differences(&f.z, NEWTON_STEP, loss), NEWTON_DIFFERENCES);
        assert!(library.iter().any(|v| v.abs() > 1e-2));
    }
}

#[test]
fn the_optimum_of_a_softmax_fit_needs_no_adjoint() {
    for f in subsets() {
        let head = head_of(&optimum(&f));
        let misses = softmax(&head.scores(&f.z).unwrap()) - f.one_hot();
        let value = |z: &Array2<f64>| objective(&moved(&f, z), &optimum(&moved(&f, z)));
        close(&misses.dot(&head.w.t()), &differences(&f.z, STEP, value), DIFFERENCES);
    }
}

/// Orthonormal columns that span the rows of Z, by Gram and Schmidt, twice.
fn basis(z: &Array2<f64>) -> Array2<f64> {
    let mut q: Vec<Array1<f64>> = Vec::new();
    for row in z.rows().into_iter().take(z.ncols()) {
        let mut v = row.to_owned();
        for _ in 0..2 {
            q.iter().for_each(|q| v = &v - &(q * q.dot(&v)));
        }
        let length = v.dot(&v).sqrt();
        assert!(length > 1e-6, "rows in general position");
        q.push(v / length);
    }
    Array2::from_shape_fn((z.ncols(), q.len()), |(j, k)| q[k][j])
}

#[test]
fn the_optimal_head_lies_in_the_span_of_the_rows() {
    for f in subsets() {
        let q = basis(&f.z);
        assert_eq!(q.ncols(), f.n().min(f.d()));
        let reduced = moved(&f, &f.z.dot(&q));
        let head = softmax_fit(&f).head;
        let misses = softmax(&head.scores(&f.z).unwrap()) - f.one_hot();
        close(&head.w, &(f.z.t().dot(&misses) / (-2.0 * PENALTY)), NEWTON_DIFFERENCES);
        let small = softmax_fit(&reduced).head;
        close(&q.dot(&small.w), &head.w, NEWTON_DIFFERENCES);
        // Any convex loss will do: ridge heads obey it too.
        close(&q.dot(&ridge(&reduced, 0.7).head.w), &ridge(&f, 0.7).head.w, ROUNDING);
        let (exact, exact_small) = (head_of(&optimum(&f)), head_of(&optimum(&reduced)));
        close(&q.dot(&exact_small.w), &exact.w, ROUNDING);
        close(&exact_small.b, &exact.b, ROUNDING);
    }
}

#[test]
fn the_adjoint_solve_reduces_to_the_span_of_the_rows_too() {
    for f in subsets() {
        let d = f.d();
        let both = optimum(&f);
        let head = head_of(&both);
        let p = softmax(&head.scores(&f.z).unwrap());
        let mut bars = random_bars(SEED.named("bars"), &head);
        bars.b -= bars.b.mean().unwrap();
        let full = solve_gauged(&f, &p, &stacked(&bars.w, &bars.b));
        let q = basis(&f.z);
        let reduced = moved(&f, &f.z.dot(&q));
        let small = solve_gauged(&reduced, &p, &stacked(&q.t().dot(&bars.w), &bars.b));
        let inside = q.dot(&small.slice(s![..q.ncols(), ..]));
        let outside = &bars.w - &q.dot(&q.t().dot(&bars.w));
        close(full.slice(s![..d, ..]), &(inside + &outside / (2.0 * PENALTY)), ROUNDING);
        close(full.row(d), small.row(q.ncols()), ROUNDING);
        close(&augmented(&f.z).dot(&full), &augmented(&reduced.z).dot(&small), ROUNDING);
        assert_eq!(
            outside.iter().any(|v| v.abs() > 1e-2),
            f.n() < d,
            "something lies outside when rows are few"
        );
    }
}

// The surrogate.

#[test]
fn a_linear_surrogate_has_the_total_gradient() {
    // A backbone z = tanh(x A) with parameters A, on a subset and a batch of inputs.
    let (subset, batch) =
        (groups(SEED.named("subset"), 3, 2, 4, 1.0), groups(SEED.named("batch"), 3, 5, 4, 1.0));
    let a = 0.5 * normals(SEED.named("parameters"), 4, 5);
    let features = |f: &Features, a: &Array2<f64>| moved(f, &f.z.dot(a).mapv(f64::tanh));
    for fit in [WeakFit::RidgeSum(0.7), WeakFit::SoftmaxSum(PENALTY)] {
        let whole =
            |a: &Array2<f64>| entropy(&fit.fit(&features(&subset, a)).unwrap().head, &features(&batch, a));
        // Constants, from one fit and one adjoint.
        let fitted = fit.fit(&features(&subset, &a)).unwrap();
        let bars = entropy_bars(&fitted.head, &features(&batch, &a));
        let z_bar = fitted.adjoint(&bars.w, &bars.b).unwrap();
        let surrogate = |a: &Array2<f64>| {
            entropy(&fitted.head, &features(&batch, a)) + inner(&z_bar, &features(&subset, a).z)
        };
        let total = differences(&a, NEWTON_STEP, whole);
        close(&differences(&a, NEWTON_STEP, surrogate), &total, NEWTON_DIFFERENCES);
        let fixed = differences(&a, NEWTON_STEP, |a| entropy(&fitted.head, &features(&batch, a)));
        assert!((&fixed - &total).iter().any(|v| v.abs() > 1e-2));
        // Its value means nothing.
        assert!((surrogate(&a) - whole(&a)).abs() > 1e-3);
    }
}
