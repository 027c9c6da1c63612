#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| outlive_fuzz::program::run(bytes));
