//! Tests of changed_code.
