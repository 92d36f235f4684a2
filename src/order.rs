//! Finite numbers in ascending order: sorted as integers of the same order, which is faster than comparing them.

/// Below this length comparing is faster than counting digits.
const WORTH_COUNTING: usize = 1 << 11;

/// Bits of a digit, and how many digits are counted, from the top: numbers that agree in all of them are rare.
const BITS: u32 = 11;
const DIGITS: u32 = 3;
const REST: u32 = 64 - BITS * DIGITS;

/// Numbers in ascending order, with zero for negative zero, so that equal numbers are identical.
pub(crate) fn ascending(values: Vec<f64>) -> Vec<f64> {
    let keys = values.into_iter().map(|v| key(v + 0.0)).collect();
    sort(keys, |key| *key).into_iter().map(value).collect()
}

/// Numbers in ascending order, and the index each had; at most 2³² of them.
///
/// Checked by `tests/lp/losses.rs::auc_losses_and_gradients_are_those_of_all_pairs` and its long sister.
pub(crate) fn ascending_with_places(values: impl Iterator<Item = f64>) -> (Vec<f64>, Vec<u32>) {
    let keys = values.zip(0..).map(|(v, i)| (key(v), i)).collect();
    sort(keys, |(key, _)| *key).into_iter().map(|(key, i)| (value(key), i)).unzip()
}

/// Bits whose order as an integer is the order of the numbers; −0 comes before 0, though they are equal.
fn key(v: f64) -> u64 {
    let bits = v.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

fn value(key: u64) -> f64 {
    f64::from_bits(if key >> 63 == 1 { key & !(1 << 63) } else { !key })
}

/// Entries in the order of their keys, and of themselves where those are equal.
///
/// By the leading digits of the keys, the last of them first, in three stable passes; what still agrees is compared.
/// Cost: O(n), and O(k log k) for k keys that agree in their first 33 bits.
fn sort<T: Copy + Default + Ord>(mut entries: Vec<T>, key: impl Fn(&T) -> u64) -> Vec<T> {
    if entries.len() < WORTH_COUNTING {
        entries.sort_unstable();
        return entries;
    }
    const SIZE: usize = 1 << BITS;
    let digit = |entry: &T, pass: u32| (key(entry) >> (REST + BITS * pass)) as usize & (SIZE - 1);
    let mut counts = vec![[0usize; SIZE]; DIGITS as usize];
    for entry in &entries {
        (0..DIGITS).for_each(|pass| counts[pass as usize][digit(entry, pass)] += 1);
    }
    let mut other = vec![T::default(); entries.len()];
    for (pass, counts) in (0..).zip(&mut counts) {
        if counts.contains(&entries.len()) {
            // All share this digit.
            continue;
        }
        // Where the first entry with each digit goes.
        let mut before = 0;
        counts.iter_mut().for_each(|count| before += std::mem::replace(count, before));
        for entry in &entries {
            let place = &mut counts[digit(entry, pass)];
            other[*place] = *entry;
            *place += 1;
        }
        std::mem::swap(&mut entries, &mut other);
    }
    entries.chunk_by_mut(|a, b| key(a) >> REST == key(b) >> REST).for_each(<[_]>::sort_unstable);
    entries
}
