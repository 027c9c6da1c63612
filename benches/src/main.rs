//! The program `outlive-bench`; see `benches/README.md`.

fn main() -> outlive::prelude::Result<()> {
    outlive_bench::main()
}
