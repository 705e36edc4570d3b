use std::collections::BTreeMap;
use std::time::Duration;

use cstor_api::names::phase::{BlockDeviceClaimState, BlockDeviceState};
use cstor_api::names::{annotation, condition, reason};
use cstor_api::openebs::{BlockDevice, BlockDeviceSpec, Identity};
use cstor_api::{Condition, ConditionStatus};
use cstor_reconcile::Decision;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::ObjectMeta;
use tokio::time::advance;

use super::agents::{Agents, Heard};
use super::decide::decide;
use super::observe::{Node, Observed};
use super::{BlockDeviceStatus, GRACE, NoStep};

const SECOND: Duration = Duration::from_secs(1);

fn device(state: BlockDeviceState) -> BlockDevice {
    let mut device = BlockDevice::new("disk", BlockDeviceSpec::default());
    device.spec.identity = Some(Identity::default());
    let status = device.status.get_or_insert_default();
    status.state = Some(state);
    status.claim_state = Some(BlockDeviceClaimState::Claimed);
    device
}

fn look(device: &BlockDevice, exists: bool, agent: Heard) -> Decision<NoStep, BlockDeviceStatus> {
    decide(&Observed {
        device: device.clone(),
        node: Some(Node {
            name: "node-1".into(),
            exists,
            agent,
        }),
        now: Timestamp::UNIX_EPOCH,
    })
}

#[test]
fn what_follows_from_silence() {
    use BlockDeviceState::{Active, Inactive, Unknown};
    let active = device(Active);
    // Alive, whatever became of the Node.
    for exists in [true, false] {
        assert_eq!(
            look(&active, exists, Heard::Yes(SECOND)),
            Decision::nothing().again(SECOND)
        );
    }
    // Silent.
    for (exists, agent) in [
        (true, Heard::Expired),
        (false, Heard::Expired),
        (false, Heard::Missing(GRACE)),
        (true, Heard::Missing(Duration::ZERO)),
    ] {
        let decision = look(&active, exists, agent);
        let mut written = decision.report.status.clone().unwrap();
        let said = written.conditions.take().unwrap_or_default();
        let [silent] = said.as_slice() else {
            panic!("one condition: {said:?}");
        };
        assert_eq!(
            (
                silent.type_.as_str(),
                silent.status.as_str(),
                silent.reason.as_deref()
            ),
            ("Present", "Unknown", Some("AgentSilent"))
        );
        assert!(
            silent
                .message
                .as_ref()
                .unwrap()
                .contains("Lease cstor-agent-node-1")
        );
        let mut expected = active.status.clone().unwrap();
        expected.state = Some(Unknown);
        assert_eq!(written, expected, "{agent:?}");
        assert_eq!(decision.report.events.len(), 1);
        // Once it is written, the event still holds, and nothing is left to write.
        let mut silent = active.clone();
        silent.status = decision.report.status.clone();
        let told = look(&silent, exists, agent);
        assert_eq!(
            (told.report.status, &told.report.events),
            (None, &decision.report.events)
        );
        // Nothing was said of the device when the agent fell silent.
        let mut new = active.clone();
        new.status.as_mut().unwrap().state = None;
        let decision = look(&new, exists, agent);
        assert_eq!(decision.report.status, silent.status);
        // Gone is for the agent to say.
        assert_eq!(look(&device(Inactive), exists, agent), Decision::nothing());
    }
    assert_eq!(
        look(&active, true, Heard::Missing(SECOND)),
        Decision::nothing().again(SECOND)
    );
}

/// Another node that has the disk waits for this word, whatever was wrong with the device before.
#[test]
fn a_device_that_was_unknown_before_is_said_to_be_of_a_silent_agent_too() {
    let mut hung = device(BlockDeviceState::Unknown);
    let said = |kind: &str, why: &str| Condition::new(kind, ConditionStatus::Unknown, why, "");
    hung.status.as_mut().unwrap().conditions = Some(vec![
        said(condition::PRESENT, reason::NOT_RESPONDING),
        said(condition::BLANK, reason::NOT_RESPONDING),
    ]);
    assert_eq!(
        look(&hung, true, Heard::Yes(SECOND)),
        Decision::nothing().again(SECOND),
        "its agent is watched as well"
    );
    let decision = look(&hung, true, Heard::Expired);
    let written = decision.report.status.unwrap();
    assert_eq!(written.state, Some(BlockDeviceState::Unknown));
    let conditions = written.conditions.as_ref().unwrap().iter();
    let reasons: Vec<_> = conditions.map(|condition| condition.reason.as_deref()).collect();
    assert_eq!(
        reasons,
        [Some(reason::AGENT_SILENT), Some(reason::NOT_RESPONDING)]
    );
    hung.status = Some(written);
    assert_eq!(look(&hung, true, Heard::Expired).report.status, None);
    assert_eq!(
        look(&hung, true, Heard::Yes(SECOND)),
        Decision::nothing(),
        "the next word is the agent's"
    );
}

#[test]
fn what_is_not_ours_to_judge() {
    let mut ndms = device(BlockDeviceState::Active);
    ndms.spec.identity = None;
    let nothing_ever = look(&ndms, true, Heard::Missing(Duration::ZERO));
    assert_eq!(nothing_ever, Decision::nothing().again(GRACE));
    assert!(
        look(&ndms, false, Heard::Missing(GRACE)).report.status.is_some(),
        "its Node is gone"
    );

    let mut alone = device(BlockDeviceState::Active);
    alone.metadata.annotations = Some(BTreeMap::from([(
        annotation::BLOCK_DEVICE_RECONCILE.into(),
        "false".into(),
    )]));
    assert_eq!(look(&alone, false, Heard::Expired), Decision::nothing());
    let nowhere = decide(&Observed {
        device: device(BlockDeviceState::Active),
        node: None,
        now: Timestamp::UNIX_EPOCH,
    });
    assert_eq!(nowhere, Decision::nothing());
}

fn lease(version: u32, holder: &str) -> Lease {
    Lease {
        metadata: ObjectMeta {
            name: Some("cstor-agent-node-1".into()),
            resource_version: Some(version.to_string()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(holder.into()),
            lease_duration_seconds: Some(10),
            renew_time: Some(MicroTime(Timestamp::from_second(i64::from(version)).unwrap())),
            ..LeaseSpec::default()
        }),
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_stops_changing_expires() {
    let agents = Agents::default();
    let hear = |version| agents.hear("cstor-agent-node-1", Some(&lease(version, "node-1")));
    assert_eq!(hear(1), Heard::Yes(SECOND * 10));
    advance(SECOND * 9).await;
    assert_eq!(hear(1), Heard::Yes(SECOND));
    agents.note(&lease(2, "node-1"));
    advance(SECOND * 4).await;
    assert_eq!(
        hear(2),
        Heard::Yes(SECOND * 6),
        "counted from when the watch told"
    );
    advance(SECOND * 6).await;
    assert_eq!(hear(2), Heard::Expired);
    assert_eq!(hear(3), Heard::Yes(SECOND * 10));
}

/// A watch that lost an event tells old news for a while. It must neither hide that the agent is silent nor that it is alive.
#[tokio::test(start_paused = true)]
async fn a_cache_that_is_behind_is_no_news() {
    let agents = Agents::default();
    let hear = |version| agents.hear("cstor-agent-node-1", Some(&lease(version, "node-1")));
    hear(1);
    hear(2);
    for _ in 0..9 {
        advance(SECOND).await;
        assert!(matches!(hear(1), Heard::Yes(_)), "old news is not silence");
    }
    advance(SECOND).await;
    assert_eq!(hear(1), Heard::Expired, "old news is not a sign of life");
    assert_eq!(hear(2), Heard::Expired);
}

#[tokio::test(start_paused = true)]
async fn a_missing_lease_has_a_grace() {
    let agents = Agents::default();
    let hear = |lease: Option<&Lease>| agents.hear("cstor-agent-node-1", lease);
    assert_eq!(hear(None), Heard::Missing(GRACE));
    advance(GRACE - SECOND).await;
    assert_eq!(
        hear(Some(&lease(1, ""))),
        Heard::Missing(SECOND),
        "nobody holds it"
    );
    advance(SECOND * 2).await;
    assert_eq!(hear(None), Heard::Missing(Duration::ZERO));
    assert_eq!(hear(Some(&lease(2, "node-1"))), Heard::Yes(SECOND * 10));
    assert_eq!(hear(None), Heard::Missing(GRACE), "the time begins anew");
    agents.forget("cstor-agent-node-1");
    assert_eq!(hear(None), Heard::Missing(GRACE));
}
