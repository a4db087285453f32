"""A receiver as many teams write it: FastAPI verifies, Celery queues. `python -m tests.benchmarks.peers.fastapi_celery PORT SECRET`."""

import hashlib
import hmac
import sys

import uvicorn
from celery import Celery
from fastapi import FastAPI, HTTPException, Request

from tests.benchmarks.peers.server import url

queue = Celery(broker=url())
queue.conf.update(task_ignore_result=True, broker_connection_retry_on_startup=True)
api = FastAPI()


@queue.task
def process(delivery: str, event: str, body: str) -> None:
    """Run by a worker, which is not what is measured here."""


@api.post("/hooks/{tenant}/{source}", status_code=202)
async def hook(request: Request) -> dict[str, str]:
    body = await request.body()
    digest = hmac.new(SECRET, body, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(f"sha256={digest}", request.headers.get("x-hub-signature-256", "")):
        raise HTTPException(401)
    delivery = request.headers["x-github-delivery"]
    # In the event loop: in threads, which take turns anyway, it takes longer.
    process.delay(delivery, request.headers["x-github-event"], body.decode())
    return {"delivery": delivery}


if __name__ == "__main__":
    SECRET = sys.argv[2].encode()
    uvicorn.run(api, port=int(sys.argv[1]), http="httptools", loop="uvloop", access_log=False, log_level="warning")
