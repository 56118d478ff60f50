"""The budget, by a clock that the tests move: no test here depends on how fast the machine is."""

from __future__ import annotations

import itertools

import pytest

from fullspan.errors import InputError
from fullspan.monitor.schedule import LOOK_SECONDS, PULSE_SHARE, TIMED_CALLS, Schedule, Seconds
from tests.unit.monitor.clocks import Hands


@pytest.fixture
def hands():
    return Hands()


def train(schedule, hands, steps, *, step=0.02, cpu=None, pulse=0.04, pulse_cpu=None, from_=0):
    """Train as a watcher would: look when it is due, pulse when that is affordable; gives the steps of pulses."""
    pulses, due, worst = [], from_ + 1, 0.0
    for at in range(from_ + 1, from_ + steps + 1):
        hands.pass_(step, step if cpu is None else cpu)
        if at < due:
            continue
        if schedule.pulse_due(at):
            with schedule.reading("pulse"):
                hands.pass_(pulse, pulse if pulse_cpu is None else pulse_cpu)
            schedule.pulsed(at)
            pulses.append(at)
        due = schedule.next_look(at)
        assert due > at
        worst = max(worst, schedule.overhead if pulses else 0.0)
    return pulses, worst


def test_pulses_keep_to_the_budget_at_all_times(hands):
    schedule = Schedule("auto", 0.01, hands.clock)
    with schedule.spending("start-up"):
        hands.pass_(0.3)
    schedule.guess("pulse", 0.04)
    schedule.begin(0)
    pulses, worst = train(schedule, hands, 20_000)
    assert worst <= 0.01
    assert pulses[0] * 0.02 >= (0.3 + 0.04) / 0.01  # start-up is paid first
    gaps = {b - a for a, b in itertools.pairwise(pulses[1:])}
    assert gaps  # and then a pulse takes its part of the budget
    assert min(gaps) >= 0.04 / (0.01 * PULSE_SHARE) / 0.02 - 1
    assert max(gaps) <= 0.04 / (0.01 * PULSE_SHARE) / 0.02 + LOOK_SECONDS / 0.02


def test_the_slower_of_the_two_clocks_decides(hands):
    schedule = Schedule("auto", 0.01, hands.clock)
    schedule.begin(0)
    train(schedule, hands, 5000, cpu=0.16, pulse_cpu=0.04)  # eight threads train, one reads
    assert schedule.shares.wall == pytest.approx(0.01 * PULSE_SHARE, rel=0.2)
    assert schedule.overhead == schedule.shares.wall > 4 * schedule.shares.cpu
    idle = Schedule("auto", 0.01, hands.clock)
    idle.begin(0)
    train(idle, hands, 5000, cpu=0.002, pulse_cpu=0.04)  # a host that waits for a device
    assert idle.overhead == idle.shares.cpu <= 0.01


def test_time_before_the_first_step_is_no_training(hands):
    schedule = Schedule("auto", 0.01, hands.clock)
    hands.pass_(10_000)
    schedule.begin(0)
    schedule.guess("pulse", 0.04)
    assert schedule.trained == (0.0, 0.0)
    assert not schedule.pulse_due(1)
    assert schedule.overhead == 0.0


def test_time_after_the_end_is_no_training_and_still_costs(hands):
    schedule = Schedule("auto", 0.5, hands.clock)
    schedule.begin(0)
    hands.pass_(10)
    schedule.end()
    hands.pass_(100)
    with schedule.spending("pulse"):
        hands.pass_(1)
    assert schedule.trained == (10.0, 10.0)
    assert schedule.overhead == pytest.approx(0.1)


def test_half_of_the_budget_is_saved_for_full_passes(hands):
    schedule = Schedule("auto", 0.01, hands.clock)
    schedule.begin(0)
    schedule.guess("full", 1.0)
    train(schedule, hands, 5000)
    assert not schedule.affords("full")  # 100 s trained: half a second saved
    train(schedule, hands, 6000, from_=5000)
    assert schedule.affords("full")
    with schedule.reading("full"):
        hands.pass_(1.0)
    assert schedule.overhead <= 0.01
    assert not schedule.affords("full")


def test_a_number_of_steps_is_kept_whatever_it_costs(hands):
    schedule = Schedule(30, 0.01, hands.clock)
    schedule.begin(0)
    pulses, _ = train(schedule, hands, 100, pulse=10.0)
    assert pulses == [30, 60, 90]
    schedule.guess("full", 0.01)
    assert schedule.affords("full")  # what was asked for does not count against what was not


def test_multiples_are_met_when_steps_come_several_at_once(hands):
    schedule = Schedule(10, 0.01, hands.clock)
    schedule.begin(0)
    hands.pass_(1.0)
    assert not schedule.pulse_due(7)
    assert schedule.pulse_due(14)
    schedule.pulsed(14)
    assert not schedule.pulse_due(19)
    assert schedule.pulse_due(20)
    assert schedule.next_look(14) <= 20


def test_none_reads_at_no_step(hands):
    schedule = Schedule(None, 0.01, hands.clock)
    schedule.begin(0)
    assert train(schedule, hands, 1000)[0] == []


def test_looks_are_rare_between_pulses_and_never_far_apart(hands):
    schedule = Schedule("auto", 0.01, hands.clock)
    schedule.guess("pulse", 5.0)
    schedule.begin(0)
    looks, at = [], 1
    for step in range(1, 20_001):
        hands.pass_(0.001)
        if step >= at:
            at = schedule.next_look(step)
            looks.append(step)
    assert len(looks) < 40
    assert max(b - a for a, b in itertools.pairwise(looks)) <= LOOK_SECONDS / 0.001


def test_the_first_reading_is_dearer_and_forgotten(hands):
    schedule = Schedule("auto", 0.01, hands.clock)
    schedule.guess("pulse", 0.01)
    assert schedule.cost("pulse") == (0.01, 0.01)
    schedule.learn("pulse", schedule.cost("pulse").times(10))
    assert schedule.cost("pulse").cpu == pytest.approx(0.1)
    for _ in range(6):
        schedule.learn("pulse", Seconds(0.004, 0.004))
    assert schedule.cost("pulse").cpu < 0.01


def test_time_within_time_counts_once(hands):
    schedule = Schedule("auto", 0.01, hands.clock)
    with schedule.spending("outer"):
        hands.pass_(1)
        with schedule.spending("inner"):
            hands.pass_(1)
    assert schedule.spent == (2.0, 2.0)
    assert schedule.spent_on("outer").cpu == 2.0
    assert schedule.spent_on("inner").cpu == 0.0


def test_an_error_inside_is_counted_as_well(hands):
    schedule = Schedule("auto", 0.01, hands.clock)

    def fails():
        with schedule.spending("pulse"):
            hands.pass_(1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    with schedule.spending("pulse"):
        hands.pass_(1)
    assert schedule.spent_on("pulse").wall == 2.0


def test_scalars_of_short_steps_are_averaged(hands):
    schedule = Schedule("auto", 0.01, hands.clock)
    schedule.begin(0)
    assert schedule.window(1) == 1
    schedule.learn("scalar", Seconds(5e-6, 5e-6))
    hands.pass_(1.0)
    schedule.next_look(1000)  # a step of a millisecond: 2.5 microseconds may go to scalars
    assert schedule.window(1) == 2
    assert schedule.window(4) == 8
    slow = Schedule("auto", 0.01, hands.clock)
    slow.begin(0)
    slow.learn("scalar", schedule.cost("scalar"))
    hands.pass_(1.0)
    slow.next_look(10)
    assert slow.window(1) == 1
    assert Schedule(1, 0.01, hands.clock).window(100) == 1


def test_a_run_that_goes_on_keeps_its_account(hands):
    first = Schedule("auto", 0.01, hands.clock)
    with first.spending("start-up"):
        hands.pass_(0.3)
    first.begin(0)
    hands.pass_(100)
    first.learn("pulse", first.spent)
    state = first.state_dict()
    second = Schedule("auto", 0.01, hands.clock)
    with second.spending("start-up"):
        hands.pass_(0.3)
    second.load_state_dict(state)
    second.begin(5000)
    assert second.trained == pytest.approx((100, 100))
    assert second.spent == pytest.approx((0.6, 0.6))
    assert second.cost("pulse") == first.cost("pulse")
    hands.pass_(100)
    assert second.overhead == pytest.approx(0.003)


@pytest.mark.parametrize("every", [0, -1, 2.5, "often", True])
def test_every_is_checked(every):
    with pytest.raises(InputError, match=r'watch needs every="auto", a number of steps, or None .*; got'):
        Schedule(every, 0.01)


@pytest.mark.parametrize("budget", [0, -0.1, 1.5, "1%", None, True])
def test_the_budget_is_checked(budget):
    with pytest.raises(InputError, match=r"watch needs a budget in \(0, 1\], a share of the training time; got"):
        Schedule("auto", budget)


@pytest.mark.parametrize("calls", [2, 3, 4, 8, 16])
def test_every_call_of_a_step_has_its_turn_to_be_timed(calls):
    assert {number * TIMED_CALLS % calls for number in range(calls)} == set(range(calls))
