//! A network small enough to differentiate by hand: z = tanh(x φ), and two linear heads with a bias.

use lastlayer::seed::Seed;

use super::{logistic, loss};

/// Inputs, two labels for each, and the sizes of a network.
#[derive(Clone)]
pub struct Task {
    pub x: Vec<Vec<f64>>,
    pub y_a: Vec<f64>,
    pub y_b: Vec<f64>,
    pub width: usize,
}

/// Trunk, row by row, and two heads, the bias last.
#[derive(Clone)]
pub struct Net {
    pub phi: Vec<f64>,
    pub a: Vec<f64>,
    pub b: Vec<f64>,
}

/// What each part of a network is given by one backward pass.
pub struct Gradient {
    pub phi: Vec<f64>,
    pub a: Vec<f64>,
    pub b: Vec<f64>,
}

impl Task {
    pub fn random(n: usize, inputs: usize, width: usize, seed: Seed) -> Task {
        let label = |name: &str| {
            let seed = seed.named(name);
            (0..n as u64).map(|i| f64::from(u8::from(seed.uniform(i) < 0.5))).collect()
        };
        let at = |i: usize, j: usize| seed.normal((i * inputs + j) as u64);
        let x = (0..n).map(|i| (0..inputs).map(|j| at(i, j)).collect()).collect();
        Task { x, y_a: label("a"), y_b: label("b"), width }
    }

    pub fn net(&self, seed: Seed) -> Net {
        let draw = |name: &str, n: usize| (0..n as u64).map(|i| seed.named(name).normal(i)).collect();
        let inputs = self.x[0].len();
        Net {
            phi: draw("phi", inputs * self.width),
            a: draw("a", self.width + 1),
            b: draw("b", self.width + 1),
        }
    }

    fn features(&self, phi: &[f64], x: &[f64]) -> Vec<f64> {
        let sum = |k: usize| x.iter().enumerate().map(|(j, x)| x * phi[j * self.width + k]).sum::<f64>();
        (0..self.width).map(|k| sum(k).tanh()).collect()
    }

    fn mean_loss(&self, phi: &[f64], head: &[f64], y: &[f64]) -> f64 {
        let each = self.x.iter().zip(y).map(|(x, y)| loss(score(head, &self.features(phi, x)), *y));
        each.sum::<f64>() / y.len() as f64
    }

    pub fn loss_a(&self, phi: &[f64], a: &[f64]) -> f64 {
        self.mean_loss(phi, a, &self.y_a)
    }

    pub fn loss_b(&self, phi: &[f64], b: &[f64]) -> f64 {
        self.mean_loss(phi, b, &self.y_b)
    }

    /// One backward pass of L_a(z) + L_b(R(z)), where R is the identity and multiplies gradients by −γ on their way back.
    pub fn backward(&self, net: &Net, gamma: f64) -> Gradient {
        let (n, k) = (self.x.len() as f64, self.width);
        let zeros = |v: &[f64]| vec![0.0; v.len()];
        let mut g = Gradient { phi: zeros(&net.phi), a: zeros(&net.a), b: zeros(&net.b) };
        for (i, x) in self.x.iter().enumerate() {
            let z = self.features(&net.phi, x);
            let c_a = (logistic(score(&net.a, &z)) - self.y_a[i]) / n;
            let c_b = (logistic(score(&net.b, &z)) - self.y_b[i]) / n;
            for (j, z) in z.iter().enumerate() {
                g.a[j] += c_a * z;
                g.b[j] += c_b * z;
                let z_bar = c_a * net.a[j] + -gamma * (c_b * net.b[j]);
                let inner = z_bar * (1.0 - z * z);
                x.iter().enumerate().for_each(|(row, x)| g.phi[row * k + j] += inner * x);
            }
            g.a[k] += c_a;
            g.b[k] += c_b;
        }
        g
    }
}

fn score(head: &[f64], z: &[f64]) -> f64 {
    z.iter().zip(head).map(|(z, w)| z * w).sum::<f64>() + head[z.len()]
}
