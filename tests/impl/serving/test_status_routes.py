"""Health tells three things apart, models and metrics are there to be read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from refengine.serving.app import application
from refengine.serving.service import Service

from .exchange import answer
from .fake_engine import WELL, FakeEngine, spelled

QUESTIONS = ("alive", "ready", "progressing")
PATHS = {"alive": "/health/live", "ready": "/health/ready", "progressing": "/health/progress"}


def _service(engine: FakeEngine | None, **more: Any) -> Service:
    service = Service("tiny", **more)
    service.engine = engine
    return service


def test_a_healthy_engine_is_200_with_its_replicas() -> None:
    got = answer(application(_service(FakeEngine())), "GET", "/health")
    assert got.status == 200
    assert got.json == {
        "alive": True,
        "ready": True,
        "progressing": True,
        "replicas": [
            {
                "name": "core-0",
                "pid": 7,
                "state": "ready",
                "waiting": 1,
                "running": 2,
                "since_step": 0.5,
            }
        ],
        "drain": 10.0,
        "draining": False,
    }


@pytest.mark.parametrize("no", QUESTIONS)
def test_each_question_is_answered_alone(no: str) -> None:
    engine = FakeEngine()
    engine.says = replace(WELL, **{no: False})
    app = application(_service(engine))
    assert answer(app, "GET", "/health").status == 503
    for question, path in PATHS.items():
        got = answer(app, "GET", path)
        assert got.status == (503 if question == no else 200)
        assert got.json == {question: question != no}


def test_an_engine_that_starts_is_alive_and_not_ready() -> None:
    app = application(_service(None))
    assert answer(app, "GET", "/health").status == 503
    assert [answer(app, "GET", path).status for path in PATHS.values()] == [200, 503, 200]


def test_a_server_that_drains_is_alive_and_not_ready() -> None:
    service = _service(FakeEngine())
    app = application(service)
    service.drain.begin()
    got = answer(app, "GET", "/health")
    assert (got.status, got.json["draining"], got.json["drain"]) == (503, True, 10.0)
    assert [answer(app, "GET", path).status for path in PATHS.values()] == [200, 503, 200]


def test_no_other_question_is_answered() -> None:
    assert answer(application(_service(None)), "GET", "/health/wealth").status == 404


def test_the_model_is_listed() -> None:
    app = application(_service(None, wall=lambda: 5.5))
    model = {"id": "tiny", "object": "model", "created": 5, "owned_by": "refengine"}
    assert answer(app, "GET", "/v1/models").json == {"object": "list", "data": [model]}
    assert answer(app, "GET", "/v1/models/tiny").json == model
    assert answer(app, "GET", "/v1/models/other").json["error"]["code"] == "model_not_found"


def test_counts_of_the_engine_are_metrics() -> None:
    metrics = _metrics(application(_service(FakeEngine())))
    expected = {
        ("refengine_requests_total", "stop"): 3,
        ("refengine_requests_total", "failed"): 1,
        ("refengine_requests_open", ""): 2,
        ("refengine_prompt_tokens_total", ""): 40,
        ("refengine_tokens_total", ""): 50,
        ("refengine_retries_total", ""): 4,
        ("refengine_restarts_total", "core-0"): 5,
        ("refengine_requests_waiting", "core-0"): 1,
        ("refengine_requests_running", "core-0"): 2,
        ("refengine_steps_total", "core-0"): 60,
        ("refengine_wave", ""): 6,
        ("refengine_health", "alive"): 1,
        ("refengine_health", "ready"): 1,
    }
    assert {name: metrics.get(name) for name in expected} == expected


def test_before_there_is_an_engine_its_health_is_a_metric() -> None:
    metrics = _metrics(application(_service(None)))
    assert metrics["refengine_health", "ready"] == 0
    assert metrics["refengine_health", "alive"] == 1


def test_waits_are_measured() -> None:
    times = iter(range(100))
    service = _service(FakeEngine(script=spelled("abc")), clock=lambda: float(next(times)))
    app = application(service)
    answer(app, "POST", "/v1/completions", {"prompt": "a"})
    answer(app, "POST", "/v1/completions", {"prompt": "a", "n": 7})
    metrics = _metrics(app)
    assert metrics["refengine_time_to_first_token_seconds_sum", ""] == 1
    assert metrics["refengine_inter_token_seconds_count", ""] == 2
    assert metrics["refengine_inter_token_seconds_sum", ""] == 2
    assert metrics["refengine_request_seconds_sum", ""] == 4
    assert metrics["refengine_http_responses_total", "200"] == 1
    assert metrics["refengine_http_responses_total", "400"] == 1


def test_two_services_do_not_share_metrics() -> None:
    first, second = (application(_service(FakeEngine(script=spelled("a")))) for _ in range(2))
    answer(first, "POST", "/v1/completions", {"prompt": "a"})
    assert _metrics(second)["refengine_request_seconds_count", ""] == 0


def _metrics(app: Any) -> dict[tuple[str, str], float]:
    got = answer(app, "GET", "/metrics")
    assert got.status == 200
    assert got.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, "".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(got.body.decode())
        for sample in family.samples
        if "le" not in sample.labels
    }
