// One Atari 2600 with a game in it, behind C functions. No exception leaves this file, nothing here ends the process,
// and a console uses nothing that another one changes, so that each may be on a thread of its own.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "ale/common/ColourPalette.hpp"
#include "ale/common/Log.hpp"
#include "ale/common/ScreenExporter.hpp"
#include "ale/emucore/Console.hxx"
#include "ale/emucore/OSystem.hxx"
#include "ale/emucore/Props.hxx"
#include "ale/emucore/Settings.hxx"
#include "ale/emucore/TIA.hxx"
#include "ale/environment/phosphor_blend.hpp"
#include "ale/environment/stella_environment.hpp"
#include "ale/games/RomSettings.hpp"
#include "ale/games/Roms.hpp"
#include "zlib.h"

// The ROM that is being opened on this thread.
struct RomInMemory {
  const uint8_t* bytes;
  size_t length;
};

namespace {
thread_local RomInMemory opening = {nullptr, 0};
}

gzFile gzopen(const char*, const char*) { return opening.bytes ? &opening : nullptr; }

int gzread(gzFile file, void* buffer, unsigned length) {
  const size_t read = std::min(file->length, static_cast<size_t>(length));
  std::memcpy(buffer, file->bytes, read);
  return static_cast<int>(read);
}

int gzclose(gzFile) { return 0; }

// Two parts of the emulator that are never used here, left out of the build: exporting screens as PNG, which needs zlib,
// and the mixing of successive frames, whose tables take longer to compute than everything else at start-up.
namespace ale {
ScreenExporter::ScreenExporter(ColourPalette& palette, const std::string&) : m_palette(palette) {
  throw std::logic_error("screens are not exported");
}
void ScreenExporter::saveNext(const ALEScreen&) {}
PhosphorBlend::PhosphorBlend(stella::OSystem* osystem) : m_osystem(osystem) {}
void PhosphorBlend::process(ALEScreen&) {}
}  // namespace ale

// Private members of the video chip, of which an explicit instantiation may speak.
template <typename Name, auto Member>
struct Opened {
  friend auto member(Name) { return Member; }
};
#define OPEN(name)                   \
  struct name {                      \
    friend auto member(name);        \
  };                                 \
  template struct Opened<name, &ale::stella::TIA::name>
OPEN(myCurrentPFMask);
OPEN(myCurrentBLMask);
OPEN(myCurrentP0Mask);
OPEN(myCurrentP1Mask);
OPEN(myCurrentM0Mask);
OPEN(myCurrentM1Mask);
OPEN(ourPlayfieldTable);
OPEN(ourBallMaskTable);
OPEN(ourPlayerMaskTable);
OPEN(ourMissleMaskTable);
OPEN(myCTRLPF);
OPEN(myNUSIZ0);
OPEN(myNUSIZ1);
OPEN(myPOSBL);
OPEN(myPOSP0);
OPEN(myPOSP1);
OPEN(myPOSM0);
OPEN(myPOSM1);
OPEN(myPartialFrameFlag);
OPEN(myFrameGreyed);
OPEN(myFramePointer);
#undef OPEN

namespace {

// Where the video chip looks up its objects follows from its registers, but it looks there again only when a game writes
// to one of them, and loading a state does not. Most games write to all of them in every frame; Q*bert and Tetris do not.
void look_up_objects(ale::stella::TIA& tia) {
  const auto player = [&](int position, int size) {
    return &(*member(ourPlayerMaskTable{}))[position & 3][0][size & 7][160 - (position & 0xfc)];
  };
  const auto missile = [&](int position, int size) {
    return &(*member(ourMissleMaskTable{}))[position & 3][size & 7][size >> 4 & 3][160 - (position & 0xfc)];
  };
  const int size0 = tia.*member(myNUSIZ0{}), size1 = tia.*member(myNUSIZ1{});
  const int control = tia.*member(myCTRLPF{}), ball = tia.*member(myPOSBL{});
  tia.*member(myCurrentPFMask{}) = (*member(ourPlayfieldTable{}))[control & 1];
  tia.*member(myCurrentBLMask{}) = &(*member(ourBallMaskTable{}))[ball & 3][control >> 4 & 3][160 - (ball & 0xfc)];
  tia.*member(myCurrentP0Mask{}) = player(tia.*member(myPOSP0{}), size0);
  tia.*member(myCurrentP1Mask{}) = player(tia.*member(myPOSP1{}), size1);
  tia.*member(myCurrentM0Mask{}) = missile(tia.*member(myPOSM0{}), size0);
  tia.*member(myCurrentM1Mask{}) = missile(tia.*member(myPOSM1{}), size1);
}

// Where in a picture the video chip is.
struct Place {
  int32_t pixel;
  int32_t partial;
  int32_t greyed;
};

// The video chip has memory for so many.
constexpr int PIXELS = 160 * 300;

struct Atari {
  ale::stella::OSystem system;
  ale::stella::Settings settings{&system};
  std::unique_ptr<ale::RomSettings> game;
  std::unique_ptr<ale::StellaEnvironment> environment;
  // The console after a reset: all episodes start from it.
  std::string start;
  std::string saved;

  const ale::ALEScreen& screen() const { return environment->getScreen(); }

  // The emulator's own state, then what is none of it: the screen and the two pictures that the video chip draws in turn,
  // since some games leave lines undrawn and show there what was drawn before; and where in the present picture the chip
  // is, since some games do not end each one.
  std::string save() {
    std::string state = environment->cloneState(false).serialize();
    for (const uint8_t* picture : pictures()) state.append(reinterpret_cast<const char*>(picture), screen().arraySize());
    const Place place = {static_cast<int32_t>(tia().*member(myFramePointer{}) - tia().currentFrameBuffer()),
                         tia().*member(myPartialFrameFlag{}), tia().*member(myFrameGreyed{})};
    state.append(reinterpret_cast<const char*>(&place), sizeof place);
    return state;
  }

  void load(const char* bytes, size_t length) {
    const size_t size = screen().arraySize();
    const size_t more = pictures().size() * size + sizeof(Place);
    if (length < more) throw std::runtime_error("the state is too short");
    environment->restoreState(ale::ALEState(std::string(bytes, length - more)));
    look_up_objects(tia());
    const char* from = bytes + length - more;
    for (uint8_t* picture : pictures()) {
      std::memcpy(picture, from, size);
      from += size;
    }
    Place place;
    std::memcpy(&place, from, sizeof place);
    if (place.pixel < 0 || place.pixel > PIXELS) throw std::runtime_error("the state is of no picture");
    tia().*member(myFramePointer{}) = tia().currentFrameBuffer() + place.pixel;
    tia().*member(myPartialFrameFlag{}) = place.partial != 0;
    tia().*member(myFrameGreyed{}) = place.greyed != 0;
  }

  ale::stella::TIA& tia() { return static_cast<ale::stella::TIA&>(system.console().mediaSource()); }

  std::array<uint8_t*, 3> pictures() {
    return {screen().getArray(), tia().currentFrameBuffer(), tia().previousFrameBuffer()};
  }
};

std::unique_ptr<Atari> open_game(const uint8_t* rom, size_t length, const std::string& name, int max_frames) {
  static std::once_flag quiet;
  std::call_once(quiet, [] { ale::Logger::setMode(ale::Logger::Error); });

  auto atari = std::make_unique<Atari>();
  atari->settings.setInt("max_num_frames_per_episode", max_frames);
  // Sticky actions are drawn by the caller.
  atari->settings.setFloat("repeat_action_probability", 0.0f);
  atari->settings.setInt("random_seed", 0);
  atari->settings.validate();
  atari->system.create();
  const std::string file = name + ".bin";
  opening = {rom, length};
  const bool created = atari->system.createConsole(file);
  opening = {nullptr, 0};
  if (!created) throw std::runtime_error("the emulator takes it for no cartridge");
  auto& console = atari->system.console();
  atari->system.colourPalette().setPalette("standard", console.getFormat());
  const std::string md5 = console.properties().get(ale::stella::Cartridge_MD5);
  atari->game.reset(ale::buildRomRLWrapper(file, md5));
  if (!atari->game) throw std::runtime_error("the emulator knows no game of this name, nor this ROM (MD5 " + md5 + ")");
  if (atari->game->md5() != md5) {
    throw std::runtime_error("it is another version of the game (MD5 " + md5 + ", expected " + atari->game->md5() + ")");
  }
  atari->game->modifyEnvironmentSettings(atari->settings);
  atari->environment = std::make_unique<ale::StellaEnvironment>(&atari->system, atari->game.get());
  // Twice, as a game is loaded and then reset by others.
  atari->environment->reset();
  atari->environment->reset();
  atari->start = atari->save();
  return atari;
}

// Runs `body` and turns what it throws into -1.
template <typename Body>
int contained(Body body) noexcept {
  try {
    body();
    return 0;
  } catch (...) {
    return -1;
  }
}

}  // namespace

extern "C" {

// What one frame brought.
struct HlFrame {
  int32_t reward;
  int32_t lives;
  uint8_t game_over;
  uint8_t truncated;
};

// What does not change while a game is in the console.
struct HlFacts {
  uint32_t height;
  uint32_t width;
  // Of every colour that a pixel of the screen names: 0xRRGGBB, and its grey.
  uint32_t rgb[256];
  uint8_t grey[256];
  // Bit n: action n of the console's 18 is in the game's minimal set.
  uint32_t minimal;
};

// A console with the game `name` (as ROM files are called, without the ending), or null with the reason in `error`.
Atari* hl_atari_open(const uint8_t* rom, size_t length, const char* name, int32_t max_frames, HlFacts* facts, char* error,
                     size_t error_length) noexcept {
  const char* reason = "an unknown error";
  try {
    auto atari = open_game(rom, length, name, max_frames);
    facts->height = static_cast<uint32_t>(atari->screen().height());
    facts->width = static_cast<uint32_t>(atari->screen().width());
    for (int colour = 0; colour < 256; ++colour) {
      // Colours are even; an odd one shows, in grey, the next.
      uint8_t even = static_cast<uint8_t>(colour & 0xfe);
      uint8_t rgb[3];
      auto& palette = atari->system.colourPalette();
      palette.applyPaletteRGB(rgb, &even, 1);
      facts->rgb[colour] = static_cast<uint32_t>(rgb[0]) << 16 | static_cast<uint32_t>(rgb[1]) << 8 | rgb[2];
      palette.applyPaletteGrayscale(&facts->grey[colour], &even, 1);
    }
    facts->minimal = 0;
    for (const ale::Action action : atari->game->getMinimalActionSet()) facts->minimal |= 1u << action;
    return atari.release();
  } catch (const std::exception& failure) {
    std::snprintf(error, error_length, "%s", failure.what());
  } catch (...) {
    std::snprintf(error, error_length, "%s", reason);
  }
  return nullptr;
}

void hl_atari_close(Atari* atari) noexcept { delete atari; }

// Back to where all episodes start.
int hl_atari_reset(Atari* atari) noexcept {
  return contained([&] { atari->load(atari->start.data(), atari->start.size()); });
}

int hl_atari_act(Atari* atari, int32_t action, HlFrame* frame) noexcept {
  return contained([&] {
    frame->reward = atari->environment->act(static_cast<ale::Action>(action), ale::PLAYER_B_NOOP, 1.0f, 0.0f);
    frame->lives = atari->game->lives();
    frame->game_over = atari->environment->isGameTerminal();
    frame->truncated = atari->environment->isGameTruncated();
  });
}

int32_t hl_atari_lives(Atari* atari) noexcept { return atari->game->lives(); }

// The screen, one byte for each pixel, rows from the top. Stays where it is while the console lives.
const uint8_t* hl_atari_screen(const Atari* atari) noexcept { return atari->screen().getArray(); }

// Saves the console's state; `bytes` stay where they are until the next call.
int hl_atari_save(Atari* atari, const char** bytes, size_t* length) noexcept {
  return contained([&] {
    atari->saved = atari->save();
    *bytes = atari->saved.data();
    *length = atari->saved.size();
  });
}

int hl_atari_load(Atari* atari, const char* bytes, size_t length) noexcept {
  return contained([&] { atari->load(bytes, length); });
}
}
