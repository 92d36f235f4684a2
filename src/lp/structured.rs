//! Matrices whose rows hold one entry each, but for a few full columns and a few full rows.

use ndarray::Array2;

use crate::error::{Error, Result, ensure_shape};
use crate::linalg::dot;

/// One row of a structured matrix.
///
/// ```
/// use lastlayer::lp::{Row, Structured};
/// let thin = Row::Thin { own: Some((0, -1.0)), shared: vec![4.0] };
/// let a = Structured::new(2, vec![1], vec![thin, Row::Full(vec![2.0, 3.0])])?;
/// assert_eq!([a.get(0, 0), a.get(0, 1), a.get(1, 0), a.get(1, 1)], [-1.0, 4.0, 2.0, 3.0]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Row {
    /// An entry of its own in one column, and one in each full column.
    Thin { own: Option<(usize, f64)>, shared: Vec<f64> },
    /// An entry in every column.
    Full(Vec<f64>),
}

/// Diagonal blocks, r full columns and k full rows.
///
/// ```text
/// A = [ D₁ | C₁ ]      D: one entry a row        AUC              r = 0, k = 0
///     [ D₂ | C₂ ]      C: r full columns         F in training    r = 1, k = 0, and one full equality
///     [    R    ]      R: k full rows            Neyman–Pearson   r = 1, k = 1
/// ```
/// A product costs O(m(r+1) + nk), and so does a solve with AᵀA, times r + k. Checked by `tests/lp/algebra.rs`.
///
/// ```
/// use lastlayer::lp::Structured;
/// use lastlayer::prelude::*;
/// // Four diagonal entries under one full row.
/// let mut a = Array2::eye(4);
/// a.push_row(Array1::from_elem(4, 0.5).view()).expect("four columns");
/// let found = Structured::detect(&a).expect("a structure");
/// assert_eq!((found.rows(), found.columns(), found.border()), (5, 4, 1));
/// assert_eq!(found.get(4, 2), 0.5);
/// ```
#[derive(Clone, PartialEq)]
pub struct Structured {
    n: usize,
    /// Columns that many rows share.
    pub(super) shared: Vec<usize>,
    /// Column and value of each row's own entry; the value is zero for rows without one.
    pub(super) own: Vec<(usize, f64)>,
    /// (m, r) Entries in the shared columns, row by row.
    pub(super) on_shared: Vec<f64>,
    /// Full rows: where they stand, and their entries.
    pub(super) full: Vec<(usize, Vec<f64>)>,
}

/// More full rows and columns than this are not worth a structure.
pub(super) const MOST_FULL: usize = 8;

impl Structured {
    /// From its rows, with the columns that they share.
    ///
    /// Fails: `Shape` if a row does not fit, `Config` if a column is out of range or both shared and some row's own.
    pub fn new(n: usize, shared: Vec<usize>, rows: Vec<Row>) -> Result<Structured> {
        let (r, m) = (shared.len(), rows.len());
        let allowed = format!("a column below {n} that is not shared");
        if let Some(column) = shared.iter().find(|column| **column >= n) {
            return Err(Error::config("shared column", column, format!("a column below {n}")));
        }
        let (mut own, mut on_shared, mut full) =
            (Vec::with_capacity(m), Vec::with_capacity(m * r), Vec::new());
        for (i, row) in rows.into_iter().enumerate() {
            match row {
                Row::Thin { own: entry, shared: values } => {
                    ensure_shape("shared entries of a row", r, values.len())?;
                    if let Some((column, _)) =
                        entry.filter(|(column, _)| *column >= n || shared.contains(column))
                    {
                        return Err(Error::config("column of a row's own entry", column, allowed));
                    }
                    own.push(entry.unwrap_or((0, 0.0)));
                    on_shared.extend(values);
                }
                Row::Full(values) => {
                    ensure_shape("entries of a full row", n, values.len())?;
                    own.push((0, 0.0));
                    on_shared.extend(std::iter::repeat_n(0.0, r));
                    full.push((i, values));
                }
            }
        }
        Ok(Structured { n, shared, own, on_shared, full })
    }

    /// The structure of a dense matrix, if few full rows and columns explain all that is not diagonal.
    ///
    /// Greedy: while some row has two entries, whichever row or column causes most of them is declared full.
    /// Cost: O(mn) to look, then little.
    pub fn detect(a: &Array2<f64>) -> Option<Structured> {
        let (m, n) = a.dim();
        let entries = a.iter().filter(|v| **v != 0.0).count();
        if m == 0 || entries > (m + n) * (MOST_FULL / 2) {
            return None;
        }
        let mut rows: Vec<Vec<usize>> = vec![Vec::new(); m];
        a.indexed_iter().filter(|(_, v)| **v != 0.0).for_each(|((i, j), _)| rows[i].push(j));
        let (mut shared, mut full) = (Vec::new(), Vec::new());
        loop {
            let mut crowded = vec![0usize; n];
            let two = |row: &&Vec<usize>| row.len() > 1;
            rows.iter().filter(two).flatten().for_each(|j| crowded[*j] += 1);
            let column = (0..n).max_by_key(|j| (crowded[*j], n - j))?;
            let row = (0..m).max_by_key(|i| (rows[*i].len(), m - i))?;
            if rows[row].len() < 2 {
                break;
            }
            // A border that is not small beside the rest costs more than it saves.
            if shared.len() + full.len() == MOST_FULL.min(n / 4) {
                return None;
            }
            if crowded[column] >= rows[row].len() {
                shared.push(column);
                rows.iter_mut().for_each(|row| row.retain(|j| *j != column));
            } else {
                full.push(row);
                rows[row].clear();
            }
        }
        let build = |(i, own): (usize, &Vec<usize>)| match full.contains(&i) {
            true => Row::Full(a.row(i).to_vec()),
            false => Row::Thin {
                own: own.first().map(|j| (*j, a[[i, *j]])),
                shared: shared.iter().map(|j| a[[i, *j]]).collect(),
            },
        };
        let rows = rows.iter().enumerate().map(build).collect();
        Structured::new(n, shared.clone(), rows).ok()
    }

    /// With rows I and −I below it.
    pub(super) fn with_box(&self) -> Structured {
        let mut boxed = self.clone();
        for (sign, j) in [1.0, -1.0].into_iter().flat_map(|sign| (0..self.n).map(move |j| (sign, j))) {
            boxed.own.push(if self.shared.contains(&j) { (0, 0.0) } else { (j, sign) });
            boxed.on_shared.extend(self.shared.iter().map(|k| if *k == j { sign } else { 0.0 }));
        }
        boxed
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.own.len()
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.n
    }

    /// Number of full rows and columns.
    pub fn border(&self) -> usize {
        self.shared.len() + self.full.len()
    }

    /// Entry of a row and a column; zero outside.
    pub fn get(&self, row: usize, column: usize) -> f64 {
        if row >= self.rows() || column >= self.n {
            return 0.0;
        }
        self.nonzeros(row).find(|(j, _)| *j == column).map_or(0.0, |(_, v)| v)
    }

    /// Columns and values of the entries of a row.
    pub(super) fn nonzeros(&self, i: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let r = self.shared.len();
        let shared = self.shared.iter().copied().zip(self.on_shared[i * r..(i + 1) * r].iter().copied());
        let full = self.full.iter().find(|(at, _)| *at == i);
        let full = full.into_iter().flat_map(|(_, row)| row.iter().copied().enumerate());
        std::iter::once(self.own[i]).chain(shared).chain(full).filter(|(_, v)| *v != 0.0)
    }

    pub(super) fn times(&self, x: &[f64]) -> Vec<f64> {
        let mut product: Vec<f64> = self.own.iter().map(|(j, v)| v * x[*j]).collect();
        let at_shared: Vec<f64> = self.shared.iter().map(|j| x[*j]).collect();
        if !at_shared.is_empty() {
            let rows = self.on_shared.chunks_exact(at_shared.len());
            product.iter_mut().zip(rows).for_each(|(p, row)| *p += dot(row, &at_shared));
        }
        self.full.iter().for_each(|(i, row)| product[*i] = dot(row, x));
        product
    }

    pub(super) fn transposed_times(&self, v: &[f64]) -> Vec<f64> {
        let mut sum = vec![0.0; self.n];
        self.own.iter().zip(v).for_each(|((j, own), v)| sum[*j] += own * v);
        for (k, j) in self.shared.iter().enumerate() {
            let column = self.on_shared.iter().skip(k).step_by(self.shared.len());
            sum[*j] += column.zip(v).map(|(a, v)| a * v).sum::<f64>();
        }
        for (i, row) in &self.full {
            sum.iter_mut().zip(row).for_each(|(s, a)| *s += a * v[*i]);
        }
        sum
    }

    pub(super) fn divide_rows(&mut self, by: &[f64]) {
        self.own.iter_mut().zip(by).for_each(|((_, v), by)| *v /= by);
        let r = self.shared.len();
        if r > 0 {
            let rows = self.on_shared.chunks_exact_mut(r).zip(by);
            rows.for_each(|(row, by)| row.iter_mut().for_each(|v| *v /= by));
        }
        self.full.iter_mut().for_each(|(i, row)| row.iter_mut().for_each(|v| *v /= by[*i]));
    }

    pub(super) fn multiply_columns(&mut self, by: &[f64]) {
        self.own.iter_mut().for_each(|(j, v)| *v *= by[*j]);
        let shared = self.shared.iter().cycle();
        self.on_shared.iter_mut().zip(shared).for_each(|(v, j)| *v *= by[*j]);
        self.full.iter_mut().for_each(|(_, row)| row.iter_mut().zip(by).for_each(|(v, by)| *v *= by));
    }

    /// Shows the size and what is full.
    pub fn evcxr_display(&self) {
        evcxr_runtime::mime_type("text/plain").text(format!("{self:?}"));
    }
}

// By hand: the lists may hold millions.
impl std::fmt::Debug for Structured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (m, n, r, k) = (self.rows(), self.n, self.shared.len(), self.full.len());
        write!(f, "structured matrix, {m} × {n}: diagonal, {r} full columns, {k} full rows")
    }
}
