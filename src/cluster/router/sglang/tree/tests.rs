//! The tree beside a list of prompts.

use proptest::prelude::*;
use rand::SeedableRng;

use super::super::draw::Draw;
use super::super::text::Characters;
use super::*;
use crate::rng::Stream;

/// What each worker got, character by character: every prefix of every prompt.
#[derive(Default)]
struct Naive(Vec<(Worker, String)>);

impl Naive {
    fn common(a: &str, b: &str) -> usize {
        a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count()
    }

    fn matched(&self, text: &str) -> usize {
        self.0.iter().map(|(_, known)| Self::common(known, text)).max().unwrap_or(0)
    }

    fn known(&self, worker: Worker, text: &str) -> usize {
        let own = self.0.iter().filter(|(of, _)| *of == worker);
        own.map(|(_, known)| Self::common(known, text)).max().unwrap_or(0)
    }

    /// Distinct prefixes.
    fn size(&self, worker: Worker) -> usize {
        let own = self.0.iter().filter(|(of, _)| *of == worker);
        let prefixes = own.flat_map(|(_, text)| (1..=text.len()).map(|end| &text[..end]));
        prefixes.collect::<std::collections::BTreeSet<_>>().len()
    }
}

fn text(of: &str) -> Characters {
    Characters::new(of.chars())
}

fn workers() -> impl Iterator<Item = Worker> {
    (0..3).map(Worker::from_index)
}

/// What the tree says of itself holds.
fn assert_whole(tree: &Tree<Characters>) {
    let mut sizes = vec![0; tree.sizes.len()];
    for (id, node) in tree.nodes.iter().enumerate() {
        if id as NodeId == ROOT {
            continue;
        }
        let Some(text) = &node.text else {
            assert!(tree.free.contains(&(id as NodeId)), "{id} is gone and not free");
            continue;
        };
        assert!(text.len() > 0 && !node.users.is_empty(), "{id} stands for nothing");
        assert_eq!(tree.children.get(&(node.parent, text.head())), Some(&(id as NodeId)));
        for (user, _) in &node.users {
            assert!(
                tree.nodes[node.parent as usize].has(*user),
                "{user} uses {id} and not the one above"
            );
            sizes[user.index()] += u64::from(text.len());
        }
    }
    assert_eq!(tree.sizes, sizes);
    assert_eq!(tree.children.len() + tree.free.len() + 1, tree.nodes.len());
}

proptest! {
    #[test]
    fn the_tree_knows_what_a_list_of_prompts_knows(
        prompts in prop::collection::vec(("[ab]{0,8}", 0_usize..3), 1..30),
        asked in prop::collection::vec("[abc]{0,9}", 1..10),
        removed in 0_usize..4,
    ) {
        let (mut tree, mut naive) = (Tree::new(0), Naive::default());
        let mut draw = Stream::seed_from_u64(1);
        for (prompt, worker) in &prompts {
            let worker = Worker::from_index(*worker);
            tree.insert(&text(prompt), worker);
            naive.0.push((worker, prompt.clone()));
        }
        if removed < 3 {
            let removed = Worker::from_index(removed);
            tree.remove(removed);
            naive.0.retain(|(worker, _)| *worker != removed);
        }
        assert_whole(&tree);
        for asked in &asked {
            prop_assert_eq!(tree.find(&text(asked), &mut draw).0 as usize, naive.matched(asked));
            let known = tree.known(&text(asked));
            for worker in workers() {
                let known = known.get(worker.index()).copied().unwrap_or(0);
                prop_assert_eq!(known as usize, naive.known(worker, asked));
            }
        }
        for worker in workers() {
            let size = tree.sizes.get(worker.index()).copied().unwrap_or(0);
            prop_assert_eq!(size as usize, naive.size(worker));
        }
    }

    #[test]
    fn an_eviction_leaves_no_more_than_the_limit_and_a_whole_tree(
        prompts in prop::collection::vec(("[ab]{0,8}", 0_usize..3), 1..30),
        later in prop::collection::vec(("[ab]{0,8}", 0_usize..3), 0..10),
        limit in 0_u64..20,
    ) {
        let mut tree = Tree::new(0);
        let mut draw = Stream::seed_from_u64(1);
        for (prompt, worker) in &prompts {
            tree.find(&text(prompt), &mut draw);
            tree.insert(&text(prompt), Worker::from_index(*worker));
        }
        let before = tree.sizes.clone();
        tree.evict(limit);
        assert_whole(&tree);
        for (before, after) in before.iter().zip(&tree.sizes) {
            prop_assert!(*after <= limit && (before == after || *before > limit));
        }
        for (prompt, worker) in &later {
            tree.find(&text(prompt), &mut draw);
            tree.insert(&text(prompt), Worker::from_index(*worker));
            assert_whole(&tree);
        }
    }

    #[test]
    fn an_owner_uses_what_it_owns(
        steps in prop::collection::vec(("[ab]{0,8}", 0_usize..3, 0_u8..8), 1..40),
    ) {
        let mut tree = Tree::new(0);
        let mut draw = Stream::seed_from_u64(1);
        for (prompt, worker, step) in &steps {
            let worker = Worker::from_index(*worker);
            match step {
                0 => tree.remove(worker),
                1 => tree.evict(6),
                _ => tree.insert(&text(prompt), worker),
            }
            let (matched, owner) = tree.find(&text(prompt), &mut draw);
            if let Some(owner) = owner {
                prop_assert!(matched > 0 && tree.known(&text(prompt))[owner.index()] == matched);
            } else {
                prop_assert_eq!(matched, 0);
            }
        }
    }
}

#[test]
fn the_first_worker_keeps_the_beginning_of_a_prompt() {
    struct Never;
    impl Draw for Never {
        fn below(&mut self, _: usize) -> usize {
            unreachable!("no owner is lost")
        }
    }
    let [a, b] = [0, 1].map(Worker::from_index);
    let mut tree = Tree::new(0);
    tree.insert(&text("systemone"), a);
    tree.insert(&text("systemtwo"), b);
    tree.insert(&text("system"), b);
    // Split at `system`: the upper node keeps its owner, whoever used it last.
    assert_eq!(tree.find(&text("system!"), &mut Never), (6, Some(a)));
    assert_eq!(tree.find(&text("systemt!"), &mut Never), (7, Some(b)));
    assert_eq!(tree.sizes(), [9, 9]);
}
