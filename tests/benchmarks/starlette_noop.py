"""The least that a receiver could do: a Starlette application that reads the body and answers. `python -m ... PORT`."""

from __future__ import annotations

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


async def hook(request: Request) -> Response:
    await request.body()
    return Response(b'{"status":"accepted"}', status_code=202, media_type="application/json")


app = Starlette(routes=[Route("/hooks/{tenant}/{source}", hook, methods=["POST"])])

if __name__ == "__main__":
    uvicorn.run(
        app, port=int(sys.argv[1]), http="httptools", loop="uvloop", ws="none", lifespan="off", access_log=False, log_level="warning",
        proxy_headers=False, server_header=False,
    )  # fmt: skip
