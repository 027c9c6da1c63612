//! Generates the JSON schema of all events from the code, and checks that `docs` has the same one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use outlive_core::failure::{Cause, Failure};
use outlive_core::id::{InstanceNum, Name};
use outlive_core::journal::{Entry, EntryKind};
use outlive_core::lifecycle::{Detail, LifecycleRecord, LifecycleRecordKind};
use outlive_core::payload::Payload;
use outlive_core::store::query::{FeedContent, FeedItem};
use outlive_core::time::Timestamp;
use serde_json::{Map, Value, json};

use super::convert;
use super::event::LifecycleEvent;

const AT: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const LATER: Timestamp = Timestamp::from_millis(1_700_000_001_000);

fn failure() -> Failure {
    let details = Payload::recorded(r#"{"code":51}"#);
    let mut failure = Failure::new(Cause::Error, "declined").with_details(details).permanent();
    failure.causes.push("no funds".into());
    failure
}

/// Returns an entry of a kind with everything it can have, or with as little as it can.
fn entry(kind: EntryKind, is_full: bool) -> Entry {
    let bare = Entry { op: "step:charge".into(), attempt: 1, ..Entry::of_run(1, AT, kind) };
    if !is_full {
        return bare;
    }
    let kept = failure().to_payload();
    let open = kept.as_str().trim_end_matches('}');
    let payload = match kind {
        EntryKind::AttemptFailed => {
            format!(r#"{open},"retry":{{"base_delay_ms":900,"backoff":"linear","jitter":"full"}}}}"#)
        }
        EntryKind::FallingBack => format!(r#"{open},"ended":"max duration"}}"#),
        EntryKind::StepFailed => format!(r#"{{"ended":"max attempts","failure":{kept}}}"#),
        EntryKind::SignalRefused => r#"{"value":7,"problem":"why"}"#.into(),
        _ => "\"why\"".into(),
    };
    let payload = Some(Payload::recorded(&payload));
    Entry { op: "a%2Fb/step:charge[42]#2".into(), started: Some(AT), due: Some(LATER), payload, ..bare }
}

/// Returns a lifecycle record of a kind with everything it can have, or with as little as it can.
fn lifecycle_record(kind: LifecycleRecordKind, is_full: bool) -> LifecycleRecord {
    let detail = match kind {
        _ if !is_full => return LifecycleRecord::new(kind, AT),
        LifecycleRecordKind::RunPaused => Payload::encode(&("sleeping", LATER)).expect("a pause serializes"),
        LifecycleRecordKind::RunFailed => failure().to_payload(),
        LifecycleRecordKind::RunCancelled | LifecycleRecordKind::RunStuck => Payload::recorded("\"why\""),
        _ => Detail {
            event: Some(1),
            events: Some(2),
            run: Some(3),
            handler: Some("execute".into()),
            duration_ms: Some(4),
            error: Some("declined".into()),
            retry_at: Some(LATER),
            delay_ms: Some(1000),
            base_delay_ms: Some(900),
            backoff: Some("linear".into()),
            jitter: Some("full".into()),
            reason: Some("why".into()),
            at: Some(LATER),
        }
        .to_payload(),
    };
    LifecycleRecord { attempt: 2, ..LifecycleRecord::new(kind, AT).with(detail) }
}

fn item_of(content: FeedContent) -> FeedItem {
    let (id, workflow) = (Name::recorded("order-42"), Name::recorded("checkout"));
    FeedItem { pos: 9, num: InstanceNum(7), id, workflow, number: 5, content }
}

/// Returns the events of each kind of feed entry, full and bare.
fn samples() -> Vec<(String, Vec<LifecycleEvent>)> {
    let both = [true, false];
    let entries = EntryKind::ALL.into_iter().flat_map(|kind| both.map(|full| FeedContent::Entry(entry(kind, full))));
    let records = LifecycleRecordKind::ALL
        .iter()
        .flat_map(|kind| both.map(|full| FeedContent::Lifecycle(lifecycle_record(*kind, full))));
    let contents = entries.chain(records);
    contents.map(|content| (format!("{content:?}"), convert::events(&item_of(content)))).collect()
}

/// Returns the schema of a value, by example.
fn of_value(member: &str, value: &Value) -> Value {
    match value {
        Value::Object(_) if member == "failure" => json!({ "$ref": "#/$defs/failure" }),
        Value::Object(members) => {
            let properties: Map<_, _> =
                members.iter().map(|(key, value)| (key.clone(), of_value(key, value))).collect();
            json!({ "type": "object", "properties": properties, "required": ["attempt", "due", "delay_ms"] })
        }
        Value::Bool(_) => json!({ "type": "boolean" }),
        Value::Number(_) => json!({ "type": "integer" }),
        Value::String(_) => json!({ "type": "string" }),
        other => panic!("no event has {other} in {member}"),
    }
}

fn schema() -> Value {
    let mut types: BTreeMap<String, (Map<String, Value>, BTreeSet<String>)> = BTreeMap::new();
    for event in samples().into_iter().flat_map(|(_, events)| events) {
        let Ok(Value::Object(members)) = serde_json::to_value(&event) else { panic!("{event} is not an object") };
        let keys: BTreeSet<String> = members.keys().cloned().collect();
        let known = types.entry(event.kind.as_str().to_owned()).or_insert_with(|| (Map::new(), keys.clone()));
        known.1 = known.1.intersection(&keys).cloned().collect();
        known.0.extend(members.iter().map(|(key, value)| (key.clone(), of_value(key, value))));
        known.0.insert("type".into(), json!({ "const": event.kind.as_str() }));
    }
    let variants: Vec<Value> = types
        .into_iter()
        .map(|(name, (properties, required))| json!({ "title": name, "properties": properties, "required": required }))
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A lifecycle event of Outlive",
        "description": "Times are milliseconds since 1970, in UTC. Members may be added. A step.started that is \
                        reported live, in the process that executes it, is not committed: its number is 0, and its \
                        cursor is the cursor of the event before it.",
        "type": "object",
        "oneOf": variants,
        "$defs": { "failure": {
            "type": "object",
            "properties": {
                "cause": { "enum": ["error", "panic", "timeout", "interrupted", "output", "cancelled"] },
                "message": { "type": "string" },
                "causes": { "type": "array", "items": { "type": "string" } },
                "details": true,
                "permanent": { "type": "boolean" }
            },
            "required": ["cause", "message"]
        } }
    })
}

#[test]
fn every_feed_item_converts_to_events() {
    for (line, events) in samples() {
        assert!(!events.is_empty(), "no event for {line}");
        for event in events {
            let json = serde_json::to_value(&event).expect("events serialize");
            assert_eq!(json["type"], event.kind.as_str());
            assert!(event.to_string().contains(event.kind.as_str()));
        }
    }
}

#[test]
fn feed_item_with_two_events_has_two_numbers_and_cursors() {
    let events =
        convert::events(&item_of(FeedContent::Lifecycle(lifecycle_record(LifecycleRecordKind::RunBegun, false))));
    let ids: Vec<_> = events.iter().map(|event| (event.id.as_str(), event.number, event.kind.as_str())).collect();
    assert_eq!(ids, [("7-4", 4, "run.queued"), ("7-5", 5, "run.started")]);
    assert_eq!((events[0].cursor.pos(), events[1].cursor.pos()), (8, 9));
    assert!(events[0].cursor < events[1].cursor);
}

#[test]
fn step_event_has_both_name_and_operation() {
    let event = convert::events(&item_of(FeedContent::Entry(entry(EntryKind::StepDone, true)))).remove(0);
    let json = serde_json::to_value(&event).expect("events serialize");
    assert_eq!((json["step"].as_str(), json["operation"].as_str()), (Some("charge"), Some("a%2Fb/step:charge[42]#2")));
}

/// Run `OUTLIVE_WRITE_SCHEMA=1 cargo test -p outlive schema` to write it.
#[test]
fn schema_in_docs_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lifecycle-events.schema.json");
    let made = serde_json::to_string_pretty(&schema()).expect("a schema serializes") + "\n";
    if std::env::var_os("OUTLIVE_WRITE_SCHEMA").is_some() {
        std::fs::write(&path, &made).expect("docs can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == made, "{} is out of date; update it with OUTLIVE_WRITE_SCHEMA=1", path.display());
}
