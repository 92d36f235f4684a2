//! Numbers in ascending order, with where they stood.

/// Below this length comparing is faster than counting digits.
const WORTH_COUNTING: usize = 1 << 11;

/// Bits of a digit, and how many digits are counted, from the top: numbers that agree in all of them are rare.
const BITS: u32 = 11;
const DIGITS: u32 = 3;
const REST: u32 = 64 - BITS * DIGITS;

/// Values less a middle in ascending order, and the index each had. Finite values; at most 2³² of them.
///
/// By the leading digits of the bit pattern, the last of them first, in three stable passes; what still agrees is compared.
/// Cost: O(n), and O(k log k) for k numbers that agree in their first 33 bits.
/// Checked by `tests/lp/losses.rs::auc_losses_and_gradients_are_those_of_all_pairs` and its long sister.
pub(super) fn ascending(values: impl ExactSizeIterator<Item = f64>, middle: f64) -> (Vec<f64>, Vec<u32>) {
    let mut keys: Vec<(u64, u32)> = values.zip(0..).map(|(v, i)| (key(v - middle), i)).collect();
    if keys.len() < WORTH_COUNTING {
        keys.sort_unstable();
    } else {
        sort_by_digits(&mut keys);
    }
    keys.into_iter().map(|(key, i)| (value(key), i)).unzip()
}

/// Bits whose order as an integer is the order of the numbers; −0 comes before 0, though they are equal.
fn key(v: f64) -> u64 {
    let bits = v.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

fn value(key: u64) -> f64 {
    f64::from_bits(if key >> 63 == 1 { key & !(1 << 63) } else { !key })
}

fn sort_by_digits(keys: &mut Vec<(u64, u32)>) {
    const SIZE: usize = 1 << BITS;
    let digit = |key: u64, pass: u32| (key >> (REST + BITS * pass)) as usize & (SIZE - 1);
    let mut counts = vec![[0usize; SIZE]; DIGITS as usize];
    for (key, _) in keys.iter() {
        (0..DIGITS).for_each(|pass| counts[pass as usize][digit(*key, pass)] += 1);
    }
    let mut other = vec![(0, 0); keys.len()];
    for (pass, counts) in (0..).zip(&mut counts) {
        if counts.contains(&keys.len()) {
            // All share this digit.
            continue;
        }
        // Where the first number with each digit goes.
        let mut before = 0;
        counts.iter_mut().for_each(|count| before += std::mem::replace(count, before));
        for entry in keys.iter() {
            let place = &mut counts[digit(entry.0, pass)];
            other[*place] = *entry;
            *place += 1;
        }
        std::mem::swap(keys, &mut other);
    }
    keys.chunk_by_mut(|a, b| a.0 >> REST == b.0 >> REST).for_each(<[_]>::sort_unstable);
}
