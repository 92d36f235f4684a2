//! What a backward pass returns when tensor ids repeat: the facts behind the book's chapter
//! "Autograd in a notebook kernel" (book/src/ground/autograd.md).
//!
//! candle's ids cannot be forged, and one test program holds one copy of candle, so collisions cannot be staged with
//! candle itself. They run on a model: candle's `sorted_nodes`, `backward` and `GradStore` for three operations, with
//! the ids as a free choice. The first test ties the model to candle; tests/kernel/test_gradients.py ties it to the kernel.

mod device;

use device::device;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use lastlayer::candle::{Tensor, Var};

// ANCHOR: node
/// A tensor, reduced to what the backward pass reads.
struct Node {
    id: usize,
    value: Vec<f64>,
    op: Op,
}

enum Op {
    Parameter,
    Constant,
    Add(Rc<Node>, Rc<Node>),
    Mul(Rc<Node>, Rc<Node>),
    Sum(Rc<Node>),
}
// ANCHOR_END: node

// ANCHOR: walk
/// By id: whether a parameter lies below.
type Seen = HashMap<usize, bool>;

/// Lists the nodes that lead to a parameter, arguments before results.
/// The id alone tells nodes apart.
fn walk<'a>(node: &'a Node, seen: &mut Seen, order: &mut Vec<&'a Node>) -> bool {
    if let Some(&tracked) = seen.get(&node.id) {
        return tracked;
    }
    let tracked = match &node.op {
        Op::Parameter => true,
        Op::Constant => false,
        Op::Sum(a) => walk(a, seen, order),
        Op::Add(a, b) | Op::Mul(a, b) => walk(a, seen, order) | walk(b, seen, order),
    };
    seen.insert(node.id, tracked);
    if tracked {
        order.push(node);
    }
    tracked
}
// ANCHOR_END: walk

// ANCHOR: backward
/// Gradients by id, as candle's `GradStore` keeps them.
fn backward(loss: &Node) -> HashMap<usize, Vec<f64>> {
    let mut order = Vec::new();
    walk(loss, &mut Seen::new(), &mut order);
    let mut store = HashMap::from([(loss.id, vec![1.0])]);
    for node in order.iter().rev() {
        if let Op::Parameter = node.op {
            continue;
        }
        let g = store.remove(&node.id).expect("every listed node has a gradient");
        match &node.op {
            Op::Sum(a) => add(&mut store, a, vec![g[0]; a.value.len()]),
            Op::Add(a, b) => {
                add(&mut store, a, g.clone());
                add(&mut store, b, g);
            }
            Op::Mul(a, b) => {
                add(&mut store, a, zip(&g, &b.value, |g, b| g * b));
                add(&mut store, b, zip(&g, &a.value, |g, a| g * a));
            }
            Op::Parameter | Op::Constant => {}
        }
    }
    store
}

/// store[id of node] += g
fn add(store: &mut HashMap<usize, Vec<f64>>, node: &Node, g: Vec<f64>) {
    let sum = store.entry(node.id).or_insert_with(|| vec![0.0; node.value.len()]);
    assert_eq!(sum.len(), g.len(), "one id, two shapes: here candle returns an error");
    *sum = zip(sum, &g, |s, g| s + g);
}
// ANCHOR_END: backward

fn zip(a: &[f64], b: &[f64], f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect()
}

/// One copy of candle's id counter. Sharing it is the cure, a fresh one per cell is the illness.
struct Counter(usize);

impl Counter {
    fn new() -> Self {
        Counter(1)
    }

    fn node(&mut self, value: Vec<f64>, op: Op) -> Rc<Node> {
        let id = self.0;
        self.0 += 1;
        Rc::new(Node { id, value, op })
    }

    fn parameter(&mut self, value: &[f64]) -> Rc<Node> {
        self.node(value.to_vec(), Op::Parameter)
    }

    fn constant(&mut self, value: &[f64]) -> Rc<Node> {
        self.node(value.to_vec(), Op::Constant)
    }

    fn add(&mut self, a: &Rc<Node>, b: &Rc<Node>) -> Rc<Node> {
        self.node(zip(&a.value, &b.value, |a, b| a + b), Op::Add(a.clone(), b.clone()))
    }

    fn mul(&mut self, a: &Rc<Node>, b: &Rc<Node>) -> Rc<Node> {
        self.node(zip(&a.value, &b.value, |a, b| a * b), Op::Mul(a.clone(), b.clone()))
    }

    fn sum(&mut self, a: &Rc<Node>) -> Rc<Node> {
        self.node(vec![a.value.iter().sum()], Op::Sum(a.clone()))
    }

    /// The chapter's loss: sum(w * w + w * w2).
    fn toy(&mut self, w: &Rc<Node>, w2: &Rc<Node>) -> Rc<Node> {
        let p = self.mul(w, w);
        let q = self.mul(w, w2);
        let r = self.add(&p, &q);
        self.sum(&r)
    }
}

const W: [f64; 3] = [1.0, 2.0, 3.0];
const W2: [f64; 3] = [3.0, 3.0, 3.0];

fn entrywise(f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    zip(&W, &W2, f)
}

#[test]
fn backward_with_distinct_ids_is_candles_gradient() -> lastlayer::candle::Result<()> {
    let mut process = Counter::new();
    let (w, w2) = (process.parameter(&W), process.parameter(&W2));
    let store = backward(&process.toy(&w, &w2));
    assert_eq!(store[&w.id], [5.0, 7.0, 9.0]);
    assert_eq!(store[&w2.id], [1.0, 2.0, 3.0]);
    assert_eq!(store[&w.id], entrywise(|w, w2| 2.0 * w + w2));
    assert_eq!(store[&w2.id], W);

    let (w, w2) = (Var::new(&W, device())?, Var::new(&W2, device())?);
    let loss = ((w.as_tensor() * w.as_tensor())? + (w.as_tensor() * w2.as_tensor())?)?.sum_all()?;
    let grads = loss.backward()?;
    assert_eq!(grads.get(&w).unwrap().to_vec1::<f64>()?, [5.0, 7.0, 9.0]);
    assert_eq!(grads.get(&w2).unwrap().to_vec1::<f64>()?, [1.0, 2.0, 3.0]);
    Ok(())
}

#[test]
fn candle_ids_are_unique_within_one_copy() -> lastlayer::candle::Result<()> {
    let make = || {
        (0..500).map(|_| Ok(Tensor::new(&W, device())?.id())).collect::<lastlayer::candle::Result<Vec<_>>>()
    };
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(make)).collect();
    let mut ids = HashSet::new();
    for thread in threads {
        ids.extend(thread.join().expect("the thread makes tensors")?);
    }
    assert_eq!(ids.len(), 4 * 500);
    Ok(())
}

#[test]
fn parameters_with_one_id_both_get_the_sum_of_their_gradients() {
    let (mut first, mut second) = (Counter::new(), Counter::new());
    let (w, w2) = (first.parameter(&W), second.parameter(&W2));
    assert_eq!(w.id, w2.id);
    let store = backward(&Counter(100).toy(&w, &w2)); // the results have ids of their own: only the leaves collide
    let (dw, dw2) = (entrywise(|w, w2| 2.0 * w + w2), W.to_vec());
    assert_eq!(store[&w.id], zip(&dw, &dw2, |a, b| a + b));
    assert_eq!(store[&w.id], [6.0, 9.0, 12.0]);
}

#[test]
fn an_interior_node_passes_on_the_gradients_of_leaves_that_share_its_id() {
    // p = w * w carries the id of w and w2, the other results have fresh ids; the order of r's arguments is then a choice.
    for p_first in [true, false] {
        let (w, w2) = (Counter::new().parameter(&W), Counter::new().parameter(&W2));
        let p = Counter::new().mul(&w, &w);
        let mut fresh = Counter(100);
        let q = fresh.mul(&w, &w2);
        let r = if p_first { fresh.add(&p, &q) } else { fresh.add(&q, &p) };
        let store = backward(&fresh.sum(&r));
        // With q walked first, w and w2 are marked before p is met: p looks seen, is never listed, and its id is a leaf's.
        let expected = if p_first {
            entrywise(|w, w2| 2.0 * w * (1.0 + (w + w2)))
        } else {
            entrywise(|w, w2| 1.0 + (w + w2))
        };
        assert_eq!(store[&w.id], expected);
    }
}

#[test]
fn fresh_counters_in_three_cells_give_the_corrupted_gradient() {
    let w = Counter::new().parameter(&W);
    let w2 = Counter::new().parameter(&W2);
    let store = backward(&Counter::new().toy(&w, &w2));
    assert_eq!(store[&w.id], entrywise(|w, w2| 2.0 * w * (1.0 + w + w2)));
    assert_eq!(store[&w.id], [10.0, 24.0, 42.0]);
    assert_eq!(store[&w2.id], store[&w.id]);
}

#[test]
fn a_parameter_that_shares_its_id_with_data_depends_on_the_order_of_factors() {
    let x = Counter::new().constant(&W2);
    let w = Counter::new().parameter(&W);
    let mut cell = Counter::new();
    let product = cell.mul(&x, &w);
    assert_eq!(backward(&cell.sum(&product)).get(&w.id), None, "x * w: the parameter looks like data");

    let mut cell = Counter::new();
    let product = cell.mul(&w, &x);
    assert_eq!(
        backward(&cell.sum(&product))[&w.id],
        entrywise(|w, x| w + x),
        "w * x: the data looks like the parameter"
    );
}

#[test]
fn exercise_a_loss_without_a_product_of_parameters() {
    let w = Counter::new().parameter(&W);
    let w2 = Counter::new().parameter(&W2);
    let mut cell = Counter::new();
    let p = cell.mul(&w, &w);
    let three = Counter(100).constant(&[3.0; 3]);
    let q = cell.mul(&w2, &three);
    let r = cell.add(&p, &q);
    let store = backward(&cell.sum(&r));
    assert_eq!(store[&w.id], entrywise(|w, _| 8.0 * w));

    let mut process = Counter::new();
    let (w, w2) = (process.parameter(&W), process.parameter(&W2));
    let (p, three) = (process.mul(&w, &w), process.constant(&[3.0; 3]));
    let q = process.mul(&w2, &three);
    let r = process.add(&p, &q);
    let store = backward(&process.sum(&r));
    assert_eq!((&store[&w.id], &store[&w2.id]), (&vec![2.0, 4.0, 6.0], &vec![3.0, 3.0, 3.0]));
}

/// Whatever the ids, a listed node finds a gradient waiting: the pass cannot notice a collision by coming up empty.
#[test]
fn repeated_ids_never_leave_a_listed_node_without_a_gradient() {
    let mut state = 7u64;
    let mut draw = move |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    for _ in 0..20_000 {
        let mut nodes: Vec<Rc<Node>> = Vec::new();
        for place in 0..4 + draw(12) {
            let id = 1 + draw(6);
            let op = match draw(4) {
                _ if place < 2 => Op::Parameter,
                0 => Op::Constant,
                1 => Op::Parameter,
                2 => Op::Add(nodes[draw(place)].clone(), nodes[draw(place)].clone()),
                _ => Op::Mul(nodes[draw(place)].clone(), nodes[draw(place)].clone()),
            };
            nodes.push(Rc::new(Node { id, value: vec![0.5; 2], op }));
        }
        let last = nodes.last().expect("at least four nodes").clone();
        backward(&Counter(1 + draw(6)).sum(&last)); // panics if a listed node finds no gradient
    }
}
