// One Atari 2600 with a game in it, behind C functions. No exception leaves this file, nothing here ends the process,
// and a console uses nothing that another one changes, so that each may be on a thread of its own.

#include <algorithm>
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

namespace {

struct Atari {
  ale::stella::OSystem system;
  ale::stella::Settings settings{&system};
  std::unique_ptr<ale::RomSettings> game;
  std::unique_ptr<ale::StellaEnvironment> environment;
  // The console after a reset: all episodes start from it.
  ale::ALEState start;
  std::vector<uint8_t> start_screen;
  std::string saved;

  const ale::ALEScreen& screen() const { return environment->getScreen(); }

  void show_start() {
    std::copy(start_screen.begin(), start_screen.end(), screen().getArray());
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
  atari->start = atari->environment->cloneState(false);
  const auto* pixels = atari->screen().getArray();
  atari->start_screen.assign(pixels, pixels + atari->screen().arraySize());
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
  return contained([&] {
    atari->environment->restoreState(atari->start);
    atari->show_start();
  });
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
    atari->saved = atari->environment->cloneState(false).serialize();
    *bytes = atari->saved.data();
    *length = atari->saved.size();
  });
}

int hl_atari_load(Atari* atari, const char* bytes, size_t length) noexcept {
  return contained([&] { atari->environment->restoreState(ale::ALEState(std::string(bytes, length))); });
}
}
