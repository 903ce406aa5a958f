"""The same effects as the document's own stack would have them: FastAPI, pydantic, SQLAlchemy async over asyncpg.

Runs in an environment of its own. It sends with the thin sender too, in a thread: SQS clients are not what differs.
"""

import asyncio
import hashlib
import json
import os
import secrets
import uuid
from datetime import UTC, timedelta
from typing import Annotated, Any

import redis.asyncio
from fastapi import FastAPI, Header, Response
from pydantic import BaseModel, Field
from sqlalchemy import BigInteger, Boolean, DateTime, Float, Integer, Text, Uuid, func, update
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from bench.peers.statements import TENANT_ID
from dpp_project import clock
from dpp_project.aws.sqs_sender import QueueMessage, shared_sender

ENGINE = create_async_engine(
    os.environ["DATABASE_URL"].replace("postgresql://", "postgresql+asyncpg://"), pool_size=16, max_overflow=0
)
SESSIONS = async_sessionmaker(ENGINE, expire_on_commit=False)
REDIS: Any = redis.asyncio.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
HOLD = REDIS.register_script("""
redis.call('DECRBY', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[2], ARGV[2], ARGV[1])
redis.call('HSET', KEYS[3], 'tenant_id', ARGV[3], 'reserved_usd_micros', ARGV[1])
redis.call('EXPIRE', KEYS[3], 3600)
return redis.call('GET', KEYS[1])
""")
app = FastAPI()


class Base(DeclarativeBase):
    pass


class Run(Base):
    __tablename__ = "runs"
    run_id: Mapped[uuid.UUID] = mapped_column(Uuid, primary_key=True)
    tenant_id: Mapped[str] = mapped_column(Text)
    pack_type: Mapped[str] = mapped_column(Text)
    profile_version: Mapped[str] = mapped_column(Text)
    status: Mapped[str] = mapped_column(Text)
    money_state: Mapped[str] = mapped_column(Text)
    idempotency_key: Mapped[str] = mapped_column(Text)
    payload_hash: Mapped[str] = mapped_column(Text)
    version: Mapped[int] = mapped_column(BigInteger)
    reservation_max_cost_usd_micros: Mapped[int] = mapped_column(BigInteger)
    minimum_fee_usd_micros: Mapped[int] = mapped_column(BigInteger)
    retention_until: Mapped[Any] = mapped_column(DateTime(timezone=True))
    next_send_at: Mapped[Any] = mapped_column(DateTime(timezone=True))
    trace_id: Mapped[str] = mapped_column(Text)
    last_actor: Mapped[str] = mapped_column(Text)


class RunInputs(Base):
    __tablename__ = "run_inputs"
    run_id: Mapped[uuid.UUID] = mapped_column(Uuid, primary_key=True)
    inputs: Mapped[Any] = mapped_column(JSONB)
    timebox_sec: Mapped[int] = mapped_column(Integer)
    min_reliability_score: Mapped[float] = mapped_column(Float)
    inline: Mapped[bool] = mapped_column(Boolean)


class Reservation(BaseModel):
    max_cost_usd: str = Field(pattern=r"^\d{1,10}\.\d{4}$")
    timebox_sec: int = Field(default=90, ge=1, le=90)
    min_reliability_score: float = Field(default=0.8, ge=0, le=1)


class RunCreateRequest(BaseModel):
    pack_type: str
    inputs: dict[str, Any]
    reservation: Reservation


@app.post("/v1/runs", status_code=202)
async def submit(
    body: RunCreateRequest, response: Response, idempotency_key: Annotated[str, Header()]
) -> dict[str, Any]:
    run_id, token = uuid.uuid4(), secrets.token_hex(16)
    digest = hashlib.sha256(json.dumps(body.model_dump(), sort_keys=True).encode()).hexdigest()
    async with REDIS.pipeline(transaction=False) as pipeline:
        pipeline.incr(f"bench-rate:{TENANT_ID}")
        pipeline.set(f"bench-lock:{idempotency_key}", token, nx=True, ex=5)
        pipeline.hget(f"bench-idem:{idempotency_key}", "run_id")
        pipeline.get(f"bench:{TENANT_ID}:balance")
        await pipeline.execute()
    async with SESSIONS() as session:
        session.add(
            Run(
                run_id=run_id, tenant_id=TENANT_ID, pack_type=body.pack_type, profile_version="bench",
                status="QUEUED", money_state="NONE", idempotency_key=idempotency_key, payload_hash=digest, version=0,
                reservation_max_cost_usd_micros=250_000, minimum_fee_usd_micros=5_000,
                retention_until=clock.now().astimezone(UTC) + timedelta(days=30), trace_id="bench", last_actor="bench",
            )
        )  # fmt: skip
        await session.flush()
        session.add(
            RunInputs(run_id=run_id, inputs=body.inputs, timebox_sec=90, min_reliability_score=0.8, inline=False)
        )
        await session.commit()
    await HOLD(
        keys=[f"bench:{TENANT_ID}:balance", f"bench-holds:{TENANT_ID}", f"bench-reserve:{run_id}"],
        args=[250_000, str(run_id), TENANT_ID],
    )
    async with SESSIONS() as session:
        await session.execute(
            update(Run)
            .where(Run.run_id == run_id, Run.version == 0, Run.money_state == "NONE")
            .values(money_state="RESERVED", version=Run.version + 1, next_send_at=func.now() + timedelta(seconds=150))
        )
        await session.commit()
    async with REDIS.pipeline(transaction=False) as pipeline:
        pipeline.hset(f"bench-idem:{idempotency_key}", mapping={"run_id": str(run_id), "payload_hash": digest})
        pipeline.expire(f"bench-idem:{idempotency_key}", 2_592_000)
        pipeline.delete(f"bench-lock:{idempotency_key}")
        await pipeline.execute()
    message = QueueMessage(json.dumps({"run_id": str(run_id), "tenant_id": TENANT_ID}) + " " * 1_100, group=TENANT_ID)
    await asyncio.to_thread(shared_sender().send, message)
    response.headers["Location"] = f"/v1/runs/{run_id}"
    return {"run_id": str(run_id), "status": "QUEUED", "reservation": body.reservation.model_dump()}
