"""What the compliance pack takes of a core: each kind of rule over a mixed text of the largest size a run may carry.

The processor's time, of the rules' own processes too, so that a busy machine does not matter.

    make bench B=pack_compliance
"""

import resource
from typing import Any

from runs.packs.compliance import PACK
from tests.gear.builders.packs import judge

SIZE = 250_000
LINE = (
    "홍길동 고객님(010-1234-5678)의 문의: order 20240117-00981, reply to hong@example.com by 5pm; ref DE89 3704 0044. "
)
TEXT = (LINE * (SIZE // len(LINE) + 1))[:SIZE]
WORST = "[ab]{0,1000}c"
RULES: dict[str, dict[str, Any]] = {
    "pii, all kinds": {"type": "pii"},
    "secret": {"type": "secret"},
    "regex, a word": {"type": "regex", "pattern": "refund"},
    "regex, a match a line": {"type": "regex", "pattern": r"order \d+-\d+"},
    "expression": {"type": "expression", "expression": "text.size() < 300000 && !text.contains('canary')"},
}


def milliseconds(subject: dict[str, Any], rule: dict[str, Any]) -> float:
    begun = processor_seconds()
    judge(PACK, subject | {"rules": [{"id": "a"} | rule]})
    return (processor_seconds() - begun) * 1_000


def processor_seconds() -> float:
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> None:
    for name, rule in RULES.items():
        milliseconds({"text": "warm"}, rule)
        small, large = (min(milliseconds({"text": TEXT[:size]}, rule) for _ in range(3)) for size in (1_000, SIZE))
        print(f"{name:24s} {small:8.1f} ms for 1,000 characters {large:8.1f} ms for {SIZE:,}")
    document = {"document": {"rows": [{"id": n, "name": "홍길동", "amount": n * 1.5} for n in range(4_000)]}}
    row = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
    schema = {"type": "schema", "json_schema": {"properties": {"rows": {"items": row}}}}
    print(f"{'schema':24s} {milliseconds(document, schema):8.1f} ms for 4,000 rows")
    worst = milliseconds({"text": "ab" * 65_536}, {"type": "regex", "pattern": WORST})
    print(f"{'regex, the worst known':24s} {worst:8.1f} ms for 131,072 characters")


if __name__ == "__main__":
    main()
