"""Bugs planted in the HTTP server, each after one that a real project has fixed."""

from __future__ import annotations

from mutant import Edit

from planted.bug import PlantedBug

BUGS: tuple[PlantedBug, ...] = (
    PlantedBug(
        name="server_hang_up_after_the_first_choice_goes_unheard",
        system="server",
        edits=(
            Edit(
                "serving/request_handler.py",
                "            if isinstance(event, BaseException):\n"
                "                raise event\n"
                "            choice = self.choices[index]\n"
                "            if choice.finish is None:\n"
                "                break\n",
                "            choice = self.choices[index]\n"
                "            if choice.finish is None:\n"
                "                break\n"
                "        if isinstance(event, BaseException):\n"
                "            raise event\n",
            ),
        ),
        breaks=("E9", "E6"),
        seen="A request has several prompts, and the first one's completion has ended: if its"
        " client hangs up now, the others are computed to their ends, for nobody, and keep their"
        " places and blocks; the end of a drain does not reach such a request either.",
        fixed="vLLM aborted only one of the running prompts of a completions request when its"
        " client hung up.",
        link="https://github.com/vllm-project/vllm/pull/7111",
    ),
    PlantedBug(
        name="server_prompts_before_a_refused_one_are_computed",
        system="server",
        edits=(
            Edit(
                "serving/request_handler.py",
                "        try:\n"
                "            for index, prompt in enumerate(self.prompts):\n"
                '                self._submit(engine, prompt, f"{name}-{index}")\n'
                "            yield self\n",
                "        for index, prompt in enumerate(self.prompts):\n"
                '            self._submit(engine, prompt, f"{name}-{index}")\n'
                "        try:\n"
                "            yield self\n",
            ),
        ),
        breaks=("E10", "E9"),
        seen="Of a request's several prompts one that is not the first can never be served (a token"
        " beyond the vocabulary, more than the cache holds): the client gets its 400, and the"
        " prompts before that one are computed to their ends in places that others wait for.",
        fixed="vLLM left the prompts of a batch that it had queued already in the engine when a"
        " later one was found invalid and the call raised.",
        link="https://github.com/vllm-project/vllm/pull/27420",
    ),
    PlantedBug(
        name="server_stop_string_that_repeats_its_beginning_is_missed",
        system="server",
        edits=(
            Edit(
                "serving/completion.py",
                "        for length in range(min(longest, len(self._held)), 0, -1):\n",
                "        for length in range(1, min(longest, len(self._held)) + 1):\n",
            ),
        ),
        breaks=("E2",),
        seen="A stop string of three or more characters begins again within itself (`###`, `aab`,"
        " three newlines), or within another one: what is held back is too short, and a text that"
        " has the stop string goes on past it, streamed or whole, as if it were none.",
        fixed="Arduino's Stream.findUntil forgot what had matched when a character broke a match in"
        " a target that repeats its own beginning, and so missed it in the stream.",
        link="https://github.com/arduino/Arduino/issues/769",
    ),
    PlantedBug(
        name="server_choices_share_one_stop_finder",
        system="server",
        edits=(
            Edit(
                "serving/completion.py",
                "    def __init__(self, stops: tuple[str, ...] = ()) -> None:\n",
                "    def __init__(\n"
                "        self, stops: tuple[str, ...] = (), finder: StopFinder | None = None\n"
                "    ) -> None:\n",
            ),
            Edit(
                "serving/completion.py",
                "        self._finder = StopFinder(stops)\n",
                "        self._finder = finder or StopFinder(stops)\n",
            ),
            Edit(
                "serving/request_handler.py",
                "from .completion import Choice, CompletionRequest, Piece\n",
                "from .completion import Choice, CompletionRequest, Piece, StopFinder\n",
            ),
            Edit(
                "serving/request_handler.py",
                "        self.choices = [Choice(request.stops()) for _ in self.prompts]\n",
                "        stops = request.stops()\n"
                "        finder = StopFinder(stops)\n"
                "        self.choices = [Choice(stops, finder) for _ in self.prompts]\n",
            ),
        ),
        breaks=("E2", "E5"),
        seen="A request has several prompts and a stop string: text that is held back for one"
        " completion comes out in another, a stop string is missed because the other's text came"
        " in between, and once one has stopped the others stop at their next token, cut short with"
        " status 200 and the finish `stop`.",
        fixed="Dynamo's frontend had one reasoning parser for all choices of a streamed request, so"
        " that what one choice said changed how the text of the others was taken.",
        link="https://github.com/ai-dynamo/dynamo/pull/11563",
    ),
    PlantedBug(
        name="server_length_hides_a_stop_string_at_the_limit",
        system="server",
        edits=(
            Edit(
                "serving/completion.py",
                '        if self._finder.stopped:\n            self.finish = "stop"\n',
                "        if self._finder.stopped and self.finish is None:\n"
                '            self.finish = "stop"\n',
            ),
        ),
        breaks=("E2",),
        seen="The token that completes a stop string is the last one that max_tokens allows"
        " (max_tokens 1 and a stop string of one character, say): the text is cut as it should be,"
        " but its finish_reason is `length`, so clients ask for more of an answer that is whole.",
        fixed="SGLang looked at the limit before the stop conditions, so that a stop in the step"
        " that reached max_new_tokens was reported as a length finish.",
        link="https://github.com/sgl-project/sglang/pull/33758",
    ),
    PlantedBug(
        name="server_front_ends_share_one_table_of_requests",
        system="server",
        edits=(
            Edit(
                "serving/front_ends/handle.py",
                '    """One process of a front end. It starts at once, and ends when this process'
                ' does."""\n',
                '    """One process of a front end. It starts at once, and ends when this process'
                ' does."""\n\n'
                "    requests: dict[int, Stream] = {}\n"
                '    """Requests that have not ended, by the front end\'s number."""\n',
            ),
            Edit(
                "serving/front_ends/handle.py",
                "        self.requests: dict[int, Stream] = {}\n"
                '        """Requests that have not ended, by the front end\'s number."""\n',
                "",
            ),
        ),
        breaks=("E1", "E5", "E9"),
        seen="Each of several front ends counts its requests from 1, and two have one open under"
        " the same number: when one ends, no more tokens come for the other, whose client waits"
        " without end; a hang-up cancels the wrong one; and with one front end the requests of all"
        " are cancelled.",
        fixed="vLLM's API server processes each counted multimodal requests for themselves, so that"
        " the engine took requests of different processes for one and the same.",
        link="https://github.com/vllm-project/vllm/pull/36150",
    ),
)
