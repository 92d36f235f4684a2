//! Trees as rules, figures and TikZ.

use lastlayer::error::Error;
use lastlayer::tree::{Node, Split, Tree};

use super::message;

/// Features are asked for by number; ends are given by class 0 or 1.
fn leaf(weight: u64, first: f64) -> Node {
    Node { weight, value: vec![first, 1.0 - first], split: None }
}

fn ask(feature: usize, threshold: u8, low: usize, high: usize) -> Node {
    Node { split: Some(Split { feature, threshold, gain: 1.0, low, high }), ..leaf(0, 0.5) }
}

fn small() -> Tree {
    let nodes = vec![ask(12, 3, 1, 2), leaf(40, 0.9), ask(0, 0, 3, 4), leaf(7, 0.25), leaf(1, 1.0)];
    Tree::new(nodes, 13, 16).unwrap()
}

/// All questions of a depth; numbered from the top, low side first.
fn complete(depth: usize) -> Tree {
    fn add(depth: usize, nodes: &mut Vec<Node>) -> usize {
        let own = nodes.len();
        nodes.push(leaf(1, 0.75));
        if depth > 0 {
            let (low, high) = (add(depth - 1, nodes), add(depth - 1, nodes));
            nodes[own] = ask(0, 0, low, high);
        }
        own
    }
    let mut nodes = Vec::new();
    add(depth, &mut nodes);
    Tree::new(nodes, 1, 2).unwrap()
}

/// A question on the low side of a question on the low side, and so on.
fn chain(depth: usize) -> Tree {
    let mut nodes = Vec::new();
    for level in 0..depth {
        nodes.extend([ask(0, 0, 2 * level + 2, 2 * level + 1), leaf(1, 1.0)]);
    }
    nodes.push(leaf(1, 0.0));
    Tree::new(nodes, 1, 2).unwrap()
}

#[test]
fn rules_are_one_line_per_node_and_yes_comes_first() {
    let tree = small();
    let rules = tree.rules(&tree.names(&["owl", "crow"])).unwrap();
    let expected = "\
z12 > 3?
  yes: z0 > 0?
    yes: owl 1.00 (1 rows)
    no: crow 0.75 (7 rows)
  no: owl 0.90 (40 rows)
";
    assert_eq!(rules, expected);
}

#[test]
fn a_question_can_be_named_and_its_sides_exchanged() {
    let tree = small();
    let names = tree.names(&["owl", "crow"]).ask(0, "plain wings", false).unwrap();
    let expected = "\
plain wings?
  yes: owl 0.90 (40 rows)
  no: z0 > 0?
    yes: owl 1.00 (1 rows)
    no: crow 0.75 (7 rows)
";
    assert_eq!(tree.rules(&names).unwrap(), expected);
    let high = tree.names(&["owl", "crow"]).ask(0, "horns", true).unwrap();
    assert!(tree.rules(&high).unwrap().starts_with("horns?\n  yes: z0 > 0?\n"));
}

#[test]
fn a_class_without_a_name_is_numbered() {
    let tree = small();
    let rules = tree.rules(&tree.names(&["owl"])).unwrap();
    assert!(rules.contains("no: 1 0.75 (7 rows)") && rules.contains("owl 0.90"), "{rules}");
}

#[test]
fn a_single_leaf_is_a_rule_a_figure_and_a_picture() {
    let tree = complete(0);
    let names = tree.names(&["owl"]);
    assert_eq!(tree.rules(&names).unwrap(), "owl 0.75 (1 rows)\n");
    assert!(tree.figure(&names).unwrap().svg().contains("owl 0.75"));
    let tikz = tree.tikz(&names).unwrap();
    assert_eq!((tikz.matches("\\node (").count(), tikz.matches("\\draw").count()), (1, 0));
}

#[test]
fn a_figure_shows_every_label() {
    let tree = small();
    let names = tree.names(&["owl", "crow"]).ask(2, "long tail", true).unwrap();
    let svg = tree.figure(&names).unwrap().svg();
    for label in ["z12 &gt; 3", "long tail", "owl 0.90", "crow 0.75", "owl 1.00", "yes", "no"] {
        assert!(svg.contains(label), "{label} is missing");
    }
}

#[test]
fn a_figure_has_room_for_100_ends_and_12_questions_in_a_row() {
    for (tree, fits) in [(complete(6), true), (complete(7), false), (chain(12), true), (chain(13), false)] {
        let figure = tree.figure(&tree.names::<&str>(&[]));
        match fits {
            true => assert!(figure.is_ok()),
            false => assert!(message(figure).contains("draw a part of it")),
        }
        // Rules and TikZ have no limit.
        let names = tree.names::<&str>(&[]);
        assert_eq!(tree.rules(&names).unwrap().lines().count(), tree.nodes().len());
        assert_eq!(tree.tikz(&names).unwrap().matches("\\node (").count(), tree.nodes().len());
    }
}

#[test]
fn names_of_another_tree_and_nodes_that_are_not_there_are_refused() {
    let tree = small();
    let other = complete(2).names::<&str>(&[]);
    assert!(matches!(tree.rules(&other), Err(Error::Shape { .. })));
    assert!(matches!(tree.tikz(&other), Err(Error::Shape { .. })));
    assert!(matches!(tree.figure(&other), Err(Error::Shape { .. })));
    let node = tree.names::<&str>(&[]).ask(5, "horns", true);
    assert_eq!(message(node), "node is 5; allowed: below 5");
}

/// Depth of the braces of a text, those with a backslash not counted; none may close before it opens.
fn braces(text: &str) -> i32 {
    let mut depth = 0;
    let mut escaped = false;
    for c in text.chars() {
        match c {
            '{' if !escaped => depth += 1,
            '}' if !escaped => depth -= 1,
            _ => {}
        }
        assert!(depth >= 0, "a brace closes before it opens");
        escaped = c == '\\' && !escaped;
    }
    depth
}

#[test]
fn tikz_has_every_node_once_and_every_way_once() {
    for tree in [small(), complete(3), chain(5)] {
        let tikz = tree.tikz(&tree.names(&["owl", "crow"])).unwrap();
        let questions = tree.nodes().len() - tree.leaves();
        assert_eq!(tikz.matches("\\node (n").count(), tree.nodes().len());
        assert_eq!(tikz.matches("\\draw (").count(), questions);
        assert_eq!(tikz.matches("\\draw[dashed] (").count(), questions);
        assert_eq!((tikz.matches("{yes}").count(), tikz.matches("{no}").count()), (questions, questions));
        for number in 0..tree.nodes().len() {
            assert_eq!(tikz.matches(&format!("\\node (n{number}) at")).count(), 1);
        }
        assert!(tikz.starts_with("\\begin{tikzpicture}[") && tikz.ends_with("\\end{tikzpicture}\n"));
        assert_eq!(braces(&tikz), 0);
    }
}

#[test]
fn tikz_draws_a_node_before_a_way_to_it_and_ends_in_steps_of_seven_millimetres() {
    let tree = small();
    let tikz = tree.tikz(&tree.names(&["owl", "crow"])).unwrap();
    let lines: Vec<&str> = tikz.lines().collect();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.contains("\\draw")) {
        let next = line.split("-- (").nth(1).unwrap().split('.').next().unwrap();
        assert!(lines[..at].iter().any(|line| line.contains(&format!("\\node ({next}) at"))), "{line}");
    }
    // Yes above no: node 4 first, then 3, then 1; a question half way between what follows.
    for place in ["(n4) at (76.0,-0.0)", "(n3) at (76.0,-7.0)", "(n1) at (38.0,-14.0)", "(n2) at (38.0,-3.5)"]
    {
        assert!(tikz.contains(place), "{place} is missing from\n{tikz}");
    }
}

#[test]
fn names_are_escaped_for_latex() {
    let tree = small();
    let names = tree.names(&["grey_owl", "50% {crow}"]).ask(2, "a & b # $1 ^~\\", true).unwrap();
    let tikz = tree.tikz(&names).unwrap();
    for text in
        ["grey\\_owl 0.90", "50\\% \\{crow\\} 0.75", "a \\& b \\# \\$1", "\\textbackslash{}", "z12 $>$ 3"]
    {
        assert!(tikz.contains(text), "{text} is missing from\n{tikz}");
    }
    assert_eq!(braces(&tikz), 0);
}
