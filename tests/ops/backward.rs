use super::*;
use lastlayer::ops::{backward, conv2d, linear, relu};

/// Every kind of use: a parameter of one operation, of two, of an operation and of candle, of candle alone.
fn loss(p: &[Var]) -> Tensor {
    let z = relu(&conv2d(&draw(&[2, 3, 5, 5], 9), &p[0], 1, 1).unwrap()).unwrap();
    let z = linear(&z.flatten_from(1).unwrap(), &p[1], Some(&p[2])).unwrap();
    let z = linear(&relu(&z).unwrap(), &p[3], Some(&p[2])).unwrap();
    let penalty = (p[3].sqr().unwrap().sum_all().unwrap() + p[4].sqr().unwrap().sum_all().unwrap()).unwrap();
    (weighted(&z) + penalty).unwrap()
}

fn parameters() -> Vec<Var> {
    let shapes: [&[usize]; 6] = [&[4, 3, 3, 3], &[6, 100], &[6], &[6, 6], &[2], &[3]];
    shapes.iter().zip(1..).map(|(shape, seed)| var(shape, seed)).collect()
}

#[test]
fn backward_gives_candles_gradients() {
    let p = parameters();
    let loss = loss(&p);
    let (mine, theirs) = (backward(&loss).unwrap(), loss.backward().unwrap());
    for p in &p[..5] {
        close(mine.get(p).unwrap(), theirs.get(p).unwrap(), ROUNDING);
    }
    assert!(mine.get(&p[5]).is_none(), "not part of the loss");
    // A second pass starts from nothing.
    let again = backward(&loss).unwrap();
    p[..5].iter().for_each(|p| assert_eq!(bits(mine.get(p).unwrap()), bits(again.get(p).unwrap())));
}

#[test]
fn candles_own_backward_after_ours_misses_nothing() {
    let p = parameters();
    backward(&loss(&p)).unwrap();
    let theirs = loss(&p).backward().unwrap();
    assert!(p[..5].iter().all(|p| theirs.get(p).is_some()));
}

#[test]
fn backward_passes_on_several_threads_do_not_mix() {
    let alone = {
        let p = parameters();
        bits(backward(&loss(&p)).unwrap().get(&p[1]).unwrap())
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let p = parameters();
                for _ in 0..20 {
                    assert_eq!(alone, bits(backward(&loss(&p)).unwrap().get(&p[1]).unwrap()));
                }
            });
        }
    });
}
