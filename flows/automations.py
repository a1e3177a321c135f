"""What a Prefect server watches for us: low budgets, failed checks, runs that went silent.

The first two follow events that runs send, with counts and costs and no value. The last one is the
absence of a flow run's heartbeats: such a run is marked as crashed, so that it does not hold its
place indefinitely.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from prefect.automations import AutomationCore
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState, DoNothing, SendNotification
from prefect.events.schemas.automations import EventTrigger, Posture
from prefect.exceptions import ObjectNotFound

from dpicl.errors import RunError
from flows.recovery import GIVEN_UP
from tasks.artifacts import BUDGET_LOW, VALIDATION_FAILED

SILENT = timedelta(seconds=420)
"""Nine of our heartbeats, and two of a process that knows of Prefect's own interval only."""
PREFIX = "dpicl: "
_ENDS = ("Completed", "Failed", "Cancelled", "Crashed", "AwaitingRetry", "Paused", "Suspended")
_WENT_SILENT = EventTrigger(
    match={"prefect.resource.id": "prefect.flow-run.*"},
    match_related={"prefect.resource.role": "flow", "prefect.resource.name": "sweep"},
    after={"prefect.flow-run.heartbeat"},
    expect={"prefect.flow-run.heartbeat", *(f"prefect.flow-run.{state}" for state in _ENDS)},
    for_each={"prefect.resource.id"},
    posture=Posture.Proactive,
    threshold=1,
    within=SILENT,
)
"""Once a flow run of ours has shown a heartbeat, the next one or an end must follow."""


def ensure_automations(notify: str | None) -> None:
    """Make or renew the automations on the server.

    Args:
        notify: a notification block as `type/name`, e.g. `slack-webhook/on-call`; None only shows
            what fired.

    Raises:
        RunError: the server has no such block.
    """
    block: UUID | None = None
    if notify:
        kind, _, name = notify.partition("/")
        with get_client(sync_client=True) as client:
            try:
                block = client.read_block_document_by_name(name, kind, include_secrets=False).id
            except ObjectNotFound:
                raise RunError(
                    f"notification block {notify[:80]!r}: the server has none; expected "
                    f"type/name, e.g. slack-webhook/on-call"
                ) from None

    def notice(sentence: str) -> list[SendNotification]:
        body = "{{ event.event }}\n{{ event.payload }}"
        return (
            [SendNotification(block_document_id=block, subject=f"dpicl: {sentence}", body=body)]
            if block
            else []
        )

    wanted = [
        AutomationCore(
            name=f"{PREFIX}{name}",
            description=f"Fires when {sentence}.",
            trigger=EventTrigger(
                expect={event},
                for_each={"prefect.resource.id"},
                posture=Posture.Reactive,
                threshold=1,
                within=timedelta(0),
            ),
            actions=notice(sentence) or [DoNothing()],
        )
        for name, event, sentence in (
            (
                "budget low",
                BUDGET_LOW,
                "the budget will not last the schedule, or has refused a run",
            ),
            ("validation failed", VALIDATION_FAILED, "the checks of a data set failed"),
            ("run given up", GIVEN_UP, "a run failed and is not tried again"),
        )
    ]
    crashed = ChangeFlowRunState(
        state=StateType.CRASHED, message=f"no sign of life for {SILENT.total_seconds():g} s"
    )
    silent = (
        f"Fires when a run has shown no sign of life for {SILENT.total_seconds() / 60:g} minutes, "
        f"and marks it as crashed."
    )
    actions = [crashed, *notice("a run went silent")]
    wanted.append(
        AutomationCore(
            name=f"{PREFIX}run stuck", description=silent, trigger=_WENT_SILENT, actions=actions
        )
    )
    with get_client(sync_client=True) as client:
        for automation in wanted:
            known = client.read_automations_by_name(automation.name)
            if known:
                client.update_automation(known[0].id, automation)
            else:
                client.create_automation(automation)
