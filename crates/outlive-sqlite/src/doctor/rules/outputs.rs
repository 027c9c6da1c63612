//! Invariants of what runs have given out: values, streams and answers.

use super::{FindingKind, REPLACE, REPORT, Rule};

pub(in crate::doctor) const RULES: [Rule; 3] = [
    Rule {
        name: "orphan outputs",
        kind: FindingKind::Orphan,
        question: "SELECT whose, n || ' rows are left in output' \
             FROM (SELECT instance AS whose, count(*) AS n FROM output GROUP BY instance) \
             WHERE NOT EXISTS (SELECT 1 FROM instance WHERE num = whose)",
        holds: "everything given out belongs to an existing instance",
        remedy: REPORT,
    },
    Rule {
        name: "streams",
        kind: FindingKind::Output,
        question: "SELECT instance, 'stream \"' || name || '\" has ' || count(*) || ' items from ' || min(item) || ' to ' || max(item) \
             FROM output WHERE kind = 2 GROUP BY instance, name HAVING min(item) <> 0 OR max(item) <> count(*) - 1",
        holds: "the items of a stream are numbered from 0 without gaps",
        remedy: REPLACE,
    },
    Rule {
        name: "values",
        kind: FindingKind::Output,
        question: "SELECT instance, count(*) || ' values of \"' || name || '\" are stored' \
                 FROM output WHERE kind = 1 GROUP BY instance, name HAVING count(*) > 1 \
             UNION ALL SELECT output.instance, 'the value of \"' || name || '\" is of entry ' || item || ', which did not publish it' \
                 FROM output LEFT JOIN entry ON entry.instance = output.instance AND seq = item \
                 WHERE output.kind = 1 AND (entry.kind IS NOT 90 OR entry.payload IS NOT output.payload)",
        holds: "each name has one value, which the journal says was published",
        remedy: REPLACE,
    },
];
