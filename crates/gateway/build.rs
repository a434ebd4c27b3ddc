//! Compiles what the kernel runs (`src/linux/bpf`) and puts it beside the program's own code, so
//! that no machine that only runs the gateway needs a compiler.
//!
//! Without clang or libbpf's headers the gateway is built all the same; it then has no in-kernel
//! path and says so (`ringway gate doctor`).

use std::path::{Path, PathBuf};
use std::process::Command;

#[expect(unreachable_pub, reason = "it is not, in the gateway")]
#[path = "src/triage/flags.rs"]
mod flags;
#[expect(dead_code, reason = "the gateway uses the rest")]
#[path = "src/linux/kernel/layout.rs"]
mod layout;
#[expect(unreachable_pub, reason = "they are not, in the gateway")]
#[path = "src/limits/kernel.rs"]
mod limits;

const SOURCE: &str = "src/linux/bpf/border.bpf.c";

fn main() {
    for file in [
        "linux/bpf",
        "linux/kernel/layout.rs",
        "limits/kernel.rs",
        "triage/flags.rs",
    ] {
        println!("cargo::rerun-if-changed=src/{file}");
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    let Some(folder) = std::env::var_os("OUT_DIR").map(PathBuf::from) else {
        return;
    };
    let object = folder.join("border.bpf.o");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return;
    }
    let header = std::fs::write(folder.join("border.h"), layout::header());
    let header = header.map_err(|error| format!("border.h cannot be written: {error}"));
    if let Err(why) = header.and_then(|()| compile(&folder, &object)) {
        println!(
            "cargo::warning=no in-kernel path in this build: {why} (Debian: clang and libbpf-dev)"
        );
        if let Err(error) = std::fs::write(&object, []) {
            println!("cargo::error={}: {error}", object.display());
        }
    }
}

/// Compiles the programs; the kernel reads them as little as it reads the machine's own code, so
/// the byte order is the target's.
fn compile(folder: &Path, object: &Path) -> Result<(), String> {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let order = match std::env::var("CARGO_CFG_TARGET_ENDIAN").as_deref() {
        Ok("big") => "bpfeb",
        _ => "bpfel",
    };
    let mut command = Command::new(&clang);
    // The third instruction set is understood since Linux 5.1.
    command.args(["-O2", "-g", "-Wall", "-Wextra", "-Werror"]);
    command.args(["-target", order, "-mcpu=v3"]);
    command.arg("-I").arg(folder);
    // Where Debian keeps the headers of the machine's kind, `asm/types.h` among them.
    for kind in ["x86_64", "aarch64"] {
        command.arg(format!("-I/usr/include/{kind}-linux-gnu"));
    }
    command.args(["-c", SOURCE, "-o"]).arg(object);
    let output = command
        .output()
        .map_err(|error| format!("`{clang}` cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let told = String::from_utf8_lossy(&output.stderr);
    let first = told.lines().next().unwrap_or_default();
    Err(format!("`{clang}` refused {SOURCE}: {first}"))
}
