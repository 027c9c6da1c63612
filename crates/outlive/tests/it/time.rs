//! Tests of time.
