"""The box: a pack runs in a process of its own, with a time, a memory and a purse, and is ended with all its children.

    worker process          zygote (one a pack)            pack process (one each run)
    box.py  ── two sockets ──▶ fork ──────────────────────▶ pack_process.py: limits, then the pack
            ◀── how it ended ── watches, kills, sweeps      ◀── request ── answers, charges, logs ──▶ worker

A worker is one process and has one nursery, whatever the number of its slots; its zygotes are forked from it, and end
together.
Everything that runs beyond the worker imports neither Django nor settings, and sees no secret.
"""
