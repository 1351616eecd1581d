// A program that is never built: GoogleTest's headers are precompiled for it.
