//! Looking at a policy: films of evaluations, and episodes in the terminal.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests panic as tests do")]

mod common;

use common::{Done, command, done, hotloop};
use serde_json::Value;
use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// A run so small that it takes a moment even in a debug build.
fn train(dir: &Path, env: &str) {
    let sets = [
        "rollout.envs=4",
        "rollout.horizon=8",
        "network.hidden=[8]",
        "algo.epochs=1",
    ];
    let sets = sets.iter().flat_map(|set| ["--set", set]);
    let args = ["train", env, "--steps", "64", "--run-dir", "run"];
    let args: Vec<&str> = args.into_iter().chain(sets).collect();
    let trained = hotloop(dir, &args);
    assert_eq!(trained.code, 0, "{trained:?}");
}

fn json(done: &Done) -> Value {
    serde_json::from_str(done.stdout.lines().last().unwrap()).unwrap()
}

/// The names of files beside the run.
fn files(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name != "run").collect();
    names.sort();
    names
}

fn interrupt(child: &Child) {
    let pid = libc::pid_t::try_from(child.id()).unwrap();
    // SAFETY: sends a signal to a child that has not been waited for, so its id is still its own.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
}

const FEW: [&str; 4] = ["eval", "run", "--episodes", "4"];

#[test]
fn an_evaluation_on_film_is_the_same_evaluation() {
    let dir = tempfile::tempdir().unwrap();
    train(dir.path(), "CartPole-v1");
    let expected = json(&hotloop(dir.path(), &[&FEW[..], &["--json"]].concat()));
    let film = ["--render", "out.GIF", "--render-episodes", "2", "--json"];
    let filmed = hotloop(dir.path(), &[&FEW[..], &film].concat());
    assert_eq!(filmed.code, 0, "{filmed:?}");
    assert_eq!(json(&filmed), expected);
    assert_eq!(files(dir.path()), ["out.GIF"]);

    let film = ["--render", "out.gif", "--sampled"];
    let filmed = hotloop(dir.path(), &[&FEW[..2], &film].concat());
    assert!(filmed.stdout.ends_with("\nfilm    out.gif\n"), "{filmed:?}");

    let mut options = gif::DecodeOptions::new();
    options.set_color_output(gif::ColorOutput::Indexed);
    let file = File::open(dir.path().join("out.GIF")).unwrap();
    let mut film = options.read_info(file).unwrap();
    assert_eq!((film.width(), film.height()), (600, 400));
    let (mut time, mut areas, mut pauses) = (0, vec![], 0);
    while let Some(frame) = film.read_next_frame().unwrap() {
        time += u32::from(frame.delay);
        pauses += u32::from(frame.delay == 100);
        areas.push(u32::from(frame.width) * u32::from(frame.height));
    }
    // 50 pictures a second, and a second at the end of each of the two episodes: their lengths are known from the
    // evaluation of just these.
    let two = json(&hotloop(
        dir.path(),
        &["eval", "run", "--episodes", "2", "--json"],
    ));
    let steps = 2.0 * two["length_mean"].as_f64().unwrap();
    assert_eq!((time, pauses), (2 * steps as u32 + 200, 2));
    assert_eq!(areas.len(), steps as usize + 2);
    // Only what changed is written again.
    assert_eq!(areas[0], 600 * 400);
    assert!(areas[1..20].iter().all(|area| *area < 600 * 400 / 4));
}

#[test]
fn what_cannot_be_a_film_is_refused_before_anything_is_played() {
    let dir = tempfile::tempdir().unwrap();
    train(dir.path(), "Synthetic/Busy-v0");
    for (file, parts) in [
        ("out.avi", &[".gif", ".mp4", "ffmpeg"][..]),
        ("out", &[".gif", ".mp4"]),
        ("gone/out.gif", &["cannot write gone/out.gif"]),
        ("out.mp4", &["ffmpeg", "PATH", ".gif"]),
        ("out.gif", &["Synthetic/Busy-v0", "render"]),
    ] {
        let mut eval = command(dir.path(), &["eval", "run", "--render", file]);
        let refused = done(eval.env("PATH", dir.path()).output().unwrap());
        assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{file}");
        assert_eq!(refused.stderr.trim_end().lines().count(), 1, "{refused:?}");
        for part in parts {
            assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
        }
        assert_eq!(files(dir.path()), [""; 0]);
    }
    let alone = hotloop(dir.path(), &["eval", "run", "--render-episodes", "2"]);
    assert_eq!(alone.code, 2, "{alone:?}");
}

/// Runs `eval` with a program in ffmpeg's place.
fn with_ffmpeg(dir: &Path, script: &str) -> Done {
    let bin = dir.join("run/bin");
    fs::create_dir_all(&bin).unwrap();
    let ffmpeg = bin.join("ffmpeg");
    fs::write(&ffmpeg, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&ffmpeg, Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let args = ["eval", "run", "--episodes", "1", "--render", "out.mp4"];
    done(command(dir, &args).env("PATH", path).output().unwrap())
}

#[test]
fn ffmpeg_gets_every_picture_and_its_complaints_are_passed_on() {
    let dir = tempfile::tempdir().unwrap();
    train(dir.path(), "CartPole-v1");
    // Keeps what it is told and what it is fed.
    let keep = "echo \"$@\" > run/told; for out; do :; done; cat > \"$out\"";
    let filmed = with_ffmpeg(dir.path(), keep);
    assert_eq!(filmed.code, 0, "{filmed:?}");
    assert_eq!(files(dir.path()), ["out.mp4"]);
    let told = fs::read_to_string(dir.path().join("run/told")).unwrap();
    assert!(told.contains("-pix_fmt rgb24 -s 600x400 -r 50 "), "{told}");
    let one = ["eval", "run", "--episodes", "1", "--json"];
    let steps = json(&hotloop(dir.path(), &one))["length_mean"].as_f64();
    // The last of steps + 1 pictures stands for a second.
    let pictures = steps.unwrap() as u64 + 50;
    let size = fs::metadata(dir.path().join("out.mp4")).unwrap().len();
    assert_eq!(size, pictures * 600 * 400 * 3);

    fs::remove_file(dir.path().join("out.mp4")).unwrap();
    let complaint = "echo no such codec >&2; exit 3";
    for script in [
        complaint.to_string(),
        format!("cat > /dev/null; {complaint}"),
    ] {
        let failed = with_ffmpeg(dir.path(), &script);
        assert_eq!(failed.code, 1, "{failed:?}");
        assert!(failed.stderr.contains("no such codec"), "{}", failed.stderr);
        assert_eq!(files(dir.path()), [""; 0]);
    }
}

#[test]
fn an_interrupted_film_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    train(dir.path(), "CartPole-v1");
    let many = ["--episodes", "1000000", "--render-episodes", "1000000"];
    let args = [&["eval", "run", "--render", "out.gif"][..], &many].concat();
    let mut eval = command(dir.path(), &args);
    let child = eval.stderr(Stdio::piped()).spawn().unwrap();
    let size = || {
        let names = files(dir.path());
        let file = names.first().map(|name| dir.path().join(name));
        file.and_then(|file| Some(fs::metadata(file).ok()?.len()))
    };
    while size().is_none_or(|bytes| bytes < 10_000) {
        sleep(Duration::from_millis(10));
    }
    interrupt(&child);
    let stopped = done(child.wait_with_output().unwrap());
    assert_eq!(
        (stopped.code, stopped.stderr.as_str()),
        (130, "interrupted\n")
    );
    assert_eq!(files(dir.path()), [""; 0]);
}

#[test]
fn states_of_a_game_on_a_grid_are_printed_where_there_is_no_terminal() {
    let dir = tempfile::tempdir().unwrap();
    train(dir.path(), "TMaze-v0");
    let played = hotloop(dir.path(), &["play", "run", "--episodes", "2"]);
    assert_eq!(played.code, 0, "{played:?}");
    let states: Vec<&str> = played.stdout.trim_end().split("\n\n").collect();
    let first: Vec<&str> = states[0].lines().collect();
    assert!(first[1].starts_with("@ · "), "{first:?}");
    assert_eq!(first[3], "TMaze-v0, episode 0: return 0.00 after 0 steps");
    assert!(!played.stdout.contains('\x1b'));
    let two = ["eval", "run", "--episodes", "2", "--json"];
    let steps = json(&hotloop(dir.path(), &two))["length_mean"].as_f64();
    assert_eq!(states.len(), 2 * (steps.unwrap() as usize + 1));

    for (env, parts) in [
        ("CartPole-v1", &["CartPole-v1", "terminal", "--render"][..]),
        ("Synthetic/Busy-v0", &["Synthetic/Busy-v0", "glyphs"]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        train(dir.path(), env);
        let refused = hotloop(dir.path(), &["play", "run"]);
        assert_eq!((refused.code, refused.stdout.as_str()), (2, ""));
        for part in parts {
            assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
        }
    }
}

/// Both ends of a new terminal of 30 rows and 60 columns.
fn terminal() -> (File, OwnedFd) {
    let (mut ours, mut theirs) = (-1, -1);
    let size = libc::winsize {
        ws_row: 30,
        ws_col: 60,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let none = std::ptr::null_mut();
    // SAFETY: the pointers are to two integers and a size that live through the call, or null where that is allowed.
    let opened = unsafe { libc::openpty(&mut ours, &mut theirs, none, none.cast(), &size) };
    assert_eq!(opened, 0);
    // SAFETY: both were opened just now and belong to nobody else.
    unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) }
}

/// What `play` wrote to a terminal, and how it ended; interrupted once it wrote `until`, if that is said.
fn play(dir: &Path, args: &[&str], until: Option<&str>) -> (String, Done) {
    let (mut ours, theirs) = terminal();
    let mut command = command(dir, &[&["play", "run"], args].concat());
    let child = command.stdout(theirs).stderr(Stdio::piped()).spawn();
    let (child, mut seen) = (child.unwrap(), vec![]);
    // The other end is in the child alone: the terminal is at its end when the child is.
    drop(command);
    let (mut bytes, mut interrupted) = ([0; 4096], false);
    while let Ok(n @ 1..) = ours.read(&mut bytes) {
        seen.extend_from_slice(&bytes[..n]);
        let due = until.is_some_and(|until| String::from_utf8_lossy(&seen).contains(until));
        if due && !interrupted {
            interrupt(&child);
            interrupted = true;
        }
    }
    let text = String::from_utf8_lossy(&seen).into_owned();
    (text, done(child.wait_with_output().unwrap()))
}

const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";

#[test]
fn a_terminal_shows_every_state_in_its_place_and_is_given_back() {
    let dir = tempfile::tempdir().unwrap();
    train(dir.path(), "CartPole-v1");
    let (seen, ended) = play(dir.path(), &["--fps", "1000"], None);
    assert_eq!(ended.code, 0, "{ended:?}");
    let one = ["eval", "run", "--episodes", "1", "--json"];
    let report = json(&hotloop(dir.path(), &one));
    let steps = report["length_mean"].as_f64().unwrap() as usize;
    assert_eq!(seen.matches("\x1b[H").count(), steps + 1);
    // 600 × 400 pixels in 60 columns: 20 rows of two pixels each.
    let first = seen.split("\x1b[H").nth(1).unwrap();
    assert_eq!(first.matches('▀').count(), 60 * 20);
    let end = format!("CartPole-v1, episode 0: return {steps}.00 after {steps} steps");
    assert!(seen.starts_with(ENTER), "{seen:?}");
    assert!(seen.ends_with(&format!("{LEAVE}{end}\r\n")), "{seen:?}");
}

#[test]
fn ctrl_c_gives_the_terminal_back() {
    let dir = tempfile::tempdir().unwrap();
    train(dir.path(), "MinAtar/Breakout-v1");
    let args = ["--fps", "5", "--episodes", "1000"];
    let (seen, ended) = play(dir.path(), &args, Some("after 1 steps"));
    assert_eq!((ended.code, ended.stderr.as_str()), (130, "interrupted\n"));
    assert!(seen.starts_with(ENTER) && seen.ends_with(LEAVE), "{seen:?}");
    assert!(seen.contains("o \x1b["), "{seen:?}");
}
