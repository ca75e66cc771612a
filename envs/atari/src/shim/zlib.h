// What the emulator takes from zlib: reading a ROM file that may be compressed. Here a ROM is in memory and never
// compressed, and no file is opened; the definitions are in console.cpp.
#pragma once

struct RomInMemory;
typedef RomInMemory* gzFile;

gzFile gzopen(const char* path, const char* mode);
int gzread(gzFile file, void* buffer, unsigned length);
int gzclose(gzFile file);
