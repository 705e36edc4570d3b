//! Pools in a list, and their properties.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::status::pool_state;
use super::{Members, Number, Parsed, json};
use crate::{Guid, PoolName, PoolSummary};

#[derive(Deserialize)]
struct Pools {
    pools: Members<Pool>,
}

#[derive(Deserialize)]
struct Pool {
    name: String,
    state: String,
    pool_guid: Number,
    #[serde(default)]
    properties: Members<Property>,
}

#[derive(Deserialize)]
struct Property {
    value: String,
}

/// What `zpool list -j` printed. With no pool it prints nothing at all.
pub(in crate::real) fn pools(text: &str) -> Parsed<Vec<PoolSummary>> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let Pools { pools } = json(text)?;
    let summary = |(_, pool): (String, Pool)| {
        Ok(PoolSummary {
            name: PoolName::new(pool.name).map_err(|error| error.to_string())?,
            guid: Guid(pool.pool_guid.0),
            state: pool_state(&pool.state),
        })
    };
    pools.0.into_iter().map(summary).collect()
}

/// What `zpool get -j` printed of this pool.
pub(in crate::real) fn properties(text: &str, pool: &PoolName) -> Parsed<BTreeMap<String, String>> {
    let Pools { pools } = json(text)?;
    let properties = pools.only(pool.as_str())?.properties.0;
    if properties.is_empty() {
        return Err("there are no properties in it".to_owned());
    }
    let value = |(name, property): (String, Property)| (name, property.value);
    Ok(properties.into_iter().map(value).collect())
}
