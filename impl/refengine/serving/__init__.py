"""The engine over HTTP: OpenAI-compatible completions, health, metrics (SPEC 8).

Its modules need starlette, uvicorn and prometheus-client; nothing else of refengine imports them.
"""
