from refengine.executor.monitor import Escalation, EscalationStep


def test_steps_come_when_they_are_due_once_each_and_in_order():
    plan = Escalation(grace=1.0, term_grace=2.0, kill_grace=3.0, now=10.0)
    assert plan.step(9.9) is None
    assert [plan.step(10.0), plan.step(10.0)] == [EscalationStep.ASK, None]
    assert plan.next_at == 11.0
    assert [plan.step(11.0), plan.next_at] == [EscalationStep.TERMINATE, 13.0]
    assert [plan.step(13.5), plan.next_at] == [EscalationStep.KILL, 16.0]
    assert [plan.step(16.0), plan.next_at, plan.step(99.0)] == [EscalationStep.GIVE_UP, None, None]


def test_without_grace_two_steps_are_due_at_once():
    plan = Escalation(0.0, 1.0, 1.0, 0.0)
    assert [plan.step(0.0), plan.step(0.0), plan.step(0.0)] == [
        EscalationStep.ASK,
        EscalationStep.TERMINATE,
        None,
    ]
