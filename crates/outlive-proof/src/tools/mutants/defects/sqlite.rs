//! Defects of the store on SQLite.

use super::{Defect, Edit};

const BATCH: &str = "crates/outlive-sqlite/src/write/batch.rs";
const CACHE: &str = "crates/outlive-sqlite/src/write/cache.rs";
const CARRIED: &str = "crates/outlive-sqlite/src/write/carried.rs";
const COMMIT: &str = "crates/outlive-sqlite/src/write/commit.rs";
const INBOX: &str = "crates/outlive-sqlite/src/write/inbox.rs";
const LEASE: &str = "crates/outlive-sqlite/src/write/lease.rs";
const MESSAGE: &str = "crates/outlive-sqlite/src/write/message.rs";
const PUSH: &str = "crates/outlive-sqlite/src/write/push.rs";
const TURN: &str = "crates/outlive-sqlite/src/write/turn.rs";

pub(super) const DEFECTS: &[Defect] = &[
    Defect {
        name: "SqliteUnfenced",
        breaks: "SQLite: a write under a lost lease is accepted. Breaks P5.",
        edits: &[Edit {
            file: BATCH,
            original: "&& epoch.0 == self.epoch",
            replacement: r#"&& (epoch.0 == self.epoch || outlive_core::defect::is_on("SqliteUnfenced"))"#,
        }],
    },
    Defect {
        name: "SqliteHalved",
        breaks: "SQLite: the entries of a commit are stored but its state is not. Breaks P1.",
        edits: &[
            Edit {
                file: COMMIT,
                original: r"match &commit.state {
        Some(state) => {",
                replacement: r#"match commit.state.as_ref().filter(|_| !outlive_core::defect::is_on("SqliteHalved")) {
        Some(state) => {"#,
            },
            Edit {
                file: TURN,
                original: "match &turn.state {",
                replacement: r#"match turn.state.as_ref().filter(|_| !outlive_core::defect::is_on("SqliteHalved")) {"#,
            },
        ],
    },
    Defect {
        name: "SqlitePassesMessage",
        breaks: "SQLite: a run pauses or ends despite a message it has not seen. Breaks P4.",
        edits: &[Edit {
            file: INBOX,
            original: "if facts.inbox_last <= seen {",
            replacement: r#"if facts.inbox_last <= seen || outlive_core::defect::is_on("SqlitePassesMessage") {"#,
        }],
    },
    Defect {
        name: "SqliteDedupIgnored",
        breaks: "SQLite: dedup keys are ignored. Breaks P4.",
        edits: &[
            Edit {
                file: MESSAGE,
                original: r"= &send.dedup
        && let",
                replacement: r#"= send.dedup.as_ref().filter(|_| !outlive_core::defect::is_on("SqliteDedupIgnored"))
        && let"#,
            },
            Edit {
                file: PUSH,
                original: "&& inbox::pos_of_key(batch.connection, receiver.num, key)?.is_some()",
                replacement: r#"&& inbox::pos_of_key(batch.connection, receiver.num, key)?.is_some()
            && !outlive_core::defect::is_on("SqliteDedupIgnored")"#,
            },
        ],
    },
    Defect {
        name: "SqliteWakesNobody",
        breaks: "SQLite: a message does not wake its receiver. Breaks P4.",
        edits: &[Edit {
            file: INBOX,
            original: "|| receiver.status == Status::Stuck {",
            replacement: r#"|| receiver.status == Status::Stuck
        || outlive_core::defect::is_on("SqliteWakesNobody")
    {"#,
        }],
    },
    Defect {
        name: "SqliteFreesNobody",
        breaks: "SQLite: a new lease does not release the instances of the dead owner. Breaks P5.",
        edits: &[Edit {
            file: LEASE,
            original: r"let values = params![now.as_millis(), culprit(batch.connection)?];
    let driven = batch.connection.prepare_cached(sql)?.execute(values)?;",
            replacement: r#"let mut driven = 0;
    if !outlive_core::defect::is_on("SqliteFreesNobody") {
        let values = params![now.as_millis(), culprit(batch.connection)?];
        driven = batch.connection.prepare_cached(sql)?.execute(values)?;
    }"#,
        }],
    },
    Defect {
        name: "SqliteMarksUnkept",
        breaks: "SQLite: the last assigned numbers are not stored, so they are assigned again. Breaks P4.",
        edits: &[Edit {
            file: CACHE,
            original: "if new != kept {",
            replacement: r#"if new != kept && !outlive_core::defect::is_on("SqliteMarksUnkept") {"#,
        }],
    },
    Defect {
        name: "SqliteStaleMemory",
        breaks: "SQLite: cached state is trusted although another process has written. Breaks P4.",
        edits: &[Edit {
            file: CACHE,
            original: "|before| before == now) {",
            replacement: r#"|before| before == now) || outlive_core::defect::is_on("SqliteStaleMemory") {"#,
        }],
    },
    Defect {
        name: "SqlitePushKeptTwice",
        breaks: "SQLite: a push sent again after a lost reply is stored twice. Breaks P4.",
        edits: &[
            Edit {
                file: PUSH,
                original: "Ok(written > 0)",
                replacement: r#"Ok(written > 0 || outlive_core::defect::is_on("SqlitePushKeptTwice"))"#,
            },
            Edit {
                file: PUSH,
                original: "let mut statement = connection.prepare_cached(KNOWN)?;",
                replacement: r#"if outlive_core::defect::is_on("SqlitePushKeptTwice") {
        return Ok(None);
    }
    let mut statement = connection.prepare_cached(KNOWN)?;"#,
            },
        ],
    },
    Defect {
        name: "SqliteRefusedTurnSends",
        breaks: "SQLite: the messages of a refused turn or commit are sent anyway. Breaks P1.",
        edits: &[Edit {
            file: CARRIED,
            original: "if sent.is_err() {",
            replacement: r#"if sent.is_err() && !outlive_core::defect::is_on("SqliteRefusedTurnSends") {"#,
        }],
    },
    Defect {
        name: "SqliteTurnPassesItself",
        breaks: "SQLite: what a turn has not seen, in its queue or sent to itself, \
                 is passed by when it leaves. Breaks P4.",
        edits: &[Edit {
            file: TURN,
            original: "reaches_itself.then_some(",
            replacement: r#"(reaches_itself && !outlive_core::defect::is_on("SqliteTurnPassesItself")).then_some("#,
        }],
    },
];
