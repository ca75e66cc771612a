//! One emulated console with a game in it: the safe side of the C functions in `shim/console.cpp`.

use hotloop_env::EnvError;
use std::ffi::{CString, c_char, c_int};
use std::marker::{PhantomData, PhantomPinned};
use std::ptr::NonNull;

/// The console's 18 actions; a game's minimal set is a part of them.
const ACTIONS: usize = 18;

/// The emulator's own structure.
#[repr(C)]
struct Raw {
    opaque: [u8; 0],
    marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// What one frame brought.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// What was scored.
    pub reward: i32,
    /// The lives that are left.
    pub lives: i32,
    game_over: u8,
    truncated: u8,
}

impl Outcome {
    /// Whether the game is over.
    pub fn game_over(&self) -> bool {
        self.game_over != 0
    }

    /// Whether the limit of frames is reached.
    pub fn truncated(&self) -> bool {
        self.truncated != 0
    }
}

/// What does not change while a game is in the console.
#[repr(C)]
struct Facts {
    height: u32,
    width: u32,
    rgb: [u32; 256],
    grey: [u8; 256],
    minimal: u32,
}

unsafe extern "C" {
    fn hl_atari_open(
        rom: *const u8,
        length: usize,
        name: *const c_char,
        max_frames: i32,
        facts: *mut Facts,
        error: *mut c_char,
        error_length: usize,
    ) -> *mut Raw;
    fn hl_atari_close(atari: *mut Raw);
    fn hl_atari_reset(atari: *mut Raw) -> c_int;
    fn hl_atari_act(atari: *mut Raw, action: i32, outcome: *mut Outcome) -> c_int;
    fn hl_atari_lives(atari: *mut Raw) -> i32;
    fn hl_atari_screen(atari: *const Raw) -> *const u8;
    fn hl_atari_save(atari: *mut Raw, bytes: *mut *const c_char, length: *mut usize) -> c_int;
    fn hl_atari_load(atari: *mut Raw, bytes: *const c_char, length: usize) -> c_int;
}

/// A console with a game in it: the emulator alone, frame by frame. [`Atari`](crate::Atari) makes an environment of one.
pub struct Console {
    raw: NonNull<Raw>,
    facts: Box<Facts>,
}

// SAFETY: a console shares no state with another one that is written to after the first is opened, and nothing in it
// is bound to the thread that made it.
unsafe impl Send for Console {}

impl Console {
    /// A console with the ROM of the game `name`, as its file is called; episodes are truncated after `max_frames`
    /// frames (0: never).
    ///
    /// # Errors
    /// If the emulator does not know the ROM.
    pub fn open(name: &str, rom: &[u8], max_frames: i32) -> Result<Self, EnvError> {
        let c_name = CString::new(name).map_err(|_| EnvError::new("a game's name has no zeros"))?;
        let mut facts = Box::new(Facts {
            height: 0,
            width: 0,
            rgb: [0; 256],
            grey: [0; 256],
            minimal: 0,
        });
        let mut error = [0u8; 256];
        // SAFETY: all pointers are to memory of the stated sizes that outlives the call.
        let raw = unsafe {
            hl_atari_open(
                rom.as_ptr(),
                rom.len(),
                c_name.as_ptr(),
                max_frames,
                &mut *facts,
                error.as_mut_ptr().cast(),
                error.len(),
            )
        };
        match NonNull::new(raw) {
            Some(raw) => Ok(Self { raw, facts }),
            None => {
                let end = error.iter().position(|&byte| byte == 0).unwrap_or(0);
                Err(EnvError::new(format!(
                    "the ROM {name} cannot be used: {}",
                    String::from_utf8_lossy(&error[..end])
                )))
            }
        }
    }

    /// Height and width of the screen.
    pub fn size(&self) -> [usize; 2] {
        [self.facts.height as usize, self.facts.width as usize]
    }

    /// The colour of a pixel by its byte, as 0xRRGGBB.
    pub fn rgb(&self) -> &[u32; 256] {
        &self.facts.rgb
    }

    /// The grey of a pixel by its byte.
    pub fn grey(&self) -> &[u8; 256] {
        &self.facts.grey
    }

    /// The actions of the game's minimal set, or all 18.
    pub fn actions(&self, all: bool) -> Vec<i32> {
        (0..ACTIONS as i32)
            .filter(|action| all || self.facts.minimal >> action & 1 == 1)
            .collect()
    }

    /// Goes back to where all episodes start.
    ///
    /// # Errors
    /// If the emulator fails.
    pub fn reset(&mut self) -> Result<(), EnvError> {
        // SAFETY: the pointer is to a console that `open` made.
        done("reset", unsafe { hl_atari_reset(self.raw.as_ptr()) })
    }

    /// Emulates one frame with this one of the 18 actions. Past the end of a game nothing happens.
    ///
    /// # Errors
    /// If the emulator fails.
    pub fn act(&mut self, action: i32) -> Result<Outcome, EnvError> {
        debug_assert!((0..ACTIONS as i32).contains(&action));
        let mut outcome = Outcome::default();
        // SAFETY: as above, and the outcome outlives the call.
        done("emulation", unsafe {
            hl_atari_act(self.raw.as_ptr(), action, &mut outcome)
        })?;
        Ok(outcome)
    }

    /// The lives that are left.
    pub fn lives(&self) -> i32 {
        // SAFETY: as above.
        unsafe { hl_atari_lives(self.raw.as_ptr()) }
    }

    /// The screen: height × width bytes, rows from the top.
    pub fn screen(&self) -> &[u8] {
        let [height, width] = self.size();
        // SAFETY: the screen has this size and stays in place while the console lives; it is only written to by calls
        // that take the console mutably.
        unsafe { std::slice::from_raw_parts(hl_atari_screen(self.raw.as_ptr()), height * width) }
    }

    /// The console's state, to be loaded into any console with the same game.
    ///
    /// # Errors
    /// If the emulator fails.
    pub fn save(&self) -> Result<Vec<u8>, EnvError> {
        let (mut bytes, mut length) = (std::ptr::null(), 0);
        // SAFETY: as above.
        done("saving", unsafe {
            hl_atari_save(self.raw.as_ptr(), &mut bytes, &mut length)
        })?;
        // SAFETY: the bytes stay in place until the next such call, and they are copied at once.
        Ok(unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) }.to_vec())
    }

    /// Goes to a state that [`save`](Self::save) returned.
    ///
    /// # Errors
    /// If it is no state of this game.
    pub fn load(&mut self, state: &[u8]) -> Result<(), EnvError> {
        // SAFETY: as above.
        done("loading", unsafe {
            hl_atari_load(self.raw.as_ptr(), state.as_ptr().cast(), state.len())
        })
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        // SAFETY: the pointer is used no more.
        unsafe { hl_atari_close(self.raw.as_ptr()) }
    }
}

fn done(what: &str, code: c_int) -> Result<(), EnvError> {
    match code {
        0 => Ok(()),
        _ => Err(EnvError::new(format!(
            "the emulator failed: an exception in {what}"
        ))),
    }
}
