//! Tests of ids.
