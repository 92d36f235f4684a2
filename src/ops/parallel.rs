//! Loops and matrix products whose pieces depend on the sizes alone, so that any number of threads gives the same bits.

use gemm::Parallelism;
use rayon::prelude::*;

use super::host::{Candle, Real};

/// Below this many elements a loop is over before another thread has woken up.
const SERIAL: usize = 1 << 17;

/// Elements per piece of an elementwise loop: 64 KB of f32, so that a piece stays in the second-level cache.
const PIECE: usize = 1 << 14;

/// How many rows of this length make a piece worth handing to another thread.
pub(super) fn rows_per_piece(len: usize) -> usize {
    (PIECE / len).max(1)
}

/// Calls `f` with every row of `rows` and its number, in parallel if the whole is worth it.
pub(super) fn each_row<T: Real>(rows: &mut [T], len: usize, f: impl Fn(usize, &mut [T]) + Send + Sync) {
    if rows.len() < SERIAL {
        rows.chunks_mut(len).enumerate().for_each(|(i, row)| f(i, row));
    } else {
        rows.par_chunks_mut(len).enumerate().for_each(|(i, row)| f(i, row));
    }
}

/// `f` of every element.
pub(super) fn map<T: Real>(x: &[T], f: impl Fn(T) -> T + Send + Sync) -> Vec<T> {
    let mut result = vec![T::zero(); x.len()];
    each_row(&mut result, PIECE, |i, piece| {
        for (r, x) in piece.iter_mut().zip(&x[i * PIECE..]) {
            *r = f(*x);
        }
    });
    result
}

/// `f` of every pair of elements.
pub(super) fn zip<T: Real>(x: &[T], y: &[T], f: impl Fn(T, T) -> T + Send + Sync) -> Vec<T> {
    let mut result = vec![T::zero(); x.len()];
    each_row(&mut result, PIECE, |i, piece| {
        for ((r, x), y) in piece.iter_mut().zip(&x[i * PIECE..]).zip(&y[i * PIECE..]) {
            *r = f(*x, *y);
        }
    });
    result
}

/// A matrix in a slice: rows, columns, and the steps from one to the next.
#[derive(Clone, Copy)]
pub(super) struct Mat {
    pub rows: usize,
    pub cols: usize,
    pub row_step: usize,
    pub col_step: usize,
}

impl Mat {
    /// Row after row.
    pub fn new(rows: usize, cols: usize) -> Mat {
        Mat { rows, cols, row_step: cols, col_step: 1 }
    }

    pub fn transposed(self) -> Mat {
        Mat { rows: self.cols, cols: self.rows, row_step: self.col_step, col_step: self.row_step }
    }

    fn fits(self, len: usize) -> bool {
        self.rows > 0
            && self.cols > 0
            && (self.rows - 1)
                .checked_mul(self.row_step)
                .zip((self.cols - 1).checked_mul(self.col_step))
                .and_then(|(r, c)| r.checked_add(c))
                .is_some_and(|last| last < len)
    }
}

/// Rows of the result per part of a parallel product: fixed, because the cut may change the last bit of a sum.
const ROWS: usize = 64;

/// Multiplications below which a product is done before another thread has woken up.
const SMALL_PRODUCT: usize = 1 << 20;

/// `dst = a b` or `dst += a b`, by as many threads as there are; rows of the result lie one after the other.
pub(super) fn parallel_product<T: Real>(
    (dst, d): (&mut [T], Mat),
    (a, p): (&[T], Mat),
    (b, q): (&[T], Mat),
    accumulate: bool,
) -> Candle<()> {
    if d.row_step != d.cols || d.rows.saturating_mul(d.cols).saturating_mul(p.cols) < SMALL_PRODUCT {
        return product((dst, d), (a, p), (b, q), accumulate);
    }
    dst.par_chunks_mut(ROWS * d.cols).enumerate().try_for_each(|(i, dst)| {
        let rows = dst.len() / d.cols;
        let a = a.get(i * ROWS * p.row_step..).unwrap_or_default();
        product((dst, Mat { rows, ..d }), (a, Mat { rows, ..p }), (b, q), accumulate)
    })
}

/// `dst = a b`, or `dst += a b`.
pub(super) fn product<T: Real>(
    (dst, d): (&mut [T], Mat),
    (a, p): (&[T], Mat),
    (b, q): (&[T], Mat),
    accumulate: bool,
) -> Candle<()> {
    let agree = d.rows == p.rows && d.cols == q.cols && p.cols == q.rows;
    // Steps of the result must reach every entry once.
    let distinct = (d.col_step == 1 && d.row_step >= d.cols) || (d.row_step == 1 && d.col_step >= d.rows);
    if !(agree && distinct && d.fits(dst.len()) && p.fits(a.len()) && q.fits(b.len())) {
        return Err(candle_core::Error::Msg(
            "matrix product: sizes do not agree with the memory given".into(),
        ));
    }
    // SAFETY: the check above proves that the last entry of each of the three matrices lies inside its slice, so every
    // entry does; `dst` is borrowed mutably, hence disjoint from `a` and `b`. T is f32 or f64, which gemm supports.
    unsafe {
        gemm::gemm(
            d.rows,
            d.cols,
            p.cols,
            dst.as_mut_ptr(),
            d.col_step as isize,
            d.row_step as isize,
            accumulate,
            a.as_ptr(),
            p.col_step as isize,
            p.row_step as isize,
            b.as_ptr(),
            q.col_step as isize,
            q.row_step as isize,
            T::one(),
            T::one(),
            false,
            false,
            false,
            Parallelism::None,
        );
    }
    Ok(())
}
