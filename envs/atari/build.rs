//! Compiles the emulator and its C functions, where the crate's feature asks for them.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "atari")]
    ale::build();
}

#[cfg(feature = "atari")]
mod ale {
    use std::path::{Path, PathBuf};
    use std::{env, fs};

    /// The variable that `cargo xtask atari` sets in cargo's configuration: the folder with `src/` and `roms/`.
    const FOLDER: &str = "HOTLOOP_ALE";
    /// Where sources are, in `src/ale`, and what is left out of each: console.cpp says why.
    const EMULATOR: [(&str, &[&str]); 3] = [
        (
            "common",
            &[
                "DynamicLoad",
                "SDL2",
                "ScreenExporter",
                "ScreenSDL",
                "SoundSDL",
            ],
        ),
        // NullDev's header has no guard against being included twice.
        ("emucore", &["NullDev"]),
        ("environment", &["phosphor_blend"]),
    ];
    const GAMES: [(&str, &[&str]); 2] = [("games", &[]), ("games/supported", &[])];

    pub(crate) fn build() {
        println!("cargo::rerun-if-env-changed={FOLDER}");
        println!("cargo::rerun-if-changed=src/shim");
        let Some(folder) = env::var_os(FOLDER).map(PathBuf::from) else {
            fail(&format!(
                "{FOLDER} is not set: run `cargo xtask atari` once in hotloop's workspace (and `cargo xtask link DIR` for \
                 a crate outside it)"
            ));
        };
        println!("cargo::rustc-env={FOLDER}={}", folder.display());
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
        write(&out.join("roms.rs"), &roms(&folder.join("roms")));
        // Many small files in one take a fifth of the time to compile, and the processor's parts call each other inline.
        for (name, parts) in [("emulator.cpp", &EMULATOR[..]), ("games.cpp", &GAMES[..])] {
            let files = parts
                .iter()
                .flat_map(|(part, without)| sources(&folder.join("src/ale").join(part), without));
            let text: String = files
                .map(|file| format!("#include \"{}\"\n", file.display()))
                .collect();
            write(&out.join(name), &text);
        }
        cc::Build::new()
            .cpp(true)
            .std("c++17")
            .file("src/shim/console.cpp")
            .file(out.join("emulator.cpp"))
            .file(out.join("games.cpp"))
            .file(folder.join("src/ale/emucore/NullDev.cxx"))
            .include("src/shim")
            .include(folder.join("src"))
            // An emulator that is not optimized is of no use, whatever the profile.
            .opt_level(3)
            .debug(false)
            .define("NDEBUG", None)
            .warnings(false)
            .compile("hotloop_atari");
    }

    /// The names of all ROM files, without their ending, as an array of Rust.
    fn roms(folder: &Path) -> String {
        let mut names: Vec<String> = entries(folder)
            .filter(|path| path.extension().is_some_and(|ending| ending == "bin"))
            .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
            .collect();
        names.sort();
        format!("&{names:?}")
    }

    fn write(path: &Path, text: &str) {
        fs::write(path, text).unwrap_or_else(|error| fail(&format!("{}: {error}", path.display())));
    }

    fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
        let entries = fs::read_dir(folder).unwrap_or_else(|error| {
            fail(&format!(
                "{}: {error}; run `cargo xtask atari` again",
                folder.display()
            ))
        });
        entries.filter_map(|entry| Some(entry.ok()?.path()))
    }

    fn sources(folder: &Path, without: &[&str]) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = entries(folder)
            .filter(|path| {
                let stem = path.file_stem().and_then(|stem| stem.to_str());
                let ending = path.extension().and_then(|ending| ending.to_str());
                matches!(ending, Some("cpp" | "cxx"))
                    && stem.is_some_and(|stem| !without.contains(&stem))
            })
            .collect();
        files.sort();
        files
    }

    fn fail(message: &str) -> ! {
        println!("cargo::error={message}");
        std::process::exit(1)
    }
}
