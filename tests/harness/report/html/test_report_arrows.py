"""Messages are drawn from the event that sent them to the one that shows their arrival."""

from synthetic import Tape

from killpoint.report.html.arrows import arrows


def _drawn(tape: Tape) -> list[tuple[str, str, str, str]]:
    """Each arrow: sender, receiver, label, what is odd."""
    return [
        (
            tape.events[arrow.source].role,
            tape.events[arrow.to].role if arrow.to >= 0 else "",
            arrow.label,
            arrow.odd,
        )
        for arrow in arrows(tape.events)
    ]


def test_a_message_of_a_queue_leads_to_each_reader_that_got_it() -> None:
    tape = Tape().sent(0).gets(0).gets(0, "reader-1")
    assert _drawn(tape) == [("writer", "reader-0", "0", ""), ("writer", "reader-1", "0", "")]


def test_an_altered_and_a_repeated_message_are_marked() -> None:
    tape = Tape().sent(4).gets(4, digest="other").gets(4)
    assert [odd for *_, odd in _drawn(tape)] == ["altered", "again"]


def test_what_was_accepted_and_never_seen_again_leads_nowhere() -> None:
    assert _drawn(Tape().sent(0).sent(1, outcome="timeout")) == [("writer", "", "0", "")]


def test_a_message_may_arrive_before_its_sender_comes_back() -> None:
    tape = Tape().sends(0).gets(0).tell("writer", "sent", seq=0, outcome="ok")
    assert _drawn(tape) == [("writer", "reader-0", "0", "")]


def test_tensors_of_a_pipe_are_paired_by_their_content_each_once() -> None:
    tape = Tape()
    for seq in (0, 1):
        tape.tell("pipe-0", "pipe-send", seq=seq, digest="same")
        tape.tell("pipe-0", "pipe-sent", seq=seq, outcome="ok")
    tape.tell("pipe-1", "pipe-got", outcome="ok", digest="same")
    tape.tell("pipe-1", "pipe-got", outcome="ok", digest="same")
    assert [(label, role) for _, role, label, _ in _drawn(tape)] == [
        ("0", "pipe-1"),
        ("1", "pipe-1"),
    ]


def test_a_call_leads_to_its_workers_and_their_replies_back_a_stale_one_marked() -> None:
    tape = Tape().tell("executor", "call", n=3, method="echo")
    tape.tell("worker-0", "serving", call=3).tell("worker-0", "served", call=3)
    tape.tell("executor", "call-done", n=3, outcome="ok", replies=[[0, 3, "d"]])
    tape.tell("executor", "call", n=4)
    tape.tell("executor", "call-done", n=4, outcome="ok", replies=[[0, 3, "d"]])
    assert _drawn(tape) == [
        ("executor", "worker-0", "3", ""),
        ("worker-0", "executor", "3", ""),
        ("worker-0", "executor", "3", "the reply of call 3"),
    ]


def test_what_ranks_of_a_group_gather_comes_from_each_other_rank() -> None:
    tape = Tape()
    for seq, rank in enumerate(("rank-0", "rank-1")):
        tape.tell(rank, "gather", seq=seq, digest=f"d{seq}")
    tape.tell("rank-0", "gathered", outcome="ok", seqs=[0, 1], digests=["d0", "d1"])
    tape.tell("rank-1", "broadcast", seq=2, digest="d2")
    tape.tell("rank-0", "broadcast-done", outcome="ok", seq=2, digest="d2")
    assert _drawn(tape) == [("rank-1", "rank-0", "1", ""), ("rank-1", "rank-0", "2", "")]
