// In place of the operations that libc exports for wide streams, which goes on to use its own: none is known.
extern "C" {
[[gnu::visibility("default")]] void* _IO_wfile_jumps[21] = {};
}
