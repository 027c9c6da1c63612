//! What the fuzzer has found, without the fuzzer.

mod corpus;
