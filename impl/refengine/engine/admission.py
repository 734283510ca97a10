"""Which requests can never be served, whoever takes them."""

from collections.abc import Sequence

from .settings import EngineSettings


def check(settings: EngineSettings, prompt: Sequence[int], max_tokens: int) -> None:
    """ValueError, which says what is wrong with it."""
    vocabulary, most = settings.size.vocabulary, settings.most_tokens
    if not prompt or max_tokens < 1:
        raise ValueError("a request needs a prompt, and asks for at least one token")
    if not all(0 <= token < vocabulary for token in prompt):
        raise ValueError(f"the prompt has tokens that are not below {vocabulary}")
    if len(prompt) + max_tokens - 1 > most:
        raise ValueError(
            f"{len(prompt)} tokens and {max_tokens} more never fit into a KV cache of {most}"
        )
