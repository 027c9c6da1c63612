//! What holds between the rows of jobs, and between what was told to the world and what is there.

use super::{Problem, REPLACE, REPORT, Rule};

pub(in crate::doctor) const RULES: [Rule; 6] = [
    Rule {
        name: "counters of jobs",
        problem: Problem::Counter,
        question: "SELECT NULL, 'job \"' || job || '\" has ' || sum(there) || iif(what = 20, ' queued events', ' dead letters') || \
                 ', and ' || sum(kept) || ' are counted' \
             FROM (SELECT workflow AS job, status AS what, n AS kept, 0 AS there FROM counter WHERE status >= 20 \
                 UNION ALL SELECT workflow, 20, 0, count(*) FROM inbox JOIN instance ON num = instance WHERE rank > 0 GROUP BY workflow \
                 UNION ALL SELECT job, 21, 0, count(*) FROM dead GROUP BY job) \
             GROUP BY job, what HAVING sum(kept) <> sum(there)",
        holds: "the counters are the numbers of rows",
        remedy: REPORT,
    },
    Rule {
        name: "whose queues there are",
        problem: Problem::Inbox,
        question: concat!(
            "SELECT num, 'event ' || pos || ' lies in a queue, and \"' || workflow || '\" is no job' \
                 FROM inbox JOIN instance ON num = instance WHERE rank > 0 AND NOT ",
            is_job!(),
        ),
        holds: "only a job has a queue",
        remedy: REPLACE,
    },
    Rule {
        name: "places of events",
        problem: Problem::Token,
        question: "SELECT max(instance), count(*) || ' messages lie at the place ' || pos FROM inbox GROUP BY pos HAVING count(*) > 1",
        holds: "no two messages of a file have one place",
        remedy: REPORT,
    },
    Rule {
        name: "keys of queued events",
        problem: Problem::Token,
        question: "SELECT inbox.instance, 'the dedup key \"' || key || '\" of event ' || inbox.pos || ' belongs to event ' || dedup.pos \
             FROM inbox CROSS JOIN dedup ON dedup.instance = inbox.instance \
                 AND key = CASE WHEN rank > 0 AND json_valid(text) THEN json_extract(text, '$.dedup') END \
             WHERE dedup.pos < inbox.pos",
        holds: "an event is not queued while another one with its dedup key counts",
        remedy: REPORT,
    },
    Rule {
        name: "names of news",
        problem: Problem::Orphan,
        question: "SELECT whose, n || ' news of it are left, and nobody knows its name' \
             FROM (SELECT instance AS whose, count(*) AS n FROM news GROUP BY instance) \
             WHERE NOT EXISTS (SELECT 1 FROM instance WHERE num = whose) AND NOT EXISTS (SELECT 1 FROM gone WHERE num = whose)",
        holds: "the name of an instance is kept as long as its news",
        remedy: REPORT,
    },
    Rule {
        name: "instances that are gone",
        problem: Problem::Orphan,
        question: "SELECT num, 'it is there, and was removed at position ' || pos || ' of the feed' FROM gone \
                 WHERE EXISTS (SELECT 1 FROM instance WHERE instance.num = gone.num) \
             UNION ALL SELECT DISTINCT num, 'it was removed at position ' || gone.pos || ' of the feed, and told something after it' \
                 FROM news CROSS JOIN gone ON gone.num = news.instance WHERE news.pos > gone.pos",
        holds: "what was removed is gone, and tells nothing more",
        remedy: REPORT,
    },
];
