//! The Leases of our processes.

/// What the name of an agent's heartbeat Lease begins with; the name of its node follows.
pub const AGENT_PREFIX: &str = "cstor-agent-";

/// The Lease that the controller's replicas compete for.
pub const CONTROLLER: &str = "cstor-controller";

/// The label that says which program a Lease is of, by which the controller finds the Leases of all agents.
pub const COMPONENT_LABEL: &str = "app.kubernetes.io/component";

/// Its value on the Leases of agents.
pub const AGENT_COMPONENT: &str = "cstor-agent";
