//! Has the store take its locks and channels from this crate: see `src/store/sync.rs`.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(shuttle)");
    println!("cargo::rustc-cfg=shuttle");
    println!("cargo::rerun-if-changed=build.rs");
}
