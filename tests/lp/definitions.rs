//! The penalty, its smoothing and the vertices of a program, written out from their definitions. The chapters' tests hold
//! the library and the book against these, so nothing here calls a solver.

use lastlayer::lp::{Lp, Matrix};
use ndarray::Array2;

use super::Seed;

/// min c'z subject to A z ≤ b, as lists.
#[derive(Clone, Debug)]
pub struct Program {
    pub a: Vec<Vec<f64>>,
    pub b: Vec<f64>,
    pub c: Vec<f64>,
}

/// An optimal vertex: the point, its dual and the rows that determine it.
pub struct Vertex {
    pub z: Vec<f64>,
    pub v: Vec<f64>,
    pub active: Vec<usize>,
}

pub fn program<const N: usize>(a: &[[f64; N]], b: &[f64], c: &[f64]) -> Program {
    Program { a: a.iter().map(|row| row.to_vec()).collect(), b: b.to_vec(), c: c.to_vec() }
}

/// Three rows, one of them with a slack of 0.01.
pub fn three_rows() -> Program {
    program(&[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], &[1.0, 1.0, 2.01], &[-1.0, -4.0])
}

/// The program on which full shifted steps run in a circle of three.
pub fn first() -> Program {
    program(&[[-1.0, 3.0], [3.0, -3.0], [-1.0, 2.0]], &[1.0; 3], &[-2.0, 1.0])
}

/// The program on which short steps run in circles too.
pub fn second() -> Program {
    program(&[[0.0, 3.0], [5.0, -5.0], [-4.0, 4.0], [5.0, -3.0]], &[1.0, 3.0, 1.0, 1.0], &[-11.0, -2.0])
}

/// A random program with an interior point and an interior dual point, hence with bounded level sets.
pub fn random(n: usize, m: usize, seed: Seed) -> (Program, Vec<f64>) {
    let normal = |name: &str, i: usize| seed.named(name).irwin_hall(12 * i as u64);
    let a: Vec<Vec<f64>> = (0..m).map(|i| (0..n).map(|j| normal("A", i * n + j)).collect()).collect();
    let inside: Vec<f64> = (0..n).map(|j| normal("z", j)).collect();
    let b =
        a.iter().enumerate().map(|(i, row)| dot(row, &inside) + seed.named("b").uniform(i as u64)).collect();
    let u: Vec<f64> = (0..m).map(|i| seed.named("u").uniform(i as u64)).collect();
    let mut program = Program { a, b, c: Vec::new() };
    program.c = program.pull(&u).iter().map(|c| -c).collect();
    (program, u)
}

/// A random point (n), normal with this size.
pub fn point(n: usize, size: f64, seed: Seed) -> Vec<f64> {
    (0..n).map(|j| size * seed.irwin_hall(12 * j as u64)).collect()
}

pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

pub fn largest(a: &[f64]) -> f64 {
    a.iter().fold(0.0, |most, v| most.max(v.abs()))
}

/// a + t d.
pub fn along(a: &[f64], t: f64, d: &[f64]) -> Vec<f64> {
    a.iter().zip(d).map(|(a, d)| a + t * d).collect()
}

pub fn minus(a: &[f64], b: &[f64]) -> Vec<f64> {
    along(a, -1.0, b)
}

/// M x.
pub fn times(m: &[Vec<f64>], x: &[f64]) -> Vec<f64> {
    m.iter().map(|row| dot(row, x)).collect()
}

pub fn transposed(m: &[Vec<f64>]) -> Vec<Vec<f64>> {
    (0..m[0].len()).map(|j| m.iter().map(|row| row[j]).collect()).collect()
}

/// Solution of M x = rhs by elimination with row exchanges; none if M is singular to working precision.
pub fn solve(m: &[Vec<f64>], rhs: &[f64]) -> Option<Vec<f64>> {
    let n = rhs.len();
    let (mut m, mut x) = (m.to_vec(), rhs.to_vec());
    let most = m.iter().map(|row| largest(row)).fold(0.0, f64::max);
    for k in 0..n {
        let pivot = (k..n).max_by(|i, j| m[*i][k].abs().total_cmp(&m[*j][k].abs()))?;
        m.swap(k, pivot);
        x.swap(k, pivot);
        if m[k][k].abs() <= 1e-13 * most {
            return None;
        }
        for i in k + 1..n {
            let factor = m[i][k] / m[k][k];
            let row = along(&m[i], -factor, &m[k]);
            m[i] = row;
            x[i] -= factor * x[k];
        }
    }
    for k in (0..n).rev() {
        x[k] = (x[k] - dot(&m[k][k + 1..], &x[k + 1..])) / m[k][k];
    }
    Some(x)
}

impl Program {
    pub fn n(&self) -> usize {
        self.c.len()
    }

    pub fn m(&self) -> usize {
        self.b.len()
    }

    pub fn lp(&self) -> Lp {
        let values = self.a.iter().flatten().copied().collect();
        let a = Array2::from_shape_vec((self.m(), self.n()), values).unwrap();
        Lp::new(Matrix::Dense(a), &self.b, &self.c).unwrap()
    }

    /// A y − b.
    pub fn residual(&self, y: &[f64]) -> Vec<f64> {
        minus(&times(&self.a, y), &self.b)
    }

    /// (A y − b)₊.
    pub fn excess(&self, y: &[f64]) -> Vec<f64> {
        self.residual(y).iter().map(|r| r.max(0.0)).collect()
    }

    /// Aᵀ v.
    pub fn pull(&self, v: &[f64]) -> Vec<f64> {
        times(&transposed(&self.a), v)
    }

    /// g(y) = ½|(A y − b)₊|² + ε c'y.
    pub fn penalty(&self, epsilon: f64, y: &[f64]) -> f64 {
        let r = self.excess(y);
        0.5 * dot(&r, &r) + epsilon * dot(&self.c, y)
    }

    /// ∇g(y).
    pub fn slope(&self, epsilon: f64, y: &[f64]) -> Vec<f64> {
        along(&self.pull(&self.excess(y)), epsilon, &self.c)
    }

    /// Σ w_j a_j a_jᵀ + δI.
    pub fn normal(&self, weights: &[f64], delta: f64) -> Vec<Vec<f64>> {
        let entry = |i: usize, j: usize| {
            let sum: f64 = self.a.iter().zip(weights).map(|(row, w)| w * row[i] * row[j]).sum();
            if i == j { sum + delta } else { sum }
        };
        (0..self.n()).map(|i| (0..self.n()).map(|j| entry(i, j)).collect()).collect()
    }

    /// H + δI at a point, H from the rows that are violated there.
    pub fn hessian(&self, delta: f64, y: &[f64]) -> Vec<Vec<f64>> {
        let step: Vec<f64> = self.residual(y).iter().map(|r| f64::from(u8::from(*r > 0.0))).collect();
        self.normal(&step, delta)
    }

    /// |A|², the largest eigenvalue of AᵀA.
    pub fn lipschitz(&self) -> f64 {
        let whole = self.normal(&vec![1.0; self.m()], 0.0);
        let mut x: Vec<f64> = (0..self.n()).map(|j| 1.0 + 0.1 * j as f64).collect();
        for _ in 0..2000 {
            let next = times(&whole, &x);
            let size = norm(&next);
            x = next.iter().map(|v| v / size).collect();
        }
        dot(&x, &times(&whole, &x))
    }

    /// The rows J as a matrix.
    pub fn rows(&self, j: &[usize]) -> Vec<Vec<f64>> {
        j.iter().map(|j| self.a[*j].clone()).collect()
    }

    /// Each basis with a dual feasible v, whether its z is feasible or not.
    pub fn dual_bases(&self) -> Vec<Vertex> {
        let (n, m) = (self.n(), self.m());
        let mut found = Vec::new();
        for set in 0u32..1 << m {
            let active: Vec<usize> = (0..m).filter(|j| set >> j & 1 == 1).collect();
            if active.len() != n {
                continue;
            }
            let rows = self.rows(&active);
            let b: Vec<f64> = active.iter().map(|j| self.b[*j]).collect();
            let negative: Vec<f64> = self.c.iter().map(|c| -c).collect();
            let Some((z, forces)) = solve(&rows, &b).zip(solve(&transposed(&rows), &negative)) else {
                continue;
            };
            if forces.iter().all(|v| *v >= 0.0) {
                let mut v = vec![0.0; m];
                active.iter().zip(&forces).for_each(|(j, force)| v[*j] = *force);
                found.push(Vertex { z, v, active });
            }
        }
        found
    }

    /// The optimal vertex, by trying all bases.
    pub fn vertex(&self) -> Vertex {
        let feasible = |vertex: &Vertex| self.residual(&vertex.z).iter().all(|r| *r <= 1e-9);
        self.dual_bases().into_iter().find(feasible).unwrap()
    }

    /// The direction of the path and where it ends, by the ratio test.
    pub fn path(&self, vertex: &Vertex) -> (Vec<f64>, f64) {
        let forces: Vec<f64> = vertex.active.iter().map(|j| vertex.v[*j]).collect();
        let w = solve(&self.rows(&vertex.active), &forces).unwrap();
        let slack = self.residual(&vertex.z);
        let grows = times(&self.a, &w);
        let ratios = (0..self.m())
            .filter(|k| !vertex.active.contains(k) && grows[*k] > 0.0)
            .map(|k| -slack[k] / grows[k]);
        let end = ratios.fold(f64::INFINITY, f64::min);
        (w, end)
    }
}
