"""The kinds of work for sale, a module each. A new pack is a new module that defines PACK; no other file changes."""
