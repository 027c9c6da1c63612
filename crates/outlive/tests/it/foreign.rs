//! Tests of foreign.
