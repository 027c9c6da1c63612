//! Values that a run has published, as they are shown to people.

use std::collections::BTreeMap;

use outlive::{Client, Payload, RunInfo, Share};

use crate::open::AnyRun;

/// The published values of a run, by name.
pub(crate) type Published = BTreeMap<String, Payload>;

/// The name under which a run publishes how far it is.
const PROGRESS: &str = "progress";

/// Returns a value for people: `progress` as a share of the work, if it is one.
pub(crate) fn shown(name: &str, value: &Payload) -> String {
    let share = (name == PROGRESS).then(|| value.decode::<Share>().ok()).flatten();
    share.map_or_else(|| value.to_string(), |share| share.to_string())
}

/// Returns how far a run is, if it has not ended and has published that.
pub(crate) async fn progress(client: &Client, run: &RunInfo) -> Option<Share> {
    if run.status.is_ended() || run.started_at.is_none() {
        return None;
    }
    // What cannot be read is shown by `outlive value`, not in a list.
    let run: AnyRun = client.get_run(&run.id).await.ok()?;
    run.value(PROGRESS).await.ok()?
}
