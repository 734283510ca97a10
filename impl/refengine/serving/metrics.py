"""Metrics for Prometheus: the engine's counts, and clients' waiting times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ..base.clock import Clock
from ..engine import ServedEngine
from .completion import Piece

Labels = tuple[tuple[str, str], ...]
Samples = tuple[tuple[str, Labels, float], ...]
"""Samples of metrics that only grow: name, labels, value."""

_REQUEST = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
_FIRST = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_BETWEEN = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


class Metrics:
    """Metrics in a registry of their own, apart from any others of this process.

    Args:
        engine: returns the engine whose counts are included.
        totals: samples of all processes that serve, if there are several; they are exposed in
            place of this process's own.
    """

    def __init__(
        self,
        engine: Callable[[], ServedEngine | None],
        totals: Callable[[], Samples] | None = None,
    ) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(EngineCollector(engine))
        self._own = self.registry if totals is None else CollectorRegistry()
        if totals is not None:
            self.registry.register(_Totals(self._own, totals))
        self.whole = self._histogram("request", "From a request to its end", _REQUEST)
        self.first = self._histogram("time_to_first_token", "To the first token", _FIRST)
        self.between = self._histogram("inter_token", "Between two tokens", _BETWEEN)
        self.answers = Counter(
            "refengine_http_responses",
            "Answers of the completions endpoint, by status; gone: the client hung up",
            ["status"],
            registry=self._own,
        )

    def samples(self) -> Samples:
        """Return the samples measured in this process."""
        return tuple(
            (sample.name, tuple(sample.labels.items()), float(sample.value))
            for family in self._own.collect()
            for sample in family.samples
            if not sample.name.endswith("_created")
        )

    def _histogram(self, name: str, about: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"refengine_{name}_seconds", about, buckets=buckets, registry=self._own)


class _Totals:
    """Metric families of a registry, with samples from elsewhere."""

    def __init__(self, own: CollectorRegistry, samples: Callable[[], Samples]) -> None:
        self._own, self._samples = own, samples

    def describe(self) -> Iterable[Metric]:
        """Return nothing: samples come later."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Yield the samples of all processes, as received last."""
        samples = self._samples()
        for family in self._own.collect():
            merged = Metric(family.name, family.documentation, family.type)
            for name, labels, value in samples:
                if name.rpartition("_")[0] == family.name:
                    merged.add_sample(name, dict(labels), value)
            yield merged


class Timing:
    """Times of one choice, from its creation on."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics, self._clock = metrics, clock
        self._began = clock()
        self._last: float | None = None

    def record(self, piece: Piece) -> None:
        """Record a piece's tokens; several at once count as evenly spaced since the last."""
        now = self._clock()
        tokens = len(piece.tokens)
        if tokens and self._last is None:
            self._metrics.first.observe(now - self._began)
        elif tokens and self._last is not None:
            for _ in range(tokens):
                self._metrics.between.observe((now - self._last) / tokens)
        if tokens:
            self._last = now
        if piece.finish:
            self._metrics.whole.observe(now - self._began)


class EngineCollector:
    """Collects the engine's counts on demand; none while there is no engine."""

    def __init__(self, engine: Callable[[], ServedEngine | None]) -> None:
        self._engine = engine

    def describe(self) -> Iterable[Metric]:
        """Return nothing: a registry asks for names before there is an engine."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Yield counts and health as metrics, all of one moment."""
        engine = self._engine()
        if engine is None:
            yield _gauge("health", "1: yes", "question", {"alive": 1, "ready": 0, "progressing": 1})
            return
        health, counts = engine.health(), engine.counts()
        answers = {
            "alive": health.alive,
            "ready": health.ready,
            "progressing": health.progressing,
        }
        yield _gauge("health", "1: yes", "question", answers)
        yield _counter("requests", "Requests that ended, by outcome", "outcome", counts.requests)
        yield _gauge("requests_open", "Requests that have not ended", "", {"": counts.open})
        yield _counter("prompt_tokens", "Of requests taken", "", {"": counts.prompt_tokens})
        yield _counter("tokens", "Tokens generated", "", {"": counts.tokens})
        yield _counter("retries", "Requests begun anew elsewhere", "", {"": counts.retries})
        yield _counter("restarts", "Parts started again", "part", counts.restarts)
        yield _counter("imported", "Prompts whose KV blocks were sent", "", {"": counts.imported})
        yield _gauge("requests_waiting", "By replica", "replica", counts.waiting)
        yield _gauge("requests_running", "By replica", "replica", counts.running)
        yield _counter("steps", "Of the model since its replica started", "replica", counts.steps)
        yield _gauge("wave", "Of the data-parallel replicas", "", {"": counts.wave})
        yield _counter("other", "Whatever else the engine counts", "what", counts.own)


def _counter(name: str, about: str, label: str, values: Mapping[str, float]) -> Metric:
    return _fill(CounterMetricFamily(f"refengine_{name}", about, labels=_labels(label)), values)


def _gauge(name: str, about: str, label: str, values: Mapping[str, float]) -> Metric:
    return _fill(GaugeMetricFamily(f"refengine_{name}", about, labels=_labels(label)), values)


def _labels(label: str) -> list[str]:
    return [label] if label else []


def _fill(
    family: CounterMetricFamily | GaugeMetricFamily, values: Mapping[str, float]
) -> CounterMetricFamily | GaugeMetricFamily:
    for value, number in values.items():
        family.add_metric([value] if value else [], number)
    return family


class MetricTotals:
    """Sums of several processes' samples, through all their lives: no sum ever falls.

    Sans I/O. A process is known by its name; call `retire` when it has ended.
    """

    def __init__(self) -> None:
        self._gone: Samples = ()
        self._alive: dict[str, Samples] = {}

    def update(self, name: str, samples: Samples) -> None:
        """Take a process's samples since its start."""
        self._alive[name] = samples

    def retire(self, name: str) -> None:
        """Keep the sums of a process that has ended; another may take its name."""
        self._gone = _sums(self._gone, self._alive.pop(name, ()))

    def samples(self) -> Samples:
        """Return the sums over all processes."""
        return _sums(self._gone, *self._alive.values())


def _sums(*several: Samples) -> Samples:
    sums: defaultdict[tuple[str, Labels], float] = defaultdict(float)
    for samples in several:
        for name, labels, value in samples:
            sums[name, labels] += value
    return tuple((name, labels, value) for (name, labels), value in sums.items())
