"""The kinds of work for sale, a module each. A new pack is a new module here that defines PACK; no other file changes."""
