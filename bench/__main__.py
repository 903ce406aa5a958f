"""`make bench`: figures as ratios within one run, or as counts. Nothing here is asserted: a machine may be slow."""

import argparse
import pkgutil
import runpy
import sys

import bench


def names() -> list[str]:
    found = pkgutil.iter_modules(bench.__path__)
    return sorted(one.name for one in found if not one.name.startswith("_") and not one.ispkg)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("only", nargs="*", help=f"some of: {', '.join(names())}")
    chosen = parser.parse_args().only or names()
    if unknown := set(chosen) - set(names()):
        parser.error(f"no bench is called {', '.join(sorted(unknown))}; there are {', '.join(names())}")
    for name in chosen:
        print(f"== {name}", flush=True)
        sys.argv = [f"bench.{name}"]
        runpy.run_module(f"bench.{name}", run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
