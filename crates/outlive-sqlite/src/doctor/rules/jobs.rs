//! Invariants between the rows of jobs, and between the feed and the instances it is about.

use super::{FindingKind, REPLACE, REPORT, Rule};

pub(in crate::doctor) const RULES: [Rule; 6] = [
    Rule {
        name: "job counters",
        kind: FindingKind::Counter,
        question: "SELECT NULL, 'job \"' || job || '\" has ' || sum(there) || iif(what = 20, ' queued events', ' dead letters') || \
                 ', but ' || sum(kept) || ' are counted' \
             FROM (SELECT workflow AS job, status AS what, n AS kept, 0 AS there FROM counter WHERE status >= 20 \
                 UNION ALL SELECT workflow, 20, 0, count(*) FROM inbox JOIN instance ON num = instance WHERE rank > 0 GROUP BY workflow \
                 UNION ALL SELECT job, 21, 0, count(*) FROM dead GROUP BY job) \
             GROUP BY job, what HAVING sum(kept) <> sum(there)",
        holds: "counters match the number of rows",
        remedy: REPORT,
    },
    Rule {
        name: "queue owners",
        kind: FindingKind::Inbox,
        question: concat!(
            "SELECT num, 'event ' || pos || ' is in a queue, but \"' || workflow || '\" is not a job' \
                 FROM inbox JOIN instance ON num = instance WHERE rank > 0 AND NOT ",
            is_job!(),
        ),
        holds: "only a job has a queue",
        remedy: REPLACE,
    },
    Rule {
        name: "event positions",
        kind: FindingKind::Token,
        question: "SELECT max(instance), count(*) || ' messages share position ' || pos FROM inbox GROUP BY pos HAVING count(*) > 1",
        holds: "no two messages in a file share a position",
        remedy: REPORT,
    },
    Rule {
        name: "dedup keys of queued events",
        kind: FindingKind::Token,
        question: "SELECT inbox.instance, 'the dedup key \"' || key || '\" of event ' || inbox.pos || ' belongs to event ' || dedup.pos \
             FROM inbox CROSS JOIN dedup ON dedup.instance = inbox.instance \
                 AND key = CASE WHEN rank > 0 AND json_valid(text) THEN json_extract(text, '$.dedup') END \
             WHERE dedup.pos < inbox.pos",
        holds: "an event is not queued while another one holds its dedup key",
        remedy: REPORT,
    },
    Rule {
        name: "names in the feed",
        kind: FindingKind::Orphan,
        question: "SELECT whose, n || ' lifecycle events are left, but its name is gone' \
             FROM (SELECT instance AS whose, count(*) AS n FROM lifecycle GROUP BY instance) \
             WHERE NOT EXISTS (SELECT 1 FROM instance WHERE num = whose) AND NOT EXISTS (SELECT 1 FROM gone WHERE num = whose)",
        holds: "the name of an instance is kept as long as its lifecycle events",
        remedy: REPORT,
    },
    Rule {
        name: "removed instances",
        kind: FindingKind::Orphan,
        question: "SELECT num, 'it exists, but was removed at position ' || pos || ' of the feed' FROM gone \
                 WHERE EXISTS (SELECT 1 FROM instance WHERE instance.num = gone.num) \
             UNION ALL SELECT DISTINCT num, 'it was removed at position ' || gone.pos || ' of the feed, but has later lifecycle events' \
                 FROM lifecycle CROSS JOIN gone ON gone.num = lifecycle.instance WHERE lifecycle.pos > gone.pos",
        holds: "a removed instance is gone and has no later lifecycle events",
        remedy: REPORT,
    },
];
