//! Measures the worst-case cost of a schema before it is compiled.
//!
//! Three costs can grow exponentially with the length of a schema. Compilation: a chain of `$ref`s that each occur twice
//! doubles at every link. Validation: a recursive schema that reaches itself twice at the same place doubles at every
//! level of the value. Stack: nested alternatives are nested calls. Each is measured on the graph of subschemas and limited;
//! a tree that refers to itself once for each child costs the same at every level and passes.
//!
//! The measure of validation is exact: the multiset of subschemas that apply at a place determines the multiset that
//! applies at each child. Starting at the root, all multisets that can occur are visited, like the states of an automaton
//! (subset construction).

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use serde_json::Value;

use super::SchemaError;
use super::graph::{Graph, Node};

/// Most keywords that may apply at one place of a value. Ordinary schemas have a few dozen.
const WEIGHT: u64 = 4_096;
/// Most subschemas after every non-recursive reference is replaced by its target, as the validator holds them in memory.
const UNROLLED: u64 = 20_000;
/// Most consecutive in-place steps. Each takes stack at every level of a value.
const CHAIN: usize = 24;
/// Most nested subschemas during compilation, targets of references included. The heaviest kind takes 12 KiB of stack, so
/// this is a bit more than half of the 2 MiB that a thread of the runtime has.
const COMPILED_LEVELS: u64 = 96;
/// References that the validator follows on the stack during compilation; it defers further ones.
const COMPILED_REFERENCES: usize = 8;
/// Most levels of a value: deeper ones are refused before validation.
const LEVELS: usize = 128;
/// Most steps of the measurement itself.
const STEPS: usize = 2_000_000;

/// The largest cost at one place of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weight {
    pub(super) keywords: u64,
    /// Pattern states for each byte of text.
    pub(super) text_states: u64,
    /// Errors that it can have.
    pub(super) errors: u64,
    /// Bytes of the errors, without parts of the value.
    pub(super) error_bytes: u64,
}

impl Weight {
    /// Takes the maximum of each field.
    fn max_with(&mut self, other: Self) {
        self.keywords = self.keywords.max(other.keywords);
        self.text_states = self.text_states.max(other.text_states);
        self.errors = self.errors.max(other.errors);
        self.error_bytes = self.error_bytes.max(other.error_bytes);
    }
}

/// The worst-case cost of a validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) weight: Weight,
    /// The part of it within alternatives: its errors copy the value, and each level evaluates it again.
    pub(super) alternatives: Weight,
    /// Whether names of properties are validated, and can have errors of their own.
    pub(super) checks_names: bool,
    /// Bytes of the longest pointer to a reference.
    pub(super) reference_bytes: u64,
    /// The most consecutive in-place steps.
    pub(super) chain: u64,
    /// Subschemas that the validator holds in memory.
    pub(super) nodes: u64,
}

/// Measures a schema, or returns an error if a cost exceeds its limit.
pub(super) fn measure(root: &Value, asserts_format: bool) -> Result<Cost, SchemaError> {
    let graph = Graph::build(root, asserts_format)?;
    let (order, chain) = in_place_order(&graph)?;
    check_compiled_levels(&graph)?;
    let nodes = count_unrolled(&graph)?;
    let (weight, alternatives) = WeightSearch::new(&graph, &order).run()?;
    let referring = graph.nodes.iter().filter(|node| !node.targets.is_empty());
    let reference_bytes = referring.map(|node| node.pointer.len() as u64).max().unwrap_or_default();
    let checks_names = graph.nodes.iter().any(|node| !node.names.is_empty());
    Ok(Cost { weight, alternatives, checks_names, reference_bytes, chain, nodes })
}

/// For each node whether it is within alternatives, or another keyword whose errors copy the value.
fn inside_alternatives(graph: &Graph<'_>) -> Vec<bool> {
    let mut inside = vec![false; graph.nodes.len()];
    let mut open: Vec<usize> = Vec::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        open.extend(node.alternatives.iter().chain(&node.names));
        open.extend(node.copies.then_some(index));
    }
    while let Some(node) = open.pop() {
        if !std::mem::replace(&mut inside[node], true) {
            open.extend(graph.nodes[node].inside().chain(graph.nodes[node].targets.iter().copied()));
        }
    }
    inside
}

/// Sorts the nodes topologically by in-place edges, and returns the position of each and the longest chain. A schema that
/// applies itself in place is an error, since validation would not end.
fn in_place_order(graph: &Graph<'_>) -> Result<(Vec<usize>, u64), SchemaError> {
    let sorted =
        topological_order(graph.nodes.len(), |node| graph.nodes[node].in_place.clone()).map_err(|node| {
            let hint = "let it refer to itself only within `properties` or `items`";
            SchemaError::new(
                graph.nodes[node].pointer.clone(),
                "the schema refers to itself at the same place",
                hint,
            )
        })?;
    let mut chain = vec![0; graph.nodes.len()];
    let mut order = vec![0; graph.nodes.len()];
    for (position, node) in sorted.iter().enumerate() {
        chain[*node] = graph.nodes[*node].in_place.iter().map(|next| chain[*next] + 1).max().unwrap_or(0);
        order[*node] = position;
        if chain[*node] > CHAIN {
            let message = format!("more than {CHAIN} references and alternatives lead from one to the next");
            return Err(SchemaError::new(
                graph.nodes[*node].pointer.clone(),
                message,
                "name the inner schema directly",
            ));
        }
    }
    Ok((order, chain.into_iter().max().unwrap_or_default() as u64))
}

/// Compilation recurses into nested subschemas, and up to a limit into the targets of references.
fn check_compiled_levels(graph: &Graph<'_>) -> Result<(), SchemaError> {
    let count = graph.nodes.len();
    // Nested subschemas are a tree, so there is an order.
    let sorted = topological_order(count, |node| graph.nodes[node].inside().collect()).unwrap_or_default();
    let mut levels = vec![0_u64; count];
    for _ in 0..=COMPILED_REFERENCES {
        let behind_reference = levels.clone();
        for node in &sorted {
            let inside = graph.nodes[*node].inside().map(|next| levels[next]);
            let referred = graph.nodes[*node].targets.iter().map(|target| behind_reference[*target]);
            levels[*node] = 1 + inside.chain(referred).max().unwrap_or(0);
        }
    }
    if levels.first().is_none_or(|levels| *levels <= COMPILED_LEVELS) {
        return Ok(());
    }
    let message =
        format!("more than {COMPILED_LEVELS} subschemas lie inside each other, references followed");
    Err(SchemaError::new("", message, "make the parts that are referred to flatter"))
}

/// Counts the subschemas after references are replaced by their targets. A recursive target is held once, however often it
/// is referred to.
fn count_unrolled(graph: &Graph<'_>) -> Result<u64, SchemaError> {
    let recursive = recursive_targets(graph);
    let edges = |node: usize| -> Vec<usize> {
        let targets = graph.nodes[node].targets.iter().copied().filter(|target| !recursive.contains(target));
        graph.nodes[node].inside().chain(targets).collect()
    };
    let mut sizes = vec![1_u64; graph.nodes.len()];
    // Without the recursive targets there is no cycle, so there is an order.
    for node in topological_order(graph.nodes.len(), edges).unwrap_or_default() {
        sizes[node] = edges(node).into_iter().fold(1, |size: u64, next| size.saturating_add(sizes[next]));
    }
    let total = recursive.iter().chain([&0]).fold(0_u64, |total, node| total.saturating_add(sizes[*node]));
    if total <= UNROLLED {
        return Ok(total);
    }
    let message = format!("with its references replaced, the schema has more than {UNROLLED} subschemas");
    Err(SchemaError::new("", message, "refer to large parts less often"))
}

/// Returns the targets of references that can be reached from themselves.
fn recursive_targets(graph: &Graph<'_>) -> BTreeSet<usize> {
    let targets: BTreeSet<usize> = graph.nodes.iter().flat_map(|node| node.targets.iter().copied()).collect();
    let reaches_itself = |target: &usize| {
        let mut seen = HashSet::new();
        let mut open = vec![*target];
        while let Some(node) = open.pop() {
            for next in graph.nodes[node].inside().chain(graph.nodes[node].targets.iter().copied()) {
                if next == *target {
                    return true;
                }
                if seen.insert(next) {
                    open.push(next);
                }
            }
        }
        false
    };
    targets.into_iter().filter(reaches_itself).collect()
}

/// Sorts the nodes so that each comes after the targets of its edges (depth-first search); returns a node of a cycle as
/// the error. Not recursive, since chains of references can be as long as the schema.
fn topological_order(count: usize, edges: impl Fn(usize) -> Vec<usize>) -> Result<Vec<usize>, usize> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Open,
        Done,
    }
    let mut states = vec![State::New; count];
    let mut sorted = Vec::with_capacity(count);
    for start in 0..count {
        let mut stack = vec![(start, None::<Vec<usize>>)];
        while let Some((node, left)) = stack.pop() {
            let mut left = match left {
                Some(left) => left,
                None if states[node] == State::Done => continue,
                None if states[node] == State::Open => return Err(node),
                None => {
                    states[node] = State::Open;
                    edges(node)
                }
            };
            match left.pop() {
                Some(next) => {
                    stack.push((node, Some(left)));
                    stack.push((next, None));
                }
                None => {
                    states[node] = State::Done;
                    sorted.push(node);
                }
            }
        }
    }
    Ok(sorted)
}

/// The subschemas that apply at a place, each with its multiplicity.
type NodeCounts = BTreeMap<usize, u64>;

struct WeightSearch<'a> {
    graph: &'a Graph<'a>,
    /// The position of each node in topological order.
    order: &'a [usize],
    steps: usize,
    seen: HashSet<Vec<(usize, u64)>>,
    open: VecDeque<(NodeCounts, usize)>,
}

impl<'a> WeightSearch<'a> {
    fn new(graph: &'a Graph<'a>, order: &'a [usize]) -> Self {
        Self { graph, order, steps: 0, seen: HashSet::new(), open: VecDeque::new() }
    }

    /// Returns the weight of all nodes, and that of the nodes within alternatives.
    fn run(mut self) -> Result<(Weight, Weight), SchemaError> {
        let inside = inside_alternatives(self.graph);
        let (mut weight, mut alternatives) = (Weight::default(), Weight::default());
        self.visit(NodeCounts::from([(0, 1)]), 0);
        while let Some((seeds, level)) = self.open.pop_front() {
            let counts = self.in_place(&seeds)?;
            weight.max_with(self.weight(&counts, |_| true));
            alternatives.max_with(self.weight(&counts, |node| inside[node]));
            if weight.keywords > WEIGHT {
                return Err(weight_error());
            }
            if level < LEVELS {
                self.inward(&counts, level + 1)?;
            }
        }
        Ok((weight, alternatives))
    }

    fn weight(&self, counts: &NodeCounts, included: impl Fn(usize) -> bool) -> Weight {
        let total = |cost: fn(&Node<'_>) -> u64| {
            let nodes = counts.iter().filter(|(node, _)| included(**node));
            let costs = nodes.map(|(node, times)| cost(&self.graph.nodes[*node]).saturating_mul(*times));
            costs.fold(0, u64::saturating_add)
        };
        Weight {
            keywords: total(|node| node.keywords),
            text_states: total(|node| node.text_states),
            errors: total(|node| node.errors),
            error_bytes: total(|node| node.error_bytes),
        }
    }

    fn visit(&mut self, seeds: NodeCounts, level: usize) {
        if !seeds.is_empty() && self.seen.insert(seeds.iter().map(|(node, times)| (*node, *times)).collect())
        {
            self.open.push_back((seeds, level));
        }
    }

    /// Adds to the seeds all nodes that they apply in place.
    fn in_place(&mut self, seeds: &NodeCounts) -> Result<NodeCounts, SchemaError> {
        // `unevaluated…` evaluates in-place subschemas again at each step, so each step may double.
        let factor = if self.graph.has_unevaluated { 2 } else { 1 };
        let mut open: BTreeMap<(usize, usize), u64> =
            seeds.iter().map(|(node, times)| ((self.order[*node], *node), *times)).collect();
        let mut counts = NodeCounts::new();
        while let Some(((_, node), times)) = open.pop_last() {
            self.step(1 + self.graph.nodes[node].in_place.len())?;
            if times > WEIGHT {
                return Err(weight_error());
            }
            for next in &self.graph.nodes[node].in_place {
                let entry = open.entry((self.order[*next], *next)).or_default();
                *entry = entry.saturating_add(times * factor);
            }
            counts.insert(node, times);
        }
        Ok(counts)
    }

    /// Visits the nodes that apply at each child of a place.
    fn inward(&mut self, counts: &NodeCounts, level: usize) -> Result<(), SchemaError> {
        let graph = self.graph;
        let names: BTreeSet<&str> =
            counts.keys().flat_map(|node| graph.nodes[*node].properties.keys().copied()).collect();
        let items = counts.keys().map(|node| graph.nodes[*node].prefix.len()).max().unwrap_or(0);
        self.step((names.len() + items + 3).saturating_mul(counts.len()))?;
        for name in names.into_iter().map(Some).chain([None]) {
            self.visit(child_counts(counts, |node| property(&graph.nodes[node], name)), level);
        }
        for index in 0..=items {
            self.visit(child_counts(counts, |node| item(&graph.nodes[node], index)), level);
        }
        self.visit(child_counts(counts, |node| graph.nodes[node].names.clone()), level);
        Ok(())
    }

    fn step(&mut self, steps: usize) -> Result<(), SchemaError> {
        self.steps = self.steps.saturating_add(steps);
        match self.steps > STEPS {
            true => Err(SchemaError::new(
                "",
                "the schema is too complex",
                "use fewer alternatives and references",
            )),
            false => Ok(()),
        }
    }
}

/// Returns the nodes that apply to the property of that name, or to a property without a schema of its own.
fn property(node: &Node<'_>, name: Option<&str>) -> Vec<usize> {
    let named = name.and_then(|name| node.properties.get(name));
    let others = if named.is_some() { &[] } else { node.other_properties.as_slice() };
    node.any_property.iter().chain(named).chain(others).copied().collect()
}

/// Returns the nodes that apply to the item at that index.
fn item(node: &Node<'_>, index: usize) -> Vec<usize> {
    let prefixed = node.prefix.get(index);
    let others = if prefixed.is_some() { &[] } else { node.other_items.as_slice() };
    node.every_item.iter().chain(prefixed).chain(others).copied().collect()
}

fn child_counts(counts: &NodeCounts, applied: impl Fn(usize) -> Vec<usize>) -> NodeCounts {
    let mut children = NodeCounts::new();
    for (node, times) in counts {
        for next in applied(*node) {
            let entry = children.entry(next).or_default();
            *entry = entry.saturating_add(*times);
        }
    }
    children
}

fn weight_error() -> SchemaError {
    let message = format!("more than {WEIGHT} keywords of the schema can meet at one place of a value");
    let hint = "let alternatives differ in a `const` property, and let a recursive schema refer to itself once for each part";
    SchemaError::new("", message, hint)
}
