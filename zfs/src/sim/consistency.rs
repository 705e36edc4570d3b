//! What cannot be. A test of the simulator looks for it after everything it does.

use std::collections::{BTreeMap, BTreeSet};

use super::SimHosts;
use super::vdev::Node;
use super::world::World;
use crate::State;

impl SimHosts {
    /// What is wrong with the world: nothing, whatever was done to it.
    #[must_use]
    pub fn inconsistencies(&self) -> Vec<String> {
        self.act(|world| world.inconsistencies())
    }
}

impl World {
    /// What cannot be: see [`SimHosts::inconsistencies`].
    fn inconsistencies(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (host, state) in &self.hosts {
            let mut open = BTreeMap::new();
            let mut numbers = BTreeSet::new();
            for (name, imported) in &state.pools {
                let pool = &imported.pool;
                if !numbers.insert(pool.guid) {
                    wrong.push(format!("{host}: the number of {name} is not its own"));
                }
                let tops = pool.tops.iter().chain(&pool.cache);
                let nodes = tops.flat_map(Node::all);
                for node in nodes {
                    if !numbers.insert(node.guid) {
                        wrong.push(format!("{host}: {name} has the number {} twice", node.guid));
                    }
                    let Some(leaf) = &node.leaf else {
                        continue;
                    };
                    let Some(serial) = &leaf.disk else {
                        if leaf.state().0 == State::Online {
                            wrong.push(format!(
                                "{host}: {} of {name} is online without a disk",
                                node.guid
                            ));
                        }
                        continue;
                    };
                    if leaf.state().0 != State::Online {
                        wrong.push(format!("{host}: {} of {name} is not online and open", node.guid));
                    }
                    if let Some(other) = open.insert(serial.clone(), name.clone()) {
                        wrong.push(format!("{host}: {serial} is open in {other} and {name}"));
                    }
                    let usable = self.disks.get(serial).map(|disk| disk.bytes);
                    if usable.is_none_or(|bytes| bytes < leaf.bytes) {
                        wrong.push(format!("{host}: {serial} is smaller than {name} believes"));
                    }
                }
                if pool.datasets.written() > pool.usable() {
                    wrong.push(format!("{host}: more is written to {name} than it holds"));
                }
                if imported.suspended && pool.is_writable() {
                    wrong.push(format!("{host}: {name} is suspended without need"));
                }
            }
        }
        wrong
    }
}
