//! Invariants between rows, as queries that return nothing in a sound store.
//!
//! The status codes are those of the journal format: 0 pending, 1 running, 2 paused by an operator, 3 stuck, 4 completed,
//! 5 failed, 6 cancelled, 7 sleeping, 8 waiting, 9 retrying. Each query returns the number of an instance, or NULL, and a
//! sentence that says what was found.

/// The condition that a row of `instance` belongs to a job.
macro_rules! is_job {
    () => {
        "substr(workflow, 1, instr(workflow, ':') - 1) IN ('continuous', 'debounce', 'task', 'pool')"
    };
}

mod jobs;
mod outputs;

use super::examiner::Examiner;
use super::report::FindingKind;
use crate::row;

pub(super) use jobs::RULES as OF_JOBS;
pub(super) use outputs::RULES as OF_OUTPUTS;

pub(super) struct Rule {
    pub(super) name: &'static str,
    kind: FindingKind,
    question: &'static str,
    holds: &'static str,
    remedy: &'static str,
}

impl Rule {
    pub(super) fn apply(&self, examiner: &mut Examiner<'_>) -> rusqlite::Result<()> {
        let mut statement = examiner.connection.prepare(self.question)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let found = row::text(row, 1).into_owned();
            examiner.find(self.kind, row::int(row, 0), found, self.holds, self.remedy);
        }
        Ok(())
    }
}

const RESTART: &str = "restart the program that executes the file, which takes over what it finds; report this";
const RESUME: &str =
    "`outlive resume` makes it due at once; if it never started, cancel it and start it again; report this";
const REPORT: &str = "no run is affected; report this";
const REPLACE: &str = "restore the file from a backup, or purge the instance; report this";

pub(super) const RULES: [Rule; 16] = [
    Rule {
        name: "file-wide numbers",
        kind: FindingKind::Mark,
        question: "SELECT NULL, CASE WHEN value IS NULL THEN 'the mark \"' || wanted || '\" is missing' ELSE \
                 'the mark \"' || wanted || '\" is ' || value || ', but ' || used || ' is in use' END \
             FROM (SELECT 'schema' AS wanted, 6 AS used \
                 UNION ALL SELECT 'epoch', (SELECT max(owner) FROM instance WHERE owner <> 0) \
                 UNION ALL SELECT 'num', (SELECT max(num) FROM (SELECT max(num) AS num FROM instance UNION ALL SELECT max(num) FROM gone)) \
                 UNION ALL SELECT 'pushed', NULL \
                 UNION ALL SELECT 'feed', (SELECT max(pos) FROM (SELECT max(pos) AS pos FROM entry \
                     UNION ALL SELECT max(pos) FROM lifecycle UNION ALL SELECT max(pos) FROM gone)) \
                 UNION ALL SELECT 'pos', (SELECT max(pos) FROM (SELECT max(pos) AS pos FROM sent \
                     UNION ALL SELECT max(pos) FROM inbox UNION ALL SELECT max(pos) FROM dedup \
                     UNION ALL SELECT max(pos) FROM dead UNION ALL SELECT max(pos) FROM reply UNION ALL SELECT max(item) FROM output WHERE kind = 3))) \
             LEFT JOIN meta ON key = wanted WHERE value IS NULL OR used > value",
        holds: "the last epoch, instance number and positions are at least those in use",
        remedy: "restore the file from a backup, or numbers will be used twice; report this",
    },
    Rule {
        name: "statuses",
        kind: FindingKind::Status,
        question: concat!(
            "SELECT num, CASE \
                 WHEN until IS NOT NULL AND status NOT IN (7, 8, 9) THEN 'its status is ' || status || ' but it resumes at ' || until \
                 WHEN until IS NULL AND status IN (7, 9) THEN 'its status is ' || status || ' and nothing says when it resumes' \
                 WHEN (status IN (4, 5, 6)) <> (ended_at IS NOT NULL) THEN 'its status is ' || status || ' and it ended at ' || coalesce(ended_at, 'NULL') \
                 WHEN (status IN (4, 5)) <> (outcome IS NOT NULL) AND NOT ",
            is_job!(),
            " THEN 'its status is ' || status || ' and it has ' || iif(outcome IS NULL, 'no outcome', 'an outcome') \
                 WHEN status = 3 AND note IS NULL THEN 'it is stuck, and nothing says why' \
                 WHEN status IN (1, 2, 4, 5, 7, 8, 9) AND started_at IS NULL THEN 'its status is ' || status || ' and it never began' \
                 WHEN recoveries < 0 THEN 'it recovered ' || recoveries || ' times' \
                 WHEN blamed NOT BETWEEN 0 AND recoveries THEN 'it is blamed for ' || blamed || ' of ' || recoveries || ' crashes' \
             END AS found FROM instance WHERE found IS NOT NULL",
        ),
        // The outcome of a job is its record, which it may or may not have.
        holds: "until, end, outcome and note match the status",
        remedy: REPLACE,
    },
    Rule {
        name: "restarts",
        kind: FindingKind::Journal,
        question: "SELECT num, 'it restarted ' || restarts || ' times, but entry ' || journal || ' does not begin a journal' \
             FROM instance WHERE (journal <> 1 OR restarts <> 0) AND NOT EXISTS (SELECT 1 FROM entry \
                 WHERE entry.instance = num AND seq = journal AND kind = 110 AND attempt = restarts + 1)",
        holds: "the journal of a run that has restarted begins with the entry of its last restart",
        remedy: REPLACE,
    },
    Rule {
        name: "wakes of live instances",
        kind: FindingKind::NoWake,
        question: "SELECT num, CASE status WHEN 0 THEN 'it is pending' WHEN 1 THEN 'it is running' \
                 WHEN 7 THEN 'it is sleeping' WHEN 8 THEN 'it is waiting' ELSE 'it is retrying' END || ', nobody drives it, and no wake is set' \
             FROM instance WHERE status <> 4 AND status IN (0, 1, 7, 8, 9) AND owner = 0 AND wake IS NULL \
                 AND NOT (status = 8 AND until IS NULL)",
        holds: "a live instance has a wake or is driven, unless it waits for a signal or a resume",
        remedy: RESUME,
    },
    Rule {
        name: "owners",
        kind: FindingKind::Owner,
        question: "SELECT num, 'it is driven under lease ' || owner || ', but the last one is ' || value \
             FROM instance, meta WHERE owner <> 0 AND key = 'epoch' AND owner <> value \
             UNION ALL SELECT num, 'its status is ' || status || ' and it is driven under lease ' || owner \
             FROM instance WHERE owner <> 0 AND status NOT IN (1, 2)",
        holds: "a driven instance is running or paused by hand, under the last lease",
        remedy: RESTART,
    },
    Rule {
        name: "stray wakes",
        kind: FindingKind::Owner,
        question: "SELECT num, 'its status is ' || status || ' and it is to wake at ' || wake FROM instance \
             WHERE wake IS NOT NULL AND status NOT IN (0, 1, 2, 7, 8, 9)",
        holds: "only a live instance has a wake",
        remedy: REPLACE,
    },
    Rule {
        name: "pending requests",
        kind: FindingKind::Unheard,
        question: "SELECT num, 'message ' || pos || ' (' || CASE kind WHEN 2 THEN 'cancel' WHEN 3 THEN 'terminate' \
                 WHEN 4 THEN 'pause' ELSE 'resume' END || ') is not taken, and its wake is ' || coalesce(wake, 'not set') \
             FROM inbox JOIN instance ON num = instance WHERE owner = 0 AND (\
                 kind IN (2, 3, 4, 5) AND status IN (2, 7, 8, 9) AND (wake IS NULL OR wake IS until) \
                 OR kind IN (2, 3) AND status = 0 AND started_at IS NULL AND wake > 0)",
        holds: "an instance that nobody drives is due at once while its inbox has something for it to do",
        remedy: RESUME,
    },
    Rule {
        name: "inboxes of ended instances",
        kind: FindingKind::Inbox,
        question: "SELECT num, 'its status is ' || status || ' but message ' || pos || ' is in its inbox' \
             FROM inbox JOIN instance ON num = instance WHERE status IN (4, 5, 6)",
        holds: "the inbox of an instance that has ended is empty",
        remedy: REPLACE,
    },
    Rule {
        name: "taken messages",
        kind: FindingKind::Inbox,
        question: "SELECT inbox.instance, 'message ' || inbox.pos || ' was taken by entry ' || seq || ' but is still in its inbox' \
             FROM inbox JOIN entry ON entry.instance = inbox.instance AND entry.kind IN (21, 93) AND due = inbox.pos",
        holds: "a taken message leaves the inbox",
        remedy: REPLACE,
    },
    Rule {
        name: "message tokens",
        kind: FindingKind::Token,
        question: concat!(
            "SELECT instance, 'message ' || pos || ' has no token' \
             FROM (SELECT instance, pos FROM inbox WHERE kind <> 6 EXCEPT SELECT instance, pos FROM sent) \
             UNION ALL SELECT instance, 'a dedup key belongs to message ' || pos || ', which nobody sent' \
             FROM (SELECT dedup.instance, dedup.pos FROM dedup JOIN instance ON num = dedup.instance WHERE NOT ",
            is_job!(),
            " EXCEPT SELECT instance, pos FROM sent)",
        ),
        // Tokens of events are kept for a limited time only.
        holds: "each message of a run and each of its dedup keys has its token",
        remedy: REPORT,
    },
    Rule {
        name: "tokens of taken signals",
        kind: FindingKind::Token,
        question: "SELECT instance, 'its journal took message ' || coalesce(pos, 'NULL') || ', which nobody sent' \
             FROM (SELECT instance, due AS pos FROM entry WHERE kind IN (21, 93) EXCEPT SELECT instance, pos FROM sent)",
        holds: "a taken signal was sent to this instance",
        remedy: REPLACE,
    },
    Rule {
        name: "message positions",
        kind: FindingKind::Token,
        question: "SELECT max(instance), count(*) || ' messages share position ' || pos FROM sent GROUP BY pos HAVING count(*) > 1",
        holds: "no two messages in a file share a position",
        remedy: REPORT,
    },
    Rule {
        name: "orphan entries",
        kind: FindingKind::Orphan,
        question: "SELECT whose, n || ' journal entries are left' \
             FROM (SELECT instance AS whose, count(*) AS n FROM entry GROUP BY instance) \
             WHERE NOT EXISTS (SELECT 1 FROM instance WHERE num = whose)",
        holds: "every entry belongs to an existing instance",
        remedy: REPORT,
    },
    Rule {
        name: "orphan messages",
        kind: FindingKind::Orphan,
        question: "SELECT whose, n || ' rows are left in ' || place FROM (\
                 SELECT instance AS whose, count(*) AS n, 'inbox' AS place FROM inbox GROUP BY instance \
                 UNION ALL SELECT instance, count(*), 'sent' FROM sent GROUP BY instance \
                 UNION ALL SELECT instance, count(*), 'dedup' FROM dedup GROUP BY instance) \
             WHERE NOT EXISTS (SELECT 1 FROM instance WHERE num = whose)",
        holds: "every message, token and dedup key belongs to an existing instance",
        remedy: REPORT,
    },
    Rule {
        name: "tags",
        kind: FindingKind::Tag,
        question: "SELECT num, 'its tag \"' || key || '\" is not in the tag index' FROM (\
                 SELECT num, label.key, label.atom FROM instance \
                     JOIN json_each(iif(json_valid(tags), tags, '{}')) AS label WHERE tags IS NOT NULL \
                 EXCEPT SELECT num, key, value FROM tag) \
             UNION ALL SELECT num, 'the tag index has \"' || key || '\" for it, which is not its tag' FROM (\
                 SELECT num, key, value FROM tag \
                 EXCEPT SELECT num, label.key, label.atom FROM instance \
                     JOIN json_each(iif(json_valid(tags), tags, '{}')) AS label WHERE tags IS NOT NULL)",
        holds: "the tag index matches the tags of the instances",
        remedy: REPORT,
    },
    Rule {
        name: "counters",
        kind: FindingKind::Counter,
        question: "SELECT NULL, 'workflow \"' || workflow || '\" has ' || sum(there) || ' instances of status ' || status || \
                 ', but ' || sum(kept) || ' are counted' \
             FROM (SELECT workflow, status, n AS kept, 0 AS there FROM counter WHERE status < 20 \
                 UNION ALL SELECT workflow, status, 0, count(*) FROM instance GROUP BY workflow, status) \
             GROUP BY workflow, status HAVING sum(kept) <> sum(there)",
        holds: "counters match the number of rows",
        remedy: REPORT,
    },
];
