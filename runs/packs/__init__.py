"""The packs for sale, one module each. A new pack is a new module that defines PACK; no other file changes."""
