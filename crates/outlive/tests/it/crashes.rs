//! Tests of crashes.
