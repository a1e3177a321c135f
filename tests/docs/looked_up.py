"""Commands of the pages beside docs, which are many: each is typed by another test, or it is said
why by none.
"""

README = "../README.md"
"""Followed by test_readme.py."""
OUTSIDE = {README, "../CONTRIBUTING.md", "methods.md", "real-model.md"}
"""Pages that name commands one by one; those of real-model.md take hours: test_running_time.py and
test_real_model.py run them in small.
"""
AS_THEY_STAND = {"how-to/cluster.md", "how-to/schedule.md", "how-to/watch.md"}
"""Pages whose commands stay up, or need several hosts: test_typed.py types them in terminals."""

TYPED = {
    "dpicl run few-shot-demo": ("tests/cli/test_text_commands.py", "few-shot-demo"),
    "dpicl contract check": ("tests/cli/test_contract_schema.py", "contract check"),
    "dpicl protect": ("tests/cli/test_protect.py", "protect "),
    "dpicl ask": ("tests/cli/test_ask_command.py", "ask "),
    "dpicl data publish": ("tests/cli/test_contributing.py", "CONTRIBUTING"),
    "dpicl run private-table": ("tests/cli/test_contributing.py", "CONTRIBUTING"),
    "python -m dpicl.client": ("tests/cli/test_client.py", "dpicl.client"),
}
"""How a command begins, by which test it is typed, and the words there; of several beginnings the
longest counts.
"""

NOT_TYPED = {
    "dpicl run few-shot-table": "needs data sets and a GPU",
    "dpicl run dp-icl-": "needs data sets and a GPU",
    "dpicl run real-": "take three hours each",
    "dpicl plan": "takes half a minute; choose-a-method.md is followed",
}
