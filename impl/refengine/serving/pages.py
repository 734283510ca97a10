"""What is there to be looked at: models, health, metrics."""

from __future__ import annotations

from dataclasses import asdict

from prometheus_client import exposition
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from .refused import Refused
from .service import Service

QUESTIONS = {"live": "alive", "ready": "ready", "progress": "progressing"}
"""Last part of a path of `/health/…`, and the question that it answers."""


class Pages:
    """The endpoints that are read."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def health(self, _: Request) -> Response:
        """All three questions, each replica, the drain (SPEC E4): 200 if all answers are yes."""
        health = asdict(self._service.health())
        yes = all(health[question] for question in QUESTIONS.values())
        return _judged(health | self._service.about(), yes)

    async def one_question(self, request: Request) -> Response:
        """One of the three alone: 200 for yes, 503 for no."""
        question = QUESTIONS.get(request.path_params["question"])
        if question is None:
            raise Refused(404, f"/health has {', '.join(QUESTIONS)} below it")
        answer = asdict(self._service.health())[question]
        return _judged({question: answer}, answer)

    async def models(self, _: Request) -> Response:
        """The one model that there is."""
        return JSONResponse({"object": "list", "data": [self._model()]})

    async def model(self, request: Request) -> Response:
        """That one, by its name."""
        if (name := request.path_params["name"]) != self._service.model:
            raise Refused(404, f"the model {name!r} is not served", "model", "model_not_found")
        return JSONResponse(self._model())

    async def metrics(self, request: Request) -> Response:
        """For Prometheus, in the form that it asks for."""
        encode, kind = exposition.choose_encoder(request.headers.get("accept", ""))
        return Response(encode(self._service.metrics.registry), headers={"content-type": kind})

    def _model(self) -> dict[str, object]:
        return {
            "id": self._service.model,
            "object": "model",
            "created": self._service.began,
            "owned_by": "refengine",
        }


def _judged(answer: object, yes: bool) -> Response:
    headers = {"cache-control": "no-store"}
    return JSONResponse(answer, 200 if yes else 503, headers=headers)
