//! Linear programs: the form that solvers take, and the form that people write.

use ndarray::{Array2, Axis, concatenate};

use super::matrix::Matrix;
use crate::error::{Error, Result, ensure_shape};

/// A linear program in canonical form, with equalities kept apart.
///
/// ```text
/// min cᵀz   subject to   A z ≤ b,   A_eq z = b_eq                       z free: signs are rows of A
/// max −bᵀv − b_eqᵀv_eq   subject to   Aᵀv + A_eqᵀv_eq = −c,   v ≥ 0
/// ```
/// Differs: the paper writes an equality as two inequalities, which leaves its multiplier without a unique value and
/// breaks the recovery of z. Checked by `tests/lp/program.rs`.
/// Book: `lp/metrics.md#eq-lp-metrics-form`.
///
/// ```
/// use lastlayer::prelude::*;
/// let program = Lp::new(Matrix::dense(ndarray::array![[1.0]])?, &[3.0], &[-1.0])?; // min −z, z ≤ 3
/// assert_eq!(program.objective(&[2.0])?, -2.0);
/// assert_eq!(program.excess(&[5.0])?, [2.0]); // breaks the bound by 2
/// // A metric as a program: its optimum is the mean hinge over pairs.
/// let auc = Lp::auc([2.0, 1.0, 0.0], [1, 0, 0], 1.5)?;
/// assert_eq!((auc.n(), auc.m()), (2, 4));
/// assert!((NewtonLp::default().solve(&auc)?.value - 0.25).abs() < 1e-9);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Lp {
    /// (m, n)
    pub A: Matrix,
    /// (m)
    pub b: Vec<f64>,
    /// (n)
    pub c: Vec<f64>,
    /// (m_eq, n)
    pub A_eq: Matrix,
    /// (m_eq)
    pub b_eq: Vec<f64>,
}

impl Lp {
    /// min cᵀz subject to A z ≤ b.
    ///
    /// Fails: as [`check`](Lp::check).
    pub fn new(A: Matrix, b: &[f64], c: &[f64]) -> Result<Lp> {
        Lp { A, b: b.to_vec(), c: c.to_vec(), A_eq: Matrix::empty(c.len()), b_eq: Vec::new() }.checked()
    }

    /// min cᵀz subject to these rows and A_eq z = b_eq.
    ///
    /// Fails: as [`check`](Lp::check).
    pub fn with_equalities(self, A_eq: Matrix, b_eq: &[f64]) -> Result<Lp> {
        Lp { A_eq, b_eq: b_eq.to_vec(), ..self }.checked()
    }

    fn checked(self) -> Result<Lp> {
        self.check()?;
        Ok(self)
    }

    /// Whether shapes agree and every number is finite; every solver asks before it works.
    ///
    /// Fails: `Shape` if the parts do not fit or there is no variable, `Data` for the first number that is not finite.
    pub fn check(&self) -> Result<()> {
        if self.c.is_empty() {
            return Err(Error::shape("c of a linear program", "at least one variable", 0));
        }
        ensure_shape("columns of A (one per entry of c)", self.n(), self.A.columns())?;
        ensure_shape("rows of A (one per entry of b)", self.b.len(), self.A.rows())?;
        ensure_shape("columns of A_eq (one per entry of c)", self.n(), self.A_eq.columns())?;
        ensure_shape("rows of A_eq (one per entry of b_eq)", self.b_eq.len(), self.A_eq.rows())?;
        for (name, values) in [("b", &self.b), ("c", &self.c), ("b_eq", &self.b_eq)] {
            if let Some(i) = values.iter().position(|v| !v.is_finite()) {
                let why = format!("entry {i} is {}; leave out rows without a bound", values[i]);
                return Err(Error::data(name, why));
            }
        }
        for (name, matrix) in [("A", &self.A), ("A_eq", &self.A_eq)] {
            if let Some((i, j, v)) = matrix.first_bad() {
                return Err(Error::data(
                    name,
                    format!("row {i}, column {j} is {v}; every entry must be finite"),
                ));
            }
        }
        Ok(())
    }

    /// Number of variables.
    pub fn n(&self) -> usize {
        self.c.len()
    }

    /// Number of inequalities.
    pub fn m(&self) -> usize {
        self.b.len()
    }

    /// cᵀz.
    ///
    /// Fails: `Shape` unless z has an entry per variable.
    pub fn objective(&self, z: &[f64]) -> Result<f64> {
        ensure_shape("z of a linear program", self.n(), z.len())?;
        Ok(product(&self.c, z))
    }

    /// A z − b: positive where an inequality is broken.
    ///
    /// Fails: `Shape` unless z has an entry per variable.
    pub fn excess(&self, z: &[f64]) -> Result<Vec<f64>> {
        ensure_shape("z of a linear program", self.n(), z.len())?;
        Ok(difference(self.A.times(z), &self.b))
    }

    /// A_eq z − b_eq.
    ///
    /// Fails: `Shape` unless z has an entry per variable.
    pub fn excess_eq(&self, z: &[f64]) -> Result<Vec<f64>> {
        ensure_shape("z of a linear program", self.n(), z.len())?;
        Ok(difference(self.A_eq.times(z), &self.b_eq))
    }

    /// Where the objective falls, as a program whose optimum is the steepest way along which no row stops it.
    pub(super) fn cone(&self) -> Lp {
        let (m, n) = (self.m(), self.n());
        let b = (0..m + 2 * n).map(|i| if i < m { 0.0 } else { 1.0 }).collect();
        let b_eq = vec![0.0; self.b_eq.len()];
        Lp { A: self.A.with_box(), b, c: self.c.clone(), A_eq: self.A_eq.clone(), b_eq }
    }

    /// Shows the size and the form of the matrix.
    pub fn evcxr_display(&self) {
        let form = match &self.A {
            Matrix::Dense(_) => "dense".to_string(),
            Matrix::Structured(a) => format!("{} full rows and columns", a.border()),
        };
        let (n, m, m_eq) = (self.n(), self.m(), self.b_eq.len());
        let text = format!("min c'z over {n} variables, {m} inequalities ({form}), {m_eq} equalities");
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

/// A linear program as people write it: two groups of variables that are not negative.
///
/// ```text
/// max gᵀu + hᵀv   subject to   E u + F v ≤ p,   B u + G v = q,   u ≥ 0,   v ≥ 0          [Meng et al., §3]
/// ```
/// Any group of rows or columns may be empty. Differs: the printed block form is not conformable and loses u, v ≥ 0.
/// Checked by `tests/lp/program.rs::the_user_form_becomes_canonical`.
///
/// ```
/// use lastlayer::prelude::*;
/// let form = lp::UserForm::maximise(&[1.0, 1.0], ndarray::array![[1.0, 1.0]], &[1.0]);
/// let program = form.canonical()?;
/// assert_eq!((program.n(), program.m()), (2, 3)); // the signs are rows too
/// assert_eq!(program.c, [-1.0, -1.0]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct UserForm {
    pub g: Vec<f64>,
    pub h: Vec<f64>,
    pub E: Array2<f64>,
    pub F: Array2<f64>,
    pub p: Vec<f64>,
    pub B: Array2<f64>,
    pub G: Array2<f64>,
    pub q: Vec<f64>,
}

impl UserForm {
    /// Only inequalities and variables that are not negative: max gᵀu subject to E u ≤ p, u ≥ 0.
    pub fn maximise(g: &[f64], E: Array2<f64>, p: &[f64]) -> UserForm {
        let (rows, none) = (p.len(), Array2::zeros((0, 0)));
        UserForm {
            g: g.to_vec(),
            h: Vec::new(),
            E,
            F: Array2::zeros((rows, 0)),
            p: p.to_vec(),
            B: Array2::zeros((0, g.len())),
            G: none,
            q: Vec::new(),
        }
    }

    /// z = (u, v), c = −(g, h), the signs as rows of A.
    ///
    /// ```text
    /// A = [E F; −I 0; 0 −I],   b = (p; 0; 0),   A_eq = [B G],   b_eq = q
    /// ```
    /// The optimum changes its sign. Fails: `Shape` if blocks do not fit, `Data` if a number is not finite.
    pub fn canonical(&self) -> Result<Lp> {
        let n = self.g.len() + self.h.len();
        let blocks = [
            ("E", &self.E, self.p.len(), self.g.len()),
            ("F", &self.F, self.p.len(), self.h.len()),
            ("B", &self.B, self.q.len(), self.g.len()),
            ("G", &self.G, self.q.len(), self.h.len()),
        ];
        for (name, block, rows, columns) in blocks {
            ensure_shape(&format!("block {name}"), &[rows, columns][..], block.shape())?;
        }
        let beside = |left: &Array2<f64>, right: &Array2<f64>| {
            concatenate(Axis(1), &[left.view(), right.view()])
                .map_err(|e| Error::shape("blocks", "rows that agree", e))
        };
        let (above, signs) = (beside(&self.E, &self.F)?, -Array2::<f64>::eye(n));
        let A = concatenate(Axis(0), &[above.view(), signs.view()])
            .map_err(|e| Error::shape("blocks", "columns that agree", e))?;
        let b: Vec<f64> = self.p.iter().copied().chain(std::iter::repeat_n(0.0, n)).collect();
        let c: Vec<f64> = self.g.iter().chain(&self.h).map(|v| -v).collect();
        let A_eq = Matrix::Dense(beside(&self.B, &self.G)?);
        Lp::new(Matrix::Dense(A), &b, &c)?.with_equalities(A_eq, &self.q)
    }

    /// Shows the sizes.
    pub fn evcxr_display(&self) {
        let text = format!(
            "max g'u + h'v over {} + {} variables ≥ 0, {} inequalities, {} equalities",
            self.g.len(),
            self.h.len(),
            self.p.len(),
            self.q.len()
        );
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

/// Σ aᵢbᵢ.
pub(super) fn product(a: &[f64], b: &[f64]) -> f64 {
    crate::linalg::dot(a, b)
}

/// a − b, in the memory of a.
pub(super) fn difference(mut a: Vec<f64>, b: &[f64]) -> Vec<f64> {
    a.iter_mut().zip(b).for_each(|(a, b)| *a -= b);
    a
}

/// √Σ aᵢ².
pub(super) fn length(a: &[f64]) -> f64 {
    product(a, a).sqrt()
}

/// max |aᵢ|, zero for none.
pub(super) fn largest(a: &[f64]) -> f64 {
    a.iter().fold(0.0, |most, v| most.max(v.abs()))
}
